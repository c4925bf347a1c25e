//! Owns the tests of what the `anthropic` driver makes of the answers of the Messages interface.

use gent_extension_api::protocol::{Part, Role, Usage};
use gent_extension_api::{FailureKind, FinishReason, StreamPart, StreamedCall};
use gent_extensions::ProviderSettings;
use serde_json::{Value, json};

use crate::providers::{Collected, answer, collect, driver, joined, model};
use crate::providers_server::{Reply, Server, fixture};
use crate::test_messages::{message, request, thought, user};

async fn read(name: &str) -> Collected {
    let (parts, failure) =
        answer("anthropic", &ProviderSettings::default(), Reply::stream(fixture(name))).await;
    (joined(&parts), failure)
}

fn text(text: &str) -> StreamPart {
    StreamPart::Text { text: text.into() }
}

fn reasoning(id: &str, text: &str, options: Value) -> StreamPart {
    let options = serde_json::from_value(options).unwrap();
    StreamPart::Reasoning { id: id.into(), text: text.into(), options }
}

fn call(id: &str, name: &str, params: Value) -> StreamPart {
    StreamPart::ToolCall(StreamedCall { id: Some(id.into()), name: name.into(), params, options: None })
}

fn usage(output: u64) -> StreamPart {
    StreamPart::Usage(Usage {
        input_tokens: 2_112,
        output_tokens: output,
        cache_read_tokens: Some(2_000),
        cache_write_tokens: Some(100),
    })
}

fn finish(reason: FinishReason) -> StreamPart {
    StreamPart::Finish { reason }
}

#[tokio::test]
async fn input_is_all_input_cached_or_not() {
    let whole = vec![text("Grüße, 漢字 🦀."), usage(9), finish(FinishReason::Stop)];
    assert_eq!(read("messages_text.sse").await, (whole, None));
}

#[tokio::test]
async fn thoughts_come_with_what_must_go_back_and_calls_when_they_are_whole() {
    let kept = |field: &str, value: &str| json!({"anthropic": {"model": "model-x", field: value}});
    let whole = vec![
        reasoning("0", "", json!({"anthropic": {"model": "model-x"}})),
        reasoning("0", "I should ", Value::Null),
        reasoning("0", "look.", Value::Null),
        reasoning("0", "", kept("signature", "c2ln+/=")),
        reasoning("1", "", kept("redacted", "ZW5j")),
        text("I look."),
        call("toolu_1", "read", json!({"path": "a.rs"})),
        call("toolu_2", "list", json!({})),
        usage(40),
        finish(FinishReason::ToolCalls),
    ];
    assert_eq!(read("messages_tools.sse").await, (whole, None));
}

#[tokio::test]
async fn the_reasons_of_an_end_are_told_apart() {
    for (name, reason) in [
        ("max_tokens", FinishReason::Length),
        ("pause_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("refusal", FinishReason::ContentFilter),
        ("model_context_window_exceeded", FinishReason::WindowFull),
        ("something_new", FinishReason::Unknown),
    ] {
        let (parts, failure) = read(&format!("messages_{name}.sse")).await;
        assert_eq!((parts.last(), failure), (Some(&finish(reason)), None), "{name}");
    }
}

#[tokio::test]
async fn an_overload_inside_an_answer_may_be_tried_again() {
    let (parts, failure) = read("messages_overloaded.sse").await;
    assert_eq!(parts, [text("Half")]);
    assert_eq!(failure.unwrap().kind, FailureKind::Transient);
}

#[tokio::test]
async fn a_stream_that_just_stops_gives_its_whole_calls_or_fails() {
    let whole =
        vec![call("toolu_1", "read", json!({"path": "a"})), usage(1), finish(FinishReason::ToolCalls)];
    assert_eq!(read("messages_no_stop.sse").await, (whole, None));
    let (parts, failure) = read("messages_truncated.sse").await;
    assert_eq!((parts, failure.unwrap().kind), (vec![text("Half")], FailureKind::Transient));
}

#[tokio::test]
async fn a_refused_thought_is_left_out_once_and_for_all() {
    let refusal = json!({"error": {"type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block"}});
    let replies = vec![
        Reply::json(400, refusal.clone()),
        Reply::stream(fixture("messages_text.sse")),
        Reply::stream(fixture("messages_text.sse")),
        Reply::json(400, refusal),
    ];
    let server = Server::script(replies).await;
    let model = model(&driver("anthropic"), &server).await;
    let signed = thought("I look.", json!({"anthropic": {"model": "model-x", "signature": "bad"}}));
    let request =
        request(vec![user("hi"), message(Role::Assistant, vec![signed, Part::text("Yes.")]), user("go on")]);
    for _ in 0..2 {
        assert_eq!(collect(model.stream(&request).await.unwrap()).await.1, None);
    }
    let sent: Vec<bool> =
        server.seen().iter().map(|seen| seen.body.contains("\"signature\":\"bad\"")).collect();
    assert_eq!(sent, [true, false, false]);
    let failure = model.stream(&request).await.err().unwrap();
    assert_eq!((failure.kind, server.seen().len()), (FailureKind::Refused, 4));
}

#[tokio::test]
async fn a_request_carries_the_key_and_the_version() {
    let server = Server::script(vec![Reply::stream(fixture("messages_text.sse"))]).await;
    let model = model(&driver("anthropic"), &server).await;
    collect(model.stream(&request(vec![user("hi")])).await.unwrap()).await;
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /v1/messages HTTP/1.1");
    assert!(seen.head.contains("x-api-key: key-topsecret"), "{}", seen.head);
    assert!(seen.head.contains("anthropic-version: 2023-06-01"), "{}", seen.head);
    assert!(!seen.head.contains("authorization"), "{}", seen.head);
}
