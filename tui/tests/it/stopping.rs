//! Signals and time.

use std::time::Duration;

use gent_tui::{Interrupt, OutputFormat};
use serde_json::json;

use crate::scene::{Stdout, begin, begin_with, request};

fn cancel() -> serde_json::Value {
    json!({ "command": {
        "_tag": "Cancel", "sessionId": "s", "branchId": "b", "requestId": "cancel", "messageId": "message:r",
    } })
}

#[tokio::test]
async fn ctrl_c_cancels_exactly_this_turn_and_waits_for_its_end() {
    let mut scene = begin(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    let steer = peer.expect("steer.command").await;
    assert_eq!(steer["params"], cancel());
    peer.answer(&steer, json!({})).await;
    peer.prompt_received().await;
    peer.answered(1, "partial").await;
    peer.completed(json!({ "interrupted": true })).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 130);
    assert_eq!(written.out(), "partial\n");
    assert!(written.err().contains(&"· stopping the turn; Ctrl-C again leaves without waiting".to_owned()));
}

#[tokio::test]
async fn the_first_ctrl_c_is_answered_at_once_even_in_the_middle_of_a_line() {
    let mut request = request(OutputFormat::Text);
    request.terminals.stdout = true;
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.step_started(1, "run").await;
    peer.chunk(1, "run", 0, "half a li").await;
    while scene.written.out().is_empty() {
        tokio::task::yield_now().await;
    }
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    peer.expect("steer.command").await;
    // Nothing more comes from the server until the hint is there.
    let hint = "err: · stopping the turn; Ctrl-C again leaves without waiting".to_owned();
    while !scene.written.all().contains(&hint) {
        tokio::task::yield_now().await;
    }
    peer.chunk(1, "run", 9, "ne").await;
    peer.answered(1, "half a line").await;
    peer.completed(json!({ "interrupted": true })).await;
    let (_, written) = scene.end().await;
    let model = "err: · model demo/demo: it was asked for".to_owned();
    let shown: Vec<String> = written.all().into_iter().filter(|line| *line != model).collect();
    assert_eq!(shown[..5], ["out: half a li", "out: \n", hint.as_str(), "out: ne", "out: \n"]);
}

#[tokio::test]
async fn that_the_turn_was_cancelled_is_said_only_when_the_server_has_said_so() {
    for (is_kept, is_stored, message) in [
        (true, true, "the turn was cancelled"),
        (true, false, "left without waiting; the turn may still run in session s"),
        (false, false, "left without waiting; session s ends with its private server"),
    ] {
        let mut request = request(OutputFormat::Text);
        request.keeps_session = is_kept;
        let mut scene = begin(request, 1).await;
        let mut peer = scene.peer();
        peer.open().await;
        peer.prompt_received().await;
        scene.signals.send(Interrupt::CtrlC).await.unwrap();
        let steer = peer.expect("steer.command").await;
        if is_stored {
            peer.answer(&steer, json!({})).await;
            // What comes after the answer shows that it was read.
            peer.error("seen").await;
            while !scene.written.err().contains(&"error: seen".to_owned()) {
                tokio::task::yield_now().await;
            }
        }
        scene.signals.send(Interrupt::CtrlC).await.unwrap();
        // The goodbye takes back neither the prompt nor the cancel.
        assert_eq!(peer.expect("stream.cancel").await["params"]["subscription"], "sub");
        peer.expect("closed").await;
        let (outcome, _) = scene.end().await;
        assert_eq!((outcome.exit_code, outcome.result.error.unwrap().message.as_str()), (130, message));
    }
}

#[tokio::test]
async fn a_second_ctrl_c_leaves_without_waiting() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    peer.expect("steer.command").await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 130);
    assert!(written.out().contains(r#""outcome":"interrupted""#), "{}", written.out());
}

#[tokio::test]
async fn ctrl_c_before_the_prompt_is_sent_leaves_at_once() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    peer.expect("session.create").await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    let (outcome, _) = scene.end().await;
    assert_eq!((outcome.exit_code, outcome.result.session_id), (130, None));
}

#[tokio::test]
async fn sigterm_cancels_too_and_has_its_own_exit_code() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    scene.signals.send(Interrupt::Terminate).await.unwrap();
    peer.expect("steer.command").await;
    peer.prompt_received().await;
    peer.completed(json!({ "interrupted": true })).await;
    assert_eq!(scene.end().await.0.exit_code, 143);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_that_does_not_end_is_left() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    assert_eq!(scene.end().await.0.exit_code, 130);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_is_cancelled_and_interrupted_with_exit_one() {
    let mut request = request(OutputFormat::Json);
    request.timeout = Some(Duration::from_secs(5));
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    let steer = peer.expect("steer.command").await;
    assert_eq!(steer["params"], cancel());
    peer.prompt_received().await;
    peer.completed(json!({ "interrupted": true })).await;
    let (outcome, _) = scene.end().await;
    assert_eq!(outcome.exit_code, 1);
    let error = outcome.result.error.unwrap();
    assert_eq!(
        (error.tag.as_str(), error.message.as_str()),
        ("Timeout", "the turn took longer than 5 s and was cancelled")
    );
}

#[tokio::test(start_paused = true)]
async fn a_stuck_reader_does_not_keep_ctrl_c_from_being_heard() {
    let mut scene = begin_with(request(OutputFormat::StreamJson), 1, Stdout::Stuck).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    peer.expect("steer.command").await;
    scene.signals.send(Interrupt::CtrlC).await.unwrap();
    assert_eq!(scene.end().await.0.exit_code, 130);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_reader_does_not_keep_the_time_limit_from_being_kept() {
    let mut request = request(OutputFormat::StreamJson);
    request.timeout = Some(Duration::from_secs(5));
    let mut scene = begin_with(request, 1, Stdout::Stuck).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.expect("steer.command").await;
    let (outcome, _) = scene.end().await;
    assert_eq!((outcome.exit_code, outcome.result.error.unwrap().tag.as_str()), (1, "Timeout"));
}
