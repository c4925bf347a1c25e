//! What a run writes, format by format.

use gent_tui::{Grant, OutputFormat, Terminals};
use serde_json::{Value, json};

use crate::scene::{Peer, Stdout, begin, begin_with, request};

/// One step with a tool, one with the answer.
async fn play(peer: &mut Peer) {
    peer.event(json!({ "_tag": "SessionStarted", "sessionId": "s", "branchId": "b" })).await;
    peer.prompt_received().await;
    peer.step_started(1, "run").await;
    peer.chunk(1, "run", 0, "Looking").await;
    peer.answered(1, "Looking.").await;
    peer.tool("ToolCallStarted", "c1", None).await;
    peer.tool("ToolCallSucceeded", "c1", Some("read src/main.rs (12 lines)")).await;
    peer.step_started(2, "run").await;
    peer.chunk(2, "run", 0, "All \u{1b}[31mgood").await;
    peer.answered(2, "All \u{1b}[31mgood.").await;
    peer.completed(json!({ "usage": { "inputTokens": 10, "outputTokens": 5 }, "costUsd": 0.25 })).await;
}

#[tokio::test]
async fn text_to_a_pipe_is_the_whole_last_answer_and_everything_else_is_on_stderr() {
    let mut scene = begin(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    play(&mut peer).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 0);
    // A pipe gets the bytes as they are: only a terminal can be steered by them.
    assert_eq!(written.out(), "All \u{1b}[31mgood.\n");
    assert_eq!(written.err(), ["· model demo/demo: it was asked for", "· read src/main.rs (12 lines)"]);
}

#[tokio::test]
async fn text_to_a_terminal_streams_line_by_line_and_cannot_steer_it() {
    let mut request = request(OutputFormat::Text);
    request.terminals = Terminals { stdout: true, dim_stderr: true };
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    play(&mut peer).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 0);
    assert_eq!(
        written.all(),
        [
            "err: \u{1b}[2m· model demo/demo: it was asked for\u{1b}[0m",
            "out: Looking",
            "out: .\n",
            "err: \u{1b}[2m· read src/main.rs (12 lines)\u{1b}[0m",
            "out: All good",
            "out: .\n",
        ]
    );
}

#[tokio::test]
async fn json_is_one_object_after_the_line_that_names_the_model() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    play(&mut peer).await;
    let (_, written) = scene.end().await;
    let expected = json!({
        "sessionId": "s", "branchId": "b", "messageId": "message:r", "outcome": "answered",
        "text": "All \u{1b}[31mgood.", "steps": 2, "toolCalls": 1,
        "usage": { "inputTokens": 10, "outputTokens": 5 }, "costUsd": 0.25, "durationMs": 12,
    });
    let model = "err: · model demo/demo: it was asked for".to_owned();
    assert_eq!(written.all(), [model, format!("out: {expected}\n")]);
}

#[tokio::test]
async fn stream_json_is_the_turn_s_own_envelopes_as_they_came_and_then_the_result() {
    let mut scene = begin(request(OutputFormat::StreamJson), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    play(&mut peer).await;
    let (_, written) = scene.end().await;
    let out = written.out();
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<i64> = lines.iter().filter_map(|line| line["id"].as_i64()).collect();
    assert_eq!(ids, (2..=11).collect::<Vec<i64>>());
    let first = r#"{"id":2,"sessionId":"s","branchId":"b","createdAt":7,"event":{"_tag":"MessageReceived","#;
    assert!(out.starts_with(first), "{out}");
    assert_eq!(written.err(), ["· model demo/demo: it was asked for"]);
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["outcome"]), (&json!("result"), &json!("answered")));
}

