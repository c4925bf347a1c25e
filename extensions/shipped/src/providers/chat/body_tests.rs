//! Owns the tests of what a Chat Completions request looks like, byte for byte.

use std::time::Duration;

use gent_extension_api::protocol::{Part, ReasoningEffort, Role, Secret};
use gent_extension_api::{Access, HostMessage};
use serde_json::{Value, json};

use super::super::catalog::facts;
use super::super::http::Http;
use super::super::openai::SPEC;
use super::super::test_messages::{call, message, outcome, request, thought, user};
use super::*;

fn model(endpoint: Option<&str>) -> ChatModel {
    let access = Access { endpoint: endpoint.map(str::to_owned), key: Some(Secret::new("k")) };
    let peer = Peer::new(SPEC, &access).unwrap();
    let http = Arc::new(Http::new(Duration::from_secs(1)));
    ChatModel::new(http, peer, Arc::default(), facts("openai", "gpt-x", true).unwrap(), "gpt-x")
}

fn own() -> ChatModel {
    model(None)
}

fn foreign() -> ChatModel {
    model(Some("http://127.0.0.1:9/v1"))
}

fn body(model: &ChatModel, request: &ModelRequest) -> String {
    String::from_utf8(model.body(request, Quirks::default()).to_vec()).unwrap()
}

fn parsed(model: &ChatModel, messages: Vec<HostMessage>) -> Value {
    serde_json::from_str(&body(model, &request(messages))).unwrap()
}

fn conversation() -> Vec<HostMessage> {
    vec![
        user("Fix the \"bug\" in 漢.rs"),
        message(
            Role::Assistant,
            vec![
                thought(
                    "I should look.",
                    json!({"openai": {"field": "reasoning_content", "model": "gpt-x"}}),
                ),
                Part::text("I look."),
                call("call_1", "read", json!({"path": "漢.rs"})),
                call("m-1:1", "fs.list", json!("{\"path\":")),
            ],
        ),
        message(
            Role::Tool,
            vec![
                outcome("call_1", "read", false, json!({"content": "fn main() {}"})),
                outcome("m-1:1", "fs.list", true, json!({"error": "no such tool"})),
            ],
        ),
        message(Role::System, vec![Part::text("The model changed.")]),
        user("Go on."),
    ]
}

#[test]
fn a_request_to_openai_itself_is_this_and_nothing_else() {
    let mut request = request(conversation());
    request.notice = Some("2 jobs run.".into());
    request.temperature = Some(0.5);
    request.reasoning = Some(ReasoningEffort::High);
    insta::with_settings!({snapshot_path => "../../../fixtures/requests", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("chat_openai", body(&own(), &request));
    });
}

#[test]
fn a_request_to_another_server_uses_only_what_all_of_them_know() {
    let mut request = request(conversation());
    request.notice = Some("2 jobs run.".into());
    insta::with_settings!({snapshot_path => "../../../fixtures/requests", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("chat_other", body(&foreign(), &request));
    });
}

