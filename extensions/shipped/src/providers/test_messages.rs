//! Owns the building of messages and requests for the tests of the drivers. Shared with `tests/it`.

use std::sync::Arc;

use gent_extension_api::protocol::{
    BranchId, Message, MessageId, MessageKind, Millis, Part, ProviderOptions, Role, SessionId, ToolCall,
    ToolCallId, ToolOutcome,
};
use gent_extension_api::{HostMessage, ModelRequest, ToolChoice, WireTool};
use serde_json::{Value, json};

pub(crate) fn message(role: Role, parts: Vec<Part>) -> HostMessage {
    Arc::new(Message {
        kind: MessageKind::Regular,
        id: MessageId::parse("m").unwrap(),
        session_id: SessionId::parse("s-1").unwrap(),
        branch_id: BranchId::parse("b").unwrap(),
        role,
        parts,
        created_at: Millis(0),
        turn_duration_ms: None,
        metadata: None,
    })
}

pub(crate) fn user(text: &str) -> HostMessage {
    message(Role::User, vec![Part::text(text)])
}

pub(crate) fn call(id: &str, name: &str, params: Value) -> Part {
    Part::ToolCall(ToolCall {
        id: ToolCallId::parse(id).unwrap(),
        name: name.into(),
        params,
        provider_executed: false,
        options: None,
    })
}

pub(crate) fn outcome(id: &str, name: &str, is_failure: bool, result: Value) -> Part {
    Part::ToolResult(ToolOutcome {
        id: ToolCallId::parse(id).unwrap(),
        name: name.into(),
        is_failure,
        result,
        provider_executed: false,
        options: None,
    })
}

pub(crate) fn thought(text: &str, options: Value) -> Part {
    let options: Option<ProviderOptions> = serde_json::from_value(options).unwrap();
    Part::Reasoning { text: text.into(), options }
}

pub(crate) fn tool(name: &str) -> WireTool {
    WireTool {
        name: name.into(),
        description: format!("The {name} tool."),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

pub(crate) fn request(messages: Vec<HostMessage>) -> ModelRequest {
    ModelRequest {
        system: Arc::from(["Be brief.".to_owned(), "You are main.".to_owned()]),
        messages,
        notice: None,
        tools: Arc::from([tool("read"), tool("bash")]),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 8_192,
        temperature: None,
        reasoning: None,
        cache_key: Some(SessionId::parse("s-1").unwrap()),
    }
}
