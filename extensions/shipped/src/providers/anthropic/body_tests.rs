//! Owns the tests of what a Messages request looks like, byte for byte.

use std::time::Duration;

use gent_extension_api::HostMessage;
use gent_extension_api::protocol::{Part, ReasoningEffort, Role, Secret};
use serde_json::{Value, json};

use super::super::http::Http;
use super::super::test_messages::{call, message, outcome, request, thought, user};
use super::*;

fn model(name: &str) -> MessagesModel {
    let access = Access { endpoint: None, key: Some(Secret::new("k")) };
    let peer = Peer::new(SPEC, &access).unwrap();
    let (facts, is_assumed) = facts(ID, name, true).unwrap();
    MessagesModel {
        facts,
        is_assumed,
        http: Arc::new(Http::new(Duration::from_secs(1))),
        headers: headers(&peer),
        peer,
        style: MessagesStyle::new(name),
        has_bad_thoughts: AtomicBool::new(false),
        heads: HeadCache::default(),
        fragments: FragmentCache::default(),
    }
}

fn body(model: &MessagesModel, request: &ModelRequest) -> String {
    String::from_utf8(model.body(request).to_vec()).unwrap()
}

fn parsed(model: &MessagesModel, request: &ModelRequest) -> Value {
    serde_json::from_str(&body(model, request)).unwrap()
}

fn signed(model: &str) -> Part {
    thought("I \"should\" look.", json!({"anthropic": {"model": model, "signature": "c2ln+/="}}))
}

fn conversation() -> Vec<HostMessage> {
    vec![
        user("Fix the bug"),
        message(
            Role::Assistant,
            vec![
                signed("claude-x"),
                thought("", json!({"anthropic": {"model": "claude-x", "redacted": "ZW5j"}})),
                Part::text("  "),
                call("toolu_1", "read", json!({"path": "a.rs"})),
                call("m-1:1", "fs.list", json!("{\"path\":")),
            ],
        ),
        message(Role::Tool, vec![outcome("toolu_1", "read", false, json!({"content": "x"}))]),
        message(Role::Tool, vec![outcome("m-1:1", "fs.list", true, json!({"error": "no such tool"}))]),
        message(Role::Assistant, vec![Part::text("Done.")]),
        message(Role::System, vec![Part::text("<The model changed>")]),
        user("Go on."),
    ]
}

#[test]
fn a_request_to_anthropic_is_this_and_nothing_else() {
    let mut request = request(conversation());
    request.notice = Some("2 jobs run.".into());
    insta::with_settings!({snapshot_path => "../../../fixtures/requests", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("messages", body(&model("claude-x"), &request));
    });
}

#[test]
fn each_request_begins_with_the_bytes_of_the_one_before_up_to_its_moving_marker() {
    let model_under_test = model("claude-x");
    // A status of the host is never marked; a request that ends in one gives up what follows its marker.
    let all: Vec<_> = conversation().into_iter().filter(|message| message.role != Role::System).collect();
    let mut before = String::new();
    for n in 1..=all.len() {
        let request = request(all.iter().take(n).cloned().collect());
        let now = body(&model_under_test, &request);
        let same = before.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
        assert!(before.len() - same <= 64, "round {n}: {same} of {}", before.len());
        assert_eq!(now, body(&model("claude-x"), &request), "the cache changes nothing");
        before = now;
    }
}

#[test]
fn at_most_four_markers_are_set_and_none_without_a_cache_key() {
    let mut request = request(conversation());
    request.system = Arc::from(["s".repeat(4_096), "own".to_owned()]);
    let count = |request: &ModelRequest| body(&model("claude-x"), request).matches("cache_control").count();
    assert_eq!(count(&request), 3);
    request.system = Arc::from(["s".repeat(4_095), "own".to_owned()]);
    assert_eq!(count(&request), 2);
    request.cache_key = None;
    assert_eq!(count(&request), 0);
}

