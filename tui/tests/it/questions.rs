//! A run that is asked something.

use gent_tui::{Grant, OutputFormat, RunRequest, SessionChoice};
use serde_json::{Value, json};

use crate::scene::{Peer, begin, begin_asking, guardrail, request, snapshot};

const NOBODY: &str = "nobody can be asked in this run: start it with --approve-all to allow such calls";

fn answer(id: &str, approved: bool, notes: Option<&str>) -> Value {
    let mut params = json!({ "requestId": id, "sessionId": "s", "branchId": "b", "approved": approved });
    if let Some(notes) = notes {
        params["notes"] = json!(notes);
    }
    params
}

#[tokio::test]
async fn a_person_at_the_terminal_is_asked_and_their_answer_is_sent() {
    let mut scene = begin_asking(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.question("q").await;
    scene.see("answer y or n").await;
    scene.type_line("hm").await;
    scene.type_line("n, keep it").await;
    let respond = peer.expect("interaction.respond").await;
    assert_eq!(respond["params"], answer("q", false, Some("keep it")));
    peer.answer(&respond, json!({})).await;
    peer.resolved("q", json!({ "approved": false })).await;
    peer.tool("ToolCallSucceeded", "c1", Some("blocked")).await;
    peer.completed(json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 0);
    let usage = "  answer y or n, with notes after it if you like";
    let question = ["? may this command run? it is destructive: it removes files", "    rm -rf x", usage];
    assert_eq!(written.err()[1..], [question[0], question[1], usage, usage, "· read blocked"]);
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_answer_is_no_at_once_and_says_why() {
    for (format, lines) in [(OutputFormat::Text, 1), (OutputFormat::Json, 0), (OutputFormat::StreamJson, 0)] {
        let mut scene = begin(request(format), 1).await;
        let mut peer = scene.peer();
        peer.open().await;
        peer.prompt_received().await;
        peer.question("q").await;
        let respond = peer.expect("interaction.respond").await;
        assert_eq!(respond["params"], answer("q", false, Some(NOBODY)));
        peer.answer(&respond, json!({})).await;
        peer.completed(json!({})).await;
        let (_, written) = scene.end().await;
        let said = "· answered no, as nobody can be asked here: may this command run: rm -rf x";
        let expected = vec![said; lines];
        assert_eq!(written.err()[1..], expected);
    }
}

#[tokio::test]
async fn a_keyboard_that_ends_answers_no_for_now_and_for_later() {
    let mut scene = begin_asking(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.question("q").await;
    scene.see("answer y or n").await;
    scene.hands = tokio::io::duplex(1).0;
    for id in ["q", "r"] {
        let respond = peer.expect("interaction.respond").await;
        assert_eq!(respond["params"], answer(id, false, Some(NOBODY)));
        peer.answer(&respond, json!({})).await;
        peer.question("r").await;
    }
    peer.completed(json!({})).await;
    assert_eq!(scene.end().await.0.exit_code, 0);
}

/// A run in a session that waits for an answer, brought to its prompt.
fn behind(format: OutputFormat) -> RunRequest {
    let mut request = request(format);
    request.session = SessionChoice::Newest;
    request.grant = Grant::Session;
    request
}

async fn open_waiting(peer: &mut Peer) {
    let list = peer.expect("session.list").await;
    let session = json!({ "id": "s", "activeBranchId": "b", "createdAt": 0, "updatedAt": 0 });
    peer.answer(&list, json!({ "items": [session] })).await;
    let get = peer.expect("session.get").await;
    peer.answer(&get, session).await;
    let ask = peer.expect("session.getSnapshot").await;
    let mut waiting = snapshot(0);
    waiting["question"] = json!({ "requestId": "q", "text": "Run it?", "metadata": guardrail() });
    peer.answer(&ask, waiting).await;
    peer.follow().await;
    peer.expect("message.send").await;
}

#[tokio::test]
async fn the_question_behind_which_a_prompt_waits_is_answered_too() {
    let mut scene = begin(behind(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    open_waiting(&mut peer).await;
    for id in ["q", "r"] {
        let respond = peer.expect("interaction.respond").await;
        assert_eq!(respond["params"], answer(id, false, Some(NOBODY)));
        peer.answer(&respond, json!({})).await;
        // The turn before goes on and asks again.
        peer.question("r").await;
    }
    peer.prompt_received().await;
    peer.completed(json!({})).await;
    assert_eq!(scene.end().await.0.exit_code, 0);
}

#[tokio::test]
async fn a_question_is_over_with_its_turn() {
    let mut scene = begin_asking(behind(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    open_waiting(&mut peer).await;
    scene.see("answer y or n").await;
    peer.completed(json!({ "messageId": "message:other" })).await;
    peer.prompt_received().await;
    peer.error("seen").await;
    scene.see("error: seen").await;
    scene.type_line("y").await;
    peer.completed(json!({})).await;
    assert_eq!(peer.expect("stream.cancel").await["params"]["subscription"], "sub");
    assert_eq!(scene.end().await.0.exit_code, 0);
}

#[tokio::test]
async fn a_question_does_not_wait_for_the_end_of_a_shown_line() {
    let mut request = request(OutputFormat::Text);
    request.terminals.stdout = true;
    let mut scene = begin_asking(request, 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.step_started(1, "run").await;
    peer.chunk(1, "run", 0, "Half").await;
    peer.question("q").await;
    scene.see("answer y or n").await;
    let shown = scene.written.all();
    let from = shown.iter().position(|line| line == "out: Half").unwrap();
    assert_eq!(shown[from + 1], "out: \n");
    assert!(
        shown[from + 2..].iter().any(|line| line.starts_with("err: ? may this command run?")),
        "{shown:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_with_the_server_is_given_again() {
    let mut scene = begin_asking(request(OutputFormat::Text), 2).await;
    let mut first = scene.peer();
    first.open().await;
    first.prompt_received().await;
    first.question("q").await;
    scene.see("answer y or n").await;
    scene.type_line("y").await;
    let respond = first.expect("interaction.respond").await;
    drop(first);
    let mut second = scene.peer();
    second.follow().await;
    second.expect("message.send").await;
    let again = second.expect("interaction.respond").await;
    assert_eq!(again["params"], respond["params"]);
    second.answer(&again, json!({})).await;
    second.last = 2;
    // The turn was resumed and shows the same question once more before it finds the answer.
    second.completed(json!({})).await;
    assert_eq!(scene.end().await.0.exit_code, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_busy_branch_is_given_again_and_one_that_comes_too_late_is_told() {
    let mut scene = begin_asking(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.question("q").await;
    scene.see("answer y or n").await;
    scene.type_line("y").await;
    let respond = peer.expect("interaction.respond").await;
    peer.refuse(&respond, "Busy", json!({})).await;
    let again = peer.expect("interaction.respond").await;
    let fields = json!({ "actualRequestId": "q", "sessionId": "s", "branchId": "b" });
    peer.refuse(&again, "InteractionRequestMismatchError", fields).await;
    scene.see("the answer came too late: this question is no longer open").await;
    peer.completed(json!({})).await;
    assert_eq!(scene.end().await.0.exit_code, 0);
}

#[tokio::test]
async fn a_question_that_is_answered_elsewhere_is_no_longer_asked() {
    let mut scene = begin_asking(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.question("q").await;
    scene.see("answer y or n").await;
    peer.resolved("q", json!({})).await;
    scene.see("· the question was answered or closed elsewhere").await;
    scene.type_line("y").await;
    // The next call is not an answer.
    peer.completed(json!({})).await;
    assert_eq!(peer.expect("stream.cancel").await["params"]["subscription"], "sub");
    assert_eq!(scene.end().await.0.exit_code, 0);
}
