//! What is shown at first, and what each event adds.

use gent_protocol::{EventEnvelope, SessionSnapshot};
use serde_json::{Value, json};

use super::View;

fn view() -> View {
    View::new(gent_protocol::BranchId::parse("b").unwrap(), false)
}

fn event(view: &mut View, event: Value) {
    let value = json!({ "id": 1, "sessionId": "s", "branchId": "b", "createdAt": 7, "event": event });
    let envelope: EventEnvelope = serde_json::from_value(value).unwrap();
    view.apply(&envelope);
}

fn said(id: &str, role: &str, text: &str, metadata: Value) -> Value {
    json!({
        "_tag": "regular", "id": id, "sessionId": "s", "branchId": "b", "role": role, "createdAt": 7,
        "parts": [{ "type": "text", "text": text }], "metadata": metadata,
    })
}

fn snapshot(messages: Vec<Value>, runtime: Value, streaming: Value) -> SessionSnapshot {
    serde_json::from_value(json!({
        "sessionId": "s", "branchId": "b", "name": "Fix\u{7} it", "messages": messages, "truncated": false,
        "lastEventId": 3, "store": "st", "agent": "main", "resolvedModelReason": "none", "runtime": runtime,
        "metrics": { "turns": 0, "durationMs": 0, "costUsd": 0.0, "lastInputTokens": 0 }, "streaming": streaming,
    }))
    .unwrap()
}