#[test]
fn the_moving_marker_is_on_the_last_block_that_is_not_of_the_host() {
    let mut request = request(vec![user("one"), message(Role::System, vec![Part::text("status")])]);
    request.notice = Some("later".into());
    let messages = parsed(&model("claude-x"), &request)["messages"].clone();
    let content = messages[0]["content"].as_array().unwrap();
    assert_eq!(content.len(), 3, "one message: {messages}");
    assert_eq!(content[0]["cache_control"], json!({"type": "ephemeral"}));
    assert!(content[1].get("cache_control").is_none() && content[2].get("cache_control").is_none());
}

#[test]
fn a_signed_thought_goes_back_byte_for_byte_and_an_unsigned_one_not_at_all() {
    let blocks = |name: &str, part: Part| {
        let request = request(vec![message(Role::Assistant, vec![part, Part::text("Yes.")])]);
        parsed(&model(name), &request)["messages"][0]["content"].clone()
    };
    let yes = json!({"type": "text", "text": "Yes.", "cache_control": {"type": "ephemeral"}});
    let whole = json!({"type": "thinking", "thinking": "I \"should\" look.", "signature": "c2ln+/="});
    assert_eq!(blocks("claude-x", signed("claude-x")), json!([whole, yes]));
    let as_text = json!({"type": "text", "text": "I \"should\" look."});
    assert_eq!(blocks("claude-x", signed("claude-y")), json!([as_text, yes]));
    let cut = thought("I sho", json!({"anthropic": {"model": "claude-x"}}));
    assert_eq!(blocks("claude-x", cut), json!([yes]));
    let foreign = thought("Hm.", json!({"openai": {"field": "reasoning", "model": "gpt-x"}}));
    assert_eq!(blocks("claude-x", foreign), json!([{"type": "text", "text": "Hm."}, yes]));
}

#[test]
fn an_image_is_sent_within_the_limit_of_the_interface() {
    let blocks = |bytes: usize| {
        let data = format!("data:image/png;base64,{}", "A".repeat(bytes));
        let file = Part::File { media_type: "image/png".into(), data, file_name: None, options: None };
        parsed(&model("claude-x"), &request(vec![message(Role::User, vec![file])]))["messages"][0]["content"]
            [0]
        .clone()
    };
    assert_eq!(blocks(8)["source"]["data"], "AAAAAAAA");
    assert_eq!(
        blocks(5 * 1024 * 1024 + 1)["text"],
        "[a file (image/png) is not shown: it is larger than the model takes]"
    );
}

#[test]
fn thinking_is_asked_for_in_the_words_of_the_model_and_leaves_room_for_the_answer() {
    let head = |name: &str, max: u64| {
        let mut request = request(vec![user("hi")]);
        request.reasoning = Some(ReasoningEffort::High);
        request.temperature = Some(0.3);
        request.max_output_tokens = max;
        let body = parsed(&model(name), &request);
        (body["thinking"].clone(), body["output_config"].clone(), body["temperature"].clone())
    };
    let none = Value::Null;
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    assert_eq!(head("claude-haiku-4-5", 64_000), (budget(20_480), none.clone(), none.clone()));
    assert_eq!(head("claude-haiku-4-5", 8_192), (budget(7_168), none.clone(), none.clone()));
    assert_eq!(head("claude-haiku-4-5", 2_000), (none.clone(), none.clone(), json!(0.3)));
    let effort = json!({"effort": "high"});
    assert_eq!(head("claude-sonnet-4-6", 8_192), (json!({"type": "adaptive"}), effort.clone(), none.clone()));
    let shown = json!({"type": "adaptive", "display": "summarized"});
    assert_eq!(head("claude-opus-5-5", 8_192), (shown, effort, none));
}

#[test]
fn the_last_step_sends_the_same_tools_and_forbids_them() {
    let mut request = request(vec![user("hi")]);
    request.tool_choice = ToolChoice::None;
    let body = parsed(&model("claude-x"), &request);
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
}
