//! Owns the small values that the goldens are built of. Never anything a golden is about.

use gent_protocol::{
    BranchId, InteractionRequestId, Message, MessageId, MessageKind, MessageMetadata, Millis, ModelId, Part,
    ProviderOptions, RequestId, Role, RunId, SessionId, StoreIncarnation, SubscriptionId, ToolCall,
    ToolCallId, ToolOutcome, Usage, WorkspaceId,
};
use serde_json::json;

pub(crate) fn session() -> SessionId {
    SessionId::parse("s-1").unwrap()
}

pub(crate) fn branch() -> BranchId {
    BranchId::parse("b-1").unwrap()
}

pub(crate) fn turn() -> MessageId {
    MessageId::parse("message:r-1").unwrap()
}

pub(crate) fn assistant() -> MessageId {
    MessageId::parse("message:r-1:assistant:1").unwrap()
}

pub(crate) fn call_id() -> ToolCallId {
    ToolCallId::parse("call-1").unwrap()
}

pub(crate) fn run() -> RunId {
    RunId::parse("run-1").unwrap()
}

pub(crate) fn model() -> ModelId {
    ModelId::parse("openai/gpt-test").unwrap()
}

pub(crate) fn request() -> RequestId {
    RequestId::parse("r-1").unwrap()
}

pub(crate) fn question() -> InteractionRequestId {
    InteractionRequestId::parse("q-1").unwrap()
}

pub(crate) fn store() -> StoreIncarnation {
    StoreIncarnation::parse("store-1").unwrap()
}

pub(crate) fn subscription() -> SubscriptionId {
    SubscriptionId::parse("sub-1").unwrap()
}

pub(crate) fn workspace() -> WorkspaceId {
    WorkspaceId::parse("ab".repeat(32)).unwrap()
}

pub(crate) fn usage() -> Usage {
    Usage {
        input_tokens: 1200,
        output_tokens: 34,
        cache_read_tokens: Some(1000),
        cache_write_tokens: Some(0),
    }
}

pub(crate) fn options() -> ProviderOptions {
    let mut options = ProviderOptions::new();
    options.insert("anthropic".into(), json!({ "signature": "sig" }));
    options
}

pub(crate) fn call() -> ToolCall {
    ToolCall {
        id: call_id(),
        name: "read".into(),
        params: json!({ "path": "a.rs" }),
        provider_executed: false,
        options: None,
    }
}

pub(crate) fn outcome() -> ToolOutcome {
    ToolOutcome {
        id: call_id(),
        name: "read".into(),
        is_failure: true,
        result: json!({ "error": "no such file: a.rs" }),
        provider_executed: false,
        options: None,
    }
}

pub(crate) fn message() -> Message {
    Message {
        kind: MessageKind::Regular,
        id: turn(),
        session_id: session(),
        branch_id: branch(),
        role: Role::User,
        parts: vec![Part::text("hello")],
        created_at: Millis(1_700_000_000_000),
        turn_duration_ms: Some(Millis(2500)),
        metadata: Some(MessageMetadata { from_client: true, ..MessageMetadata::default() }),
    }
}