#[test]
fn each_request_begins_with_the_bytes_of_the_one_before() {
    for model in [own(), foreign()] {
        let all = conversation();
        let mut before = String::new();
        for n in 1..=all.len() {
            let mut request = request(all.iter().take(n).cloned().collect());
            if n == all.len() {
                request.tool_choice = ToolChoice::None;
            }
            let now = body(&model, &request);
            let same = before.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
            assert!(before.len() - same <= 2, "round {n}: {same} of {}", before.len());
            let fresh = if model.peer.is_own { own() } else { foreign() };
            assert_eq!(now, body(&fresh, &request), "the cache changes nothing");
            before = now;
        }
        assert!(before.ends_with(r#"],"tool_choice":"none"}"#), "{before}");
    }
}

#[test]
fn nothing_is_sent_for_what_is_not_there() {
    let mut request = request(vec![user("hi"), message(Role::Assistant, vec![Part::text("")])]);
    request.system = Arc::from([]);
    request.tools = Arc::from([]);
    request.tool_choice = ToolChoice::None;
    request.cache_key = None;
    assert_eq!(
        body(&own(), &request),
        r#"{"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":8192,"messages":[{"role":"user","content":"hi"}]}"#
    );
}

#[test]
fn thinking_goes_back_under_its_own_name_to_its_own_model_and_as_text_to_another() {
    let turn = |model: &str| {
        let kept = json!({"openai": {"field": "reasoning", "model": model}});
        message(
            Role::Assistant,
            vec![thought("Hm, ", kept.clone()), thought("so.", kept), Part::text("Yes.")],
        )
    };
    let assistant = |model: &ChatModel, turn| parsed(model, vec![turn])["messages"][1].clone();
    assert_eq!(
        assistant(&foreign(), turn("gpt-x")),
        json!({"role": "assistant", "content": "Yes.", "reasoning": "Hm, so."})
    );
    let as_text = json!({"role": "assistant", "content": "Hm, \n\nso.\n\nYes."});
    assert_eq!(assistant(&foreign(), turn("other")), as_text);
    assert_eq!(assistant(&own(), turn("gpt-x")), as_text);
}

#[test]
fn an_empty_result_says_so_and_a_call_without_text_has_the_content_its_server_takes() {
    let turn = vec![
        message(Role::Assistant, vec![call("c", "bash", json!({}))]),
        message(Role::Tool, vec![outcome("c", "bash", false, json!(""))]),
    ];
    let own = parsed(&own(), turn.clone());
    assert_eq!(own["messages"][1]["content"], Value::Null);
    assert_eq!(own["messages"][2]["content"], "(no tool output)");
    assert_eq!(parsed(&foreign(), turn)["messages"][1]["content"], "");
}

#[test]
fn images_are_sent_in_place_and_what_cannot_be_is_named() {
    let file = |media_type: &str, data: String| Part::File {
        media_type: media_type.into(),
        data,
        file_name: Some("a.png".into()),
        options: None,
    };
    let parts = vec![
        Part::text("see"),
        file("image/png", "data:image/png;base64,AAAA".into()),
        file("application/pdf", "data:application/pdf;base64,AAAA".into()),
        file("image/png", format!("data:image/png;base64,{}", "A".repeat(21 * 1024 * 1024))),
    ];
    let content = parsed(&own(), vec![message(Role::User, parts)])["messages"][1]["content"].clone();
    assert_eq!(
        content,
        json!([
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "text", "text": "[a.png (application/pdf) is not shown: only images are]\n\
                [a.png (image/png) is not shown: it is larger than the model takes]"},
        ])
    );
}

#[test]
fn a_refusal_teaches_only_what_it_names() {
    let plain = request(vec![]);
    let learn = |words: &str| Quirks::default().learn(words, &plain);
    assert_eq!(
        learn("Unknown field: stream_options"),
        Some(Quirks { no_stream_options: true, ..Quirks::default() })
    );
    assert_eq!(
        learn("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        Some(Quirks { other_cap_name: true, ..Quirks::default() })
    );
    let none = Some(Quirks { effort: Effort::NoneWithTools, ..Quirks::default() });
    assert_eq!(learn("Function tools with reasoning_effort are not supported for gpt-x"), none);
    assert_eq!(learn("temperature is too hot"), None);
    assert_eq!(learn("max_tokens is too large: 99"), None);
    let mut toolless = request(vec![]);
    toolless.tools = Arc::from([]);
    assert_eq!(Quirks::default().learn("unknown field reasoning_effort", &toolless), None);
    toolless.reasoning = Some(ReasoningEffort::Low);
    let omitted = Some(Quirks { effort: Effort::Omitted, ..Quirks::default() });
    assert_eq!(Quirks::default().learn("unknown field reasoning_effort", &toolless), omitted);
    let told = |effort| {
        let head = own().style.head(&plain, Quirks { effort, ..Quirks::default() });
        String::from_utf8(head).unwrap().contains(r#""reasoning_effort":"none""#)
    };
    assert!(told(Effort::NoneWithTools) && !told(Effort::AsAsked) && !told(Effort::Omitted));
}