#[tokio::test]
async fn a_turn_of_somebody_else_is_neither_shown_nor_counted() {
    let mut scene = begin(request(OutputFormat::StreamJson), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    let other = json!({
        "_tag": "TurnCompleted", "sessionId": "s", "branchId": "b", "messageId": "message:other",
        "durationMs": 1, "streamFailed": true,
    });
    peer.tool("ToolCallStarted", "c0", None).await;
    peer.event(other.clone()).await;
    peer.prompt_received().await;
    peer.event(other).await;
    peer.event(json!({ "_tag": "SessionNameUpdated", "sessionId": "s", "name": "n" })).await;
    peer.completed(json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!((outcome.exit_code, outcome.result.tool_calls), (0, 0));
    assert_eq!(written.out().lines().count(), 3);
}

#[tokio::test]
async fn each_way_a_turn_can_end_has_its_outcome_and_its_exit_code() {
    let table = [
        (json!({}), "answered", 0, None),
        (json!({ "streamFailed": true }), "failed", 1, Some("SessionRuntimeError")),
        (json!({ "unanswered": true }), "unanswered", 1, Some("Unanswered")),
        (json!({ "interrupted": true }), "interrupted", 1, Some("Interrupted")),
    ];
    for (fields, outcome, exit_code, tag) in table {
        let mut scene = begin(request(OutputFormat::Json), 1).await;
        let mut peer = scene.peer();
        peer.open().await;
        peer.prompt_received().await;
        peer.error("the provider is out").await;
        peer.completed(fields).await;
        let (ended, written) = scene.end().await;
        let result: Value = serde_json::from_str(&written.out()).unwrap();
        assert_eq!((&result["outcome"], ended.exit_code), (&json!(outcome), exit_code));
        assert_eq!(result["error"]["tag"].as_str(), tag, "{outcome}");
        if outcome == "failed" {
            assert_eq!(result["error"]["message"], "the provider is out");
        }
    }
}

#[tokio::test]
async fn a_failure_is_said_once_on_stderr_with_the_way_on() {
    let mut scene = begin(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    let send = peer.open().await;
    peer.prompt_received().await;
    peer.error("no model: set OPENAI_API_KEY").await;
    peer.completed(json!({ "streamFailed": true })).await;
    peer.refuse(&send, "SessionRuntimeError", json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 1);
    let expected = [
        "· model demo/demo: it was asked for",
        "error: no model: set OPENAI_API_KEY",
        "· the session goes on with `gent run --session s`",
    ];
    assert_eq!(written.err(), expected);
}

#[tokio::test]
async fn a_model_that_is_named_late_still_comes_before_the_answer() {
    let mut scene = begin(request(OutputFormat::Json), 1).await;
    let mut peer = scene.peer();
    let create = peer.expect("session.create").await;
    peer.answer(&create, json!({ "sessionId": "s", "branchId": "b", "name": "n" })).await;
    peer.follow().await;
    peer.expect("message.send").await;
    peer.prompt_received().await;
    peer.completed(json!({})).await;
    peer.tell_model().await;
    let (_, written) = scene.end().await;
    assert_eq!(written.all()[0], "err: · model demo/demo: it was asked for");
    assert_eq!(written.all().len(), 2);
}

#[tokio::test]
async fn a_session_that_is_gone_with_its_run_is_not_offered_to_go_on_with() {
    let mut request = request(OutputFormat::Text);
    request.keeps_session = false;
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.completed(json!({ "streamFailed": true })).await;
    let (_, written) = scene.end().await;
    assert_eq!(written.err(), ["· model demo/demo: it was asked for", "error: the turn failed"]);
}

#[tokio::test]
async fn the_first_blocked_call_says_how_such_calls_are_allowed() {
    for (grant, first) in [
        (Grant::Nothing, "· read blocked (--approve-all allows it)"),
        // Who has allowed everything is not told to.
        (Grant::Session, "· read blocked"),
    ] {
        let mut request = request(OutputFormat::Text);
        request.grant = grant;
        let mut scene = begin(request, 1).await;
        let mut peer = scene.peer();
        peer.open().await;
        peer.prompt_received().await;
        for id in ["c1", "c2"] {
            peer.tool("ToolCallStarted", id, None).await;
            peer.tool("ToolCallSucceeded", id, Some("blocked")).await;
        }
        peer.completed(json!({})).await;
        let (_, written) = scene.end().await;
        assert_eq!(written.err()[1..], [first, "· read blocked"]);
    }
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_the_run_without_a_word() {
    let mut scene = begin_with(request(OutputFormat::StreamJson), 1, Stdout::Closed).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.exit_code, 1);
    assert_eq!(written.out(), "");
}

#[tokio::test]
async fn an_answer_that_starts_again_is_not_mixed_with_what_was_shown() {
    let mut request = request(OutputFormat::Text);
    request.terminals.stdout = true;
    let mut scene = begin(request, 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.step_started(1, "one").await;
    peer.chunk(1, "one", 0, "Half an").await;
    peer.step_started(1, "two").await;
    peer.chunk(1, "two", 0, "Whole").await;
    peer.answered(1, "Whole.").await;
    peer.completed(json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!((outcome.result.steps, outcome.result.text.as_str()), (1, "Whole."));
    assert_eq!(written.out(), "Half an\nWhole.\n");
    assert!(written.err().contains(&"· the answer was cut off and begins again".to_owned()));
}

#[tokio::test]
async fn a_call_that_starts_twice_because_it_waited_for_an_answer_is_one_call_and_one_line() {
    let mut scene = begin(request(OutputFormat::Text), 1).await;
    let mut peer = scene.peer();
    peer.open().await;
    peer.prompt_received().await;
    peer.tool("ToolCallStarted", "c1", None).await;
    peer.tool("ToolCallStarted", "c1", None).await;
    peer.tool("ToolCallFailed", "c1", Some("no such file")).await;
    peer.tool("ToolCallFailed", "c1", Some("no such file")).await;
    peer.completed(json!({})).await;
    let (outcome, written) = scene.end().await;
    assert_eq!(outcome.result.tool_calls, 1);
    assert_eq!(written.err()[1..], ["✗ read no such file"]);
}
