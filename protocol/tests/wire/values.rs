//! Owns the goldens of the values inside: messages, parts, ids, states, models.

use gent_protocol::{
    ActorState, Approval, CustomType, DatabaseKind, EventSeq, Identity, Message, MessageKind,
    MessageMetadata, Millis, ModelId, Ordinal, PROTOCOL, Part, Question, QuestionDecision, QueueEntry,
    QueueSnapshot, ReasoningEffort, Role, RuntimeState, SteerCommand, ToolCall, ToolOutcome, Usage,
};
use serde_json::json;

use crate::golden::{Case, case};
use crate::samples as s;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = messages();
    cases.extend(parts());
    cases.extend(questions());
    cases.extend(states());
    cases.extend(words());
    cases
}

fn messages() -> Vec<Case> {
    let metadata = MessageMetadata {
        custom_type: Some("note".into()),
        extension_id: Some(gent_protocol::ExtensionId::parse("@gent/x").unwrap()),
        from_client: true,
        hidden: true,
        joined_turn: true,
        details: Some(json!({ "k": [1] })),
    };
    let bare = Message { turn_duration_ms: None, metadata: None, ..s::message() };
    let steer = Message { kind: MessageKind::Interjection, ..bare.clone() };
    vec![
        case("message", s::message()),
        case("message.bare", bare),
        case("message.interjection", steer),
        case("message-metadata", metadata),
        case("message-metadata.empty", MessageMetadata::default()),
        case("usage", s::usage()),
        case("usage.bare", Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() }),
    ]
}

fn parts() -> Vec<Case> {
    let file = Part::File {
        media_type: "image/png".into(),
        data: "data:image/png;base64,AA==".into(),
        file_name: Some("a.png".into()),
        options: Some(s::options()),
    };
    let approval = Part::ToolApprovalRequest { approval_id: "ap-1".into(), tool_call_id: s::call_id() };
    let response = Part::ToolApprovalResponse {
        approval_id: "ap-1".into(),
        approved: false,
        reason: Some("not here".into()),
    };
    let raw = ToolCall { params: json!("{\"path\": "), options: Some(s::options()), ..s::call() };
    let executed = ToolOutcome { provider_executed: true, options: Some(s::options()), ..s::outcome() };
    vec![
        case("part.text", Part::Text { text: "hi".into(), options: Some(s::options()) }),
        case("part.text.bare", Part::text("hi")),
        case("part.file", file),
        case("part.tool-call", Part::ToolCall(s::call())),
        case("part.tool-call.raw-params", Part::ToolCall(raw)),
        case("part.tool-result", Part::ToolResult(s::outcome())),
        case("part.tool-result.provider", Part::ToolResult(executed)),
        case("part.reasoning", Part::Reasoning { text: String::new(), options: Some(s::options()) }),
        case("part.tool-approval-request", approval),
        case("part.tool-approval-response", response),
    ]
}

fn questions() -> Vec<Case> {
    let question = Question { text: "Run it?".into(), metadata: Some(json!({ "kind": "command" })) };
    let declined = QuestionDecision { approved: false, notes: None, edited_content: None };
    let edited =
        QuestionDecision { approved: true, notes: Some("shorter".into()), edited_content: Some("ls".into()) };
    vec![
        case("question", question.clone()),
        case("question.bare", Question { metadata: None, ..question }),
        case("question-decision", edited),
        case("question-decision.bare", declined),
    ]
}

fn states() -> Vec<Case> {
    let (message_id, started_at_ms) = (s::turn(), Millis(1_700_000_000_000));
    let queue = QueueSnapshot {
        steering: vec![QueueEntry::Steering {
            id: s::turn(),
            content: "go left".into(),
            created_at: Millis(1),
        }],
        follow_up: vec![QueueEntry::FollowUp {
            id: s::turn(),
            content: "then".into(),
            created_at: Millis(2),
        }],
    };
    let waiting = RuntimeState::WaitingForInteraction {
        queue: QueueSnapshot::default(),
        message_id: message_id.clone(),
        started_at_ms,
        request_id: s::question(),
    };
    let untargeted = SteerCommand::Cancel {
        session_id: s::session(),
        branch_id: s::branch(),
        request_id: s::request(),
        message_id: None,
    };
    let anonymous =
        Identity { protocol: PROTOCOL, build: "0.1.0".into(), proof: "00".into(), pid: None, data_dir: None };
    vec![
        case("queue", queue.clone()),
        case("runtime-state.Idle", RuntimeState::Idle { queue: queue.clone() }),
        case("runtime-state.Running", RuntimeState::Running { queue, message_id, started_at_ms }),
        case("runtime-state.WaitingForInteraction", waiting),
        case("steer.Cancel.untargeted", untargeted),
        case("identity", Identity { pid: Some(42), data_dir: Some("/d".into()), ..anonymous.clone() }),
        case("identity.without-token", anonymous),
        case("protocol-version", PROTOCOL),
        case("event-seq", EventSeq(9)),
        case("ordinal", Ordinal(3)),
        case("millis", Millis(-1)),
        case("model-id", ModelId::parse("local/8080/qwen").unwrap()),
        case("workspace-id", s::workspace()),
    ]
}

/// Every word of every closed list of words.
fn words() -> Vec<Case> {
    let mut cases = Vec::new();
    for word in [Role::User, Role::Assistant, Role::System, Role::Tool] {
        cases.push(case(format!("role.{word:?}"), word));
    }
    for word in [MessageKind::Regular, MessageKind::Interjection] {
        cases.push(case(format!("message-kind.{word:?}"), word));
    }
    for word in
        [CustomType::Continuation, CustomType::ContextWindow, CustomType::MaxSteps, CustomType::ModelChange]
    {
        let golden = case(format!("custom-type.{}", word.as_str()), word);
        cases.push(golden);
    }
    for word in [Approval::Ask, Approval::Approve] {
        cases.push(case(format!("approval.{word:?}"), word));
    }
    for word in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
        cases.push(case(format!("database-kind.{word:?}"), word));
    }
    for word in [
        ReasoningEffort::None,
        ReasoningEffort::Minimal,
        ReasoningEffort::Low,
        ReasoningEffort::Medium,
        ReasoningEffort::High,
        ReasoningEffort::Xhigh,
    ] {
        cases.push(case(format!("reasoning-effort.{word:?}"), word));
    }
    for word in [
        ActorState::Opening,
        ActorState::Idle,
        ActorState::Running,
        ActorState::Waiting,
        ActorState::Retiring,
        ActorState::Faulted,
        ActorState::Drained,
    ] {
        cases.push(case(format!("actor-state.{word:?}"), word));
    }
    cases
}
