//! Owns the tests of what the `openai` driver makes of the answers of the many servers that speak its format.

use gent_extension_api::protocol::Usage;
use gent_extension_api::{FailureKind, FinishReason, StreamPart, StreamedCall};
use gent_extensions::ProviderSettings;
use serde_json::{Value, json};

use crate::providers::{Collected, access, answer, collect, driver, joined, model, refused};
use crate::providers_server::{Reply, Server, fixture};
use crate::test_messages::{request, user};

async fn read(name: &str) -> Collected {
    let (parts, failure) = answer("openai", &ProviderSettings::default(), Reply::stream(fixture(name))).await;
    (joined(&parts), failure)
}

fn text(text: &str) -> StreamPart {
    StreamPart::Text { text: text.into() }
}

fn call(id: Option<&str>, name: &str, params: Value) -> StreamPart {
    StreamPart::ToolCall(StreamedCall { id: id.map(str::to_owned), name: name.into(), params, options: None })
}

fn usage(input: u64, output: u64, cached: Option<u64>) -> StreamPart {
    StreamPart::Usage(Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: cached,
        cache_write_tokens: None,
    })
}

fn finish(reason: FinishReason) -> StreamPart {
    StreamPart::Finish { reason }
}

#[tokio::test]
async fn text_is_followed_by_usage_and_the_reason() {
    let whole = vec![text("Grüße, 漢字 🦀."), usage(20, 7, Some(16)), finish(FinishReason::Stop)];
    assert_eq!(read("chat_text.sse").await, (whole, None));
}

#[tokio::test]
async fn interleaved_calls_are_put_together() {
    let whole = vec![
        text("I look."),
        call(Some("call_a"), "read", json!({"path": "a.rs"})),
        call(Some("call_b"), "grep", json!({"pattern": "漢"})),
        usage(30, 12, None),
        finish(FinishReason::ToolCalls),
    ];
    assert_eq!(read("chat_tools.sse").await, (whole, None));
}

#[tokio::test]
async fn thinking_comes_with_the_name_it_must_go_back_under_and_counts_as_output() {
    let options = json!({"openai": {"field": "reasoning_content", "model": "model-x"}});
    let thought = |text: &str, options: Value| StreamPart::Reasoning {
        id: "1".into(),
        text: text.into(),
        options: serde_json::from_value(options).unwrap(),
    };
    let whole = vec![
        thought("Let me ", options),
        thought("see.", Value::Null),
        text("Yes."),
        usage(5, 5, None),
        finish(FinishReason::Stop),
    ];
    assert_eq!(read("chat_reasoning.sse").await, (whole, None));
}

#[tokio::test]
async fn calls_without_a_number_are_not_merged() {
    let whole = vec![
        call(Some("a1"), "read", json!({"path": "a"})),
        call(Some("b2"), "read", json!({"path": "b"})),
        finish(FinishReason::ToolCalls),
    ];
    assert_eq!(read("chat_no_index.sse").await, (whole, None));
}

#[tokio::test]
async fn a_whole_call_runs_though_neither_id_nor_reason_came() {
    let whole = vec![call(None, "read", json!({"path": "a"})), finish(FinishReason::ToolCalls)];
    assert_eq!(read("chat_no_finish.sse").await, (whole, None));
}

#[tokio::test]
async fn arguments_are_taken_as_an_object_and_kept_as_text_where_they_are_none() {
    let whole = vec![call(None, "read", json!({"path": "a"})), finish(FinishReason::ToolCalls)];
    assert_eq!(read("chat_object_args.sse").await, (whole, None));
    let raw = vec![call(Some("c"), "read", json!("{\"path\": a}")), finish(FinishReason::ToolCalls)];
    assert_eq!(read("chat_malformed_args.sse").await, (raw, None));
}

#[tokio::test]
async fn nothing_whole_is_a_truncated_answer() {
    for name in ["chat_truncated.sse", "chat_cut_call.sse"] {
        let (parts, failure) = read(name).await;
        assert!(
            !parts.iter().any(|part| matches!(part, StreamPart::Finish { .. } | StreamPart::ToolCall(_)))
        );
        let failure = failure.unwrap();
        assert_eq!(failure.kind, FailureKind::Transient, "{name}");
        assert!(failure.message.contains("stopped before its end"), "{failure}");
    }
}

