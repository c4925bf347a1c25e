//! A server that dies, drains, is busy or refuses.

use gent_tui::{Interrupt, OutputFormat};
use serde_json::json;

use crate::scene::{begin, request};

#[tokio::test(start_paused = true)]
async fn after_the_server_died_the_same_prompt_goes_on_from_the_last_event_seen() {
    let mut scene = begin(request(OutputFormat::StreamJson), 2).await;
    let mut first = scene.peer();
    let sent = first.open().await;
    first.prompt_received().await;
    first.step_started(1, "one").await;
    // The reader must have both before the server dies.
    while scene.written.out().lines().count() < 2 {
        tokio::task::yield_now().await;
    }
    drop(first);
    let mut second = scene.peer();
    assert_eq!(second.follow().await, json!({ "sessionId": "s", "branchId": "b", "after": 2 }));
    let again = second.expect("message.send").await;
    assert_eq!(again["params"], sent["params"]);
    second.last = 2;
    second.step_started(1, "two").await;
    second.answered(1, "Done.").await;
    second.completed(json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!((outcome.exit_code, outcome.result.text.as_str(), outcome.result.steps), (0, "Done.", 1));
    assert_eq!(written.out().lines().count(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_before_its_first_reply_is_asked_again_under_the_same_id() {
    let mut scene = begin(request(OutputFormat::Json), 2).await;
    let mut first = scene.peer();
    let create = first.expect("session.create").await;
    drop(first);
    let mut second = scene.peer();
    let again = second.expect("session.create").await;
    assert_eq!(again["params"], create["params"]);
    second.answer(&again, json!({ "sessionId": "s", "branchId": "b", "name": "n" })).await;
    second.follow().await;
    second.expect("message.send").await;
    second.tell_model().await;
    second.prompt_received().await;
    second.completed(json!({})).await;
    assert_eq!(scene.end().await.0.exit_code, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_back_ends_the_run_naming_the_session() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    drop(peer);
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 1);
    let error = outcome.result.error.unwrap();
    assert_eq!(error.tag, "ServerLost");
    assert_eq!(error.message, "the server did not come back within 30 s: nobody listens (session s)");
    assert_eq!(written.err().last(), Some(&format!("error: {}", error.message)));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_was_lost_with_the_server_is_sent_again() {
    let mut scene = begin(request(OutputFormat::Json), 2).await;
    let mut first = scene.peer();
    first.open().await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    first.expect("steer.command").await;
    drop(first);
    let mut second = scene.peer();
    second.follow().await;
    second.expect("message.send").await;
    second.expect("steer.command").await;
    second.prompt_received().await;
    second.completed(json!({ "interrupted": true })).await;
    assert_eq!(scene.end().await.0.exit_code, 130);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_a_draining_server_refuses_is_sent_again() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    let mut send = peer.open().await;
    for tag in ["Draining", "Busy", "OutcomeUnknown"] {
        peer.refuse(&send, tag, json!({ "retryAfterMs": 300 })).await;
        let again = peer.expect("message.send").await;
        assert_eq!(again["params"], send["params"]);
        send = again;
    }
    peer.prompt_received().await;
    peer.completed(json!({})).await;
    assert_eq!(scene.end().await.0.exit_code, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_for_ever_is_given_up() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    let mut send = peer.open().await;
    loop {
        peer.refuse(&send, "Busy", json!({})).await;
        send = peer.receive().await;
        if send["method"] != "message.send" {
            break;
        }
    }
    let (outcome, _) = scene.end().await;
    assert_eq!((outcome.exit_code, outcome.result.error.unwrap().tag.as_str()), (1, "Busy"));
}

#[tokio::test]
async fn a_prompt_that_cannot_become_a_turn_fails_at_once_and_leaves_no_empty_session() {
    let mut scene = begin(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    let send = peer.open().await;
    peer.refuse(&send, "LimitExceeded", json!({ "limit": "waiters", "max": 256 })).await;
    let delete = peer.expect("session.delete").await;
    assert_eq!(delete["params"], json!({ "sessionId": "s" }));
    peer.answer(&delete, json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.result.session_id, None);
    assert!(!written.err().iter().any(|line| line.contains("--session")), "{:?}", written.err());
    assert_eq!((outcome.exit_code, outcome.result.error.unwrap().tag.as_str()), (1, "LimitExceeded"));
}

#[tokio::test]
async fn a_session_that_could_not_be_removed_is_named() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    let send = peer.open().await;
    peer.refuse(&send, "LimitExceeded", json!({ "limit": "waiters", "max": 256 })).await;
    let delete = peer.expect("session.delete").await;
    peer.refuse(&delete, "StorageError", json!({})).await;
    let (outcome, _) = scene.end().await;
    assert_eq!(outcome.result.session_id.unwrap().as_str(), "s");
    assert_eq!(outcome.result.error.unwrap().tag, "LimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_an_end_of_the_turn_is_the_reason_shown() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    let send = peer.open().await;
    peer.refuse(&send, "StorageError", json!({})).await;
    let (outcome, _) = scene.end().await;
    assert_eq!((outcome.exit_code, outcome.result.error.unwrap().tag.as_str()), (1, "StorageError"));
}