fn of_turn(tag: &str, fields: Value) -> Value {
    let mut event = json!({ "_tag": tag, "sessionId": "s", "branchId": "b", "messageId": "m" });
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

fn call(tag: &str, fields: Value) -> Value {
    let mut event = json!({
        "_tag": tag, "sessionId": "s", "branchId": "b", "toolCallId": "c", "toolName": "bash",
        "assistantMessageId": "m:assistant:1",
    });
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

fn chunk(offset: u64, chunk: &str) -> Value {
    of_turn("StreamChunk", json!({ "step": 1, "run": "r", "offset": offset, "chunk": chunk }))
}

#[test]
fn at_first_the_last_messages_and_what_runs_are_shown() {
    let mut messages = vec![said("m0", "user", "long ago", json!(null))];
    for n in 1..=4 {
        messages.push(said(&format!("u{n}"), "user", &format!("question {n}\u{1b}[2J\nmore"), json!(null)));
        messages.push(said(&format!("a{n}"), "assistant", if n == 3 { "" } else { "answer" }, json!(null)));
        messages.push(said(&format!("t{n}"), "tool", "result", json!(null)));
        messages.push(said(&format!("c{n}"), "user", "go on", json!({ "customType": "continuation" })));
    }
    let queue = json!({ "steering": [], "followUp": [
        { "_tag": "FollowUp", "id": "f", "content": "and\nthen", "createdAt": 1 },
    ] });
    let runtime = json!({ "_tag": "Running", "queue": queue, "messageId": "u4", "startedAtMs": 1 });
    let streaming = json!({ "messageId": "u4", "step": 1, "run": "r", "text": "Half", "offset": 4 });
    let mut view = view();
    view.open(&snapshot(messages, runtime, streaming));
    let expected = "\
· Fix it (session s)
· earlier messages are not shown
answer
> question 2
  more
answer
> question 3
  more
> question 4
  more
answer
· a turn runs
· waits: and then
Half";
    assert_eq!(view.take(), expected);
    assert_eq!(view.running().unwrap().as_str(), "u4");
    // The text that streams goes on where the snapshot left it.
    event(&mut view, chunk(4, " and whole"));
    assert_eq!(view.take(), " and whole");
}

#[test]
fn a_long_message_is_cut_and_what_is_left_out_is_counted() {
    let mut view = view();
    let long = format!("{}\n{}", "x".repeat(1001), "line\n".repeat(50));
    let idle = json!({ "_tag": "Idle", "queue": { "steering": [], "followUp": [] } });
    view.open(&snapshot(vec![said("a", "assistant", &long, json!(null))], idle, json!(null)));
    let shown = view.take();
    assert!(shown.contains(&format!("{}…\nline\n", "x".repeat(1000))), "{shown}");
    assert!(shown.ends_with("line\n· … 39 more lines\n· no turn runs\n"), "{shown}");
    event(&mut view, json!({ "_tag": "MessageReceived", "message": said("u", "user", &long, json!(null)) }));
    assert!(view.take().ends_with("  line\n· … 11 more lines\n"));
}

#[test]
fn a_line_in_the_middle_of_an_answer_stands_on_its_own() {
    let mut view = view();
    event(&mut view, of_turn("StreamStarted", json!({ "step": 1, "run": "r" })));
    event(&mut view, chunk(0, "Half\u{1b}]0;ti"));
    event(&mut view, chunk(10, "tle\u{7} a"));
    event(&mut view, json!({ "_tag": "SessionNameUpdated", "sessionId": "s", "name": "N" }));
    event(&mut view, chunk(16, " line"));
    view.line_typed();
    view.notice("typed");
    assert_eq!(view.take(), "Half a\n· the session is called N\n line· typed\n");
}

#[test]
fn a_call_has_one_line_with_its_command_and_how_it_went() {
    let mut view = view();
    let start = call("ToolCallStarted", json!({ "input": { "command": "ls\n-l" } }));
    event(&mut view, start.clone());
    event(&mut view, start);
    let done = call("ToolCallSucceeded", json!({ "summary": "exit 0" }));
    event(&mut view, done.clone());
    event(&mut view, done);
    assert_eq!(view.take(), "· bash `ls -l`: exit 0\n");
    event(&mut view, of_turn("TurnCompleted", json!({ "durationMs": 0, "streamFailed": false })));
    view.take();
    // Whoever attached in the middle of a call knows its name alone; ids come again in later turns.
    event(&mut view, call("ToolCallFailed", json!({})));
    assert_eq!(view.take(), "✗ bash failed\n");
}

#[test]
fn every_end_of_a_turn_says_how_it_ended_and_what_it_took() {
    let usage = json!({ "inputTokens": 1200, "outputTokens": 34 });
    let table = [
        (
            json!({ "usage": usage, "costUsd": 0.0123 }),
            "· answered after 2.0 s, 1200 tokens in, 34 out, $0.0123\n",
        ),
        (json!({ "streamFailed": true }), "· failed after 2.0 s\n"),
        (json!({ "unanswered": true }), "· ended without an answer after 2.0 s\n"),
        (json!({ "interrupted": true, "streamFailed": true }), "· stopped after 2.0 s\n"),
    ];
    for (fields, expected) in table {
        let mut view = view();
        event(
            &mut view,
            json!({ "_tag": "MessageReceived", "message": said("m", "user", "q", json!(null)) }),
        );
        assert!(view.running().is_some());
        view.take();
        let mut completed = of_turn("TurnCompleted", json!({ "durationMs": 2000, "streamFailed": false }));
        for (key, value) in fields.as_object().unwrap() {
            completed[key] = value.clone();
        }
        event(&mut view, completed);
        assert_eq!((view.take().as_str(), view.running()), (expected, None));
    }
}

#[test]
fn every_end_of_a_question_is_one_line() {
    let table = [
        (json!({ "approved": true, "notes": "a\nb" }), "· the answer is yes: a b\n"),
        (json!({ "approved": false }), "· the answer is no\n"),
        (json!({ "approved": true, "editedContent": "x" }), "· the answer is yes, with a changed text\n"),
        (json!({ "approved": false, "dismissed": true }), "· the question was closed without an answer\n"),
    ];
    for (fields, expected) in table {
        let mut view = view();
        let mut resolved = of_turn("InteractionResolved", fields);
        resolved["requestId"] = json!("q");
        event(&mut view, resolved);
        assert_eq!(view.take(), expected);
    }
}

#[test]
fn notices_errors_retries_and_what_is_said_now_have_their_lines() {
    let mut interjection = said("i", "user", "use tabs", json!({ "joinedTurn": true }));
    interjection["_tag"] = json!("interjection");
    let retrying = json!({
        "_tag": "ProviderRetrying", "sessionId": "s", "branchId": "b", "attempt": 1, "maxAttempts": 3, "delayMs": 500,
        "error": "overloaded",
    });
    let error = json!({ "_tag": "ErrorOccurred", "sessionId": "s", "branchId": "b", "error": "no key\u{7}" });
    let mut notice = error.clone();
    notice["notice"] = json!(true);
    let settings = json!({ "_tag": "SessionSettingsUpdated", "sessionId": "s", "modelId": "a/b" });
    let other =
        json!({ "_tag": "ErrorOccurred", "sessionId": "s", "branchId": "other", "error": "elsewhere" });
    let table = [
        (json!({ "_tag": "MessageReceived", "message": interjection }), "> now: use tabs\n"),
        (retrying, "· attempt 1 of 3 failed, next in 0.5 s: overloaded\n"),
        (error, "error: no key\n"),
        (notice, "· no key\n"),
        (settings, "· the session's model is a/b\n"),
        (other, ""),
    ];
    for (value, expected) in table {
        let mut view = view();
        event(&mut view, value);
        assert_eq!((view.take().as_str(), view.running()), (expected, None));
    }
}

#[test]
fn an_answer_that_begins_again_says_so() {
    let mut view = view();
    event(&mut view, of_turn("StreamStarted", json!({ "step": 1, "run": "r" })));
    event(&mut view, chunk(0, "Half\u{1b}]0;"));
    view.notice("aside");
    event(&mut view, of_turn("StreamStarted", json!({ "step": 1, "run": "later" })));
    let message = said("m:assistant:1", "assistant", "Whole", json!(null));
    event(&mut view, json!({ "_tag": "MessageReceived", "message": message }));
    assert_eq!(view.take(), "Half\n· aside\n· the answer was cut off and begins again\nWhole\n");
}