#[tokio::test]
async fn the_many_words_for_an_end_are_understood() {
    let done = vec![text("All said."), finish(FinishReason::Unknown)];
    assert_eq!(read("chat_done_without_finish.sse").await, (done, None));
    let odd = vec![text("Odd."), finish(FinishReason::Unknown)];
    assert_eq!(read("chat_unknown_finish.sse").await, (odd, None));
    let withheld = vec![text("I "), finish(FinishReason::ContentFilter)];
    assert_eq!(read("chat_filter.sse").await, (withheld, None));
    let long = vec![text("Long"), call(Some("c"), "read", json!("{\"pa")), finish(FinishReason::Length)];
    assert_eq!(read("chat_length.sse").await, (long, None));
}

#[tokio::test]
async fn text_in_blocks_and_half_characters_are_read() {
    let blocks = vec![text("in a block"), finish(FinishReason::Stop)];
    assert_eq!(read("chat_blocks.sse").await, (blocks, None));
    let cleaned = vec![text("ab"), finish(FinishReason::Stop)];
    assert_eq!(read("chat_surrogate.sse").await, (cleaned, None));
}

#[tokio::test]
async fn an_error_inside_an_answer_is_a_failure_after_what_came_before() {
    let (parts, failure) = read("chat_error_inside.sse").await;
    assert_eq!(parts, [text("Begin")]);
    let failure = failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Transient);
    assert!(failure.message.contains("Upstream fell over"), "{failure}");
    let only = Reply::json(200, json!({"error": {"message": "no such model", "code": "model_not_found"}}));
    let (parts, failure) = answer("openai", &ProviderSettings::default(), only).await;
    assert_eq!((parts, failure.unwrap().kind), (vec![], FailureKind::Refused));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_all_the_same() {
    let document = Reply { body: fixture("chat_no_stream.json"), ..Reply::json(200, Value::Null) };
    let whole = vec![
        text("Whole."),
        call(Some("c"), "read", json!({"path": "a"})),
        usage(4, 3, None),
        finish(FinishReason::ToolCalls),
    ];
    assert_eq!(answer("openai", &ProviderSettings::default(), document).await, (whole, None));
}

#[tokio::test]
async fn a_server_that_refuses_stream_options_is_asked_again_without_and_remembered() {
    let refusal = json!({"error": {"message": "Unrecognized request argument supplied: stream_options"}});
    let replies = vec![
        Reply::json(400, refusal),
        Reply::stream(fixture("chat_text.sse")),
        Reply::stream(fixture("chat_text.sse")),
    ];
    let server = Server::script(replies).await;
    let driver = driver("openai");
    for _ in 0..2 {
        let model = driver.resolve("m", &access("openai", &server)).await.unwrap();
        let stream = model.stream(&request(vec![user("hi")])).await.unwrap();
        assert_eq!(collect(stream).await.1, None);
    }
    let sent: Vec<bool> =
        server.seen().iter().map(|seen| seen.json().get("stream_options").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}

#[tokio::test]
async fn a_refusal_that_names_nothing_to_change_is_not_repeated() {
    let failure =
        refused("openai", Reply::json(400, json!({"error": {"message": "temperature is too hot"}}))).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.ends_with("refused the request (400): temperature is too hot"), "{failure}");
}

#[tokio::test]
async fn the_key_goes_in_the_header_and_nowhere_else() {
    let server = Server::script(vec![Reply::stream(fixture("chat_text.sse"))]).await;
    let model = model(&driver("openai"), &server).await;
    collect(model.stream(&request(vec![user("hi")])).await.unwrap()).await;
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /v1/chat/completions HTTP/1.1");
    assert!(seen.head.contains("authorization: bearer key-topsecret"), "{}", seen.head);
    assert!(!seen.body.contains("topsecret") && !seen.line.contains("topsecret"));
}

#[tokio::test]
async fn a_chunk_that_is_no_json_breaks_the_answer_off() {
    let (_, failure) = answer(
        "openai",
        &ProviderSettings::default(),
        Reply::stream("data: {\"choices\":[\n\ndata: [DONE]\n\n"),
    )
    .await;
    assert_eq!(failure.unwrap().kind, FailureKind::Transient);
    let (_, failure) =
        answer("openai", &ProviderSettings::default(), Reply::stream(b"data: \xFF\n\n".to_vec())).await;
    assert!(failure.unwrap().message.contains("not UTF-8"));
}

#[tokio::test]
async fn five_thousand_small_events_are_five_thousand_parts() {
    let chunk = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abcd\"},\"finish_reason\":null}]}\n\n";
    let mut body = chunk.repeat(5_000);
    body.push_str(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    let reply = Reply::stream(body).pieces(16 * 1024);
    let (parts, failure) = answer("openai", &ProviderSettings::default(), reply).await;
    assert_eq!((parts.len(), failure), (5_001, None));
}
