//! Owns the goldens of every event and of the envelope, each with all its fields.

use gent_protocol::{
    AgentEvent, EventEnvelope, EventSeq, ExtensionId, Message, MessageMetadata, Millis, Part,
    ReasoningEffort, Role, StepOutcome, ToolCallId,
};
use serde_json::json;

use crate::golden::{Case, case};
use crate::samples as s;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = every_event().into_iter().map(of).collect();
    cases.push(case("event-envelope", envelope(every_event().remove(0), true)));
    cases.push(case(
        "event-envelope.no-branch",
        envelope(AgentEvent::SessionNameUpdated { session_id: s::session(), name: "n".into() }, false),
    ));
    for outcome in
        [StepOutcome::Interrupted, StepOutcome::Failed, StepOutcome::ToolCalls, StepOutcome::Answered]
    {
        cases.push(case(format!("step-outcome.{outcome:?}"), outcome));
    }
    cases
}

fn of(event: AgentEvent) -> Case {
    case(format!("event.{}", event.tag()), event)
}

fn envelope(event: AgentEvent, with_branch: bool) -> EventEnvelope {
    EventEnvelope {
        id: EventSeq(7),
        session_id: s::session(),
        branch_id: with_branch.then(s::branch),
        created_at: Millis(1_700_000_000_000),
        event,
        trace_id: with_branch.then(|| "0123456789abcdef0123456789abcdef".into()),
    }
}

fn every_event() -> Vec<AgentEvent> {
    let mut events = stream_events();
    events.extend(tool_events());
    events.extend(session_events());
    events
}

fn stream_events() -> Vec<AgentEvent> {
    let (session_id, branch_id, message_id) = (s::session(), s::branch(), s::turn());
    let continuation = Message {
        parts: vec![Part::text("carry on")],
        role: Role::User,
        turn_duration_ms: None,
        metadata: Some(MessageMetadata {
            custom_type: Some("continuation".into()),
            details: Some(json!({ "step": 1 })),
            ..MessageMetadata::default()
        }),
        ..s::message()
    };
    vec![
        AgentEvent::MessageReceived { message: continuation },
        AgentEvent::ModelContextProjected {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            estimated_tokens: 400,
            available_input_tokens: 110_000,
            context_limit_tokens: 128_000,
            omitted_messages: 2,
            handoff_message_id: Some(s::assistant()),
            compacted: true,
            cost_usd: Some(0.25),
        },
        AgentEvent::StreamStarted {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            message_id: message_id.clone(),
            step: 1,
            run: s::run(),
        },
        AgentEvent::StreamChunk {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            message_id: message_id.clone(),
            step: 1,
            run: s::run(),
            offset: 6,
            chunk: "wörld".into(),
        },
        AgentEvent::ProviderRetrying {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            attempt: 1,
            max_attempts: 3,
            delay_ms: Millis(2000),
            error: "the provider is overloaded".into(),
        },
        AgentEvent::StreamEnded {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            message_id: message_id.clone(),
            step: 1,
            usage: Some(s::usage()),
            request_overhead_tokens: Some(900),
            model: Some(s::model()),
            cost_usd: Some(0.5),
            priced_model: Some(s::model()),
            interrupted: true,
            outcome: StepOutcome::Interrupted,
        },
        AgentEvent::ErrorOccurred {
            session_id: session_id.clone(),
            branch_id: Some(branch_id.clone()),
            error: "the model's window is assumed".into(),
            notice: true,
        },
        AgentEvent::TurnCompleted {
            session_id,
            branch_id,
            message_id,
            duration_ms: Millis(2500),
            interrupted: true,
            stream_failed: true,
            unanswered: true,
            usage: Some(s::usage()),
            cost_usd: Some(0.75),
        },
    ]
}

fn tool_events() -> Vec<AgentEvent> {
    let (session_id, branch_id) = (s::session(), s::branch());
    let parent = || Some(ToolCallId::parse("call-0").unwrap());
    vec![
        AgentEvent::ToolCallStarted {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            tool_call_id: s::call_id(),
            tool_name: "read".into(),
            input: Some(json!({ "path": "a.rs" })),
            parent_tool_call_id: parent(),
            assistant_message_id: Some(s::assistant()),
        },
        AgentEvent::ToolCallSucceeded {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            tool_call_id: s::call_id(),
            tool_name: "read".into(),
            summary: Some("12 lines".into()),
            output: Some("text".into()),
            result_json: Some("{\"content\":\"text\"}".into()),
            parent_tool_call_id: parent(),
            assistant_message_id: Some(s::assistant()),
        },
        AgentEvent::ToolCallFailed {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            tool_call_id: s::call_id(),
            tool_name: "read".into(),
            summary: Some("no such file".into()),
            output: Some("no such file: a.rs".into()),
            result_json: Some("{\"error\":\"no such file: a.rs\"}".into()),
            parent_tool_call_id: parent(),
            assistant_message_id: Some(s::assistant()),
        },
        AgentEvent::InteractionPresented {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            request_id: s::question(),
            text: "run it?".into(),
            metadata: Some(json!({ "type": "bash" })),
        },
        AgentEvent::InteractionResolved {
            session_id,
            branch_id,
            request_id: s::question(),
            approved: true,
            notes: Some("once".into()),
            edited_content: Some("ls -l".into()),
            dismissed: true,
        },
    ]
}

fn session_events() -> Vec<AgentEvent> {
    let (session_id, branch_id) = (s::session(), s::branch());
    vec![
        AgentEvent::SessionStarted { session_id: session_id.clone(), branch_id: branch_id.clone() },
        AgentEvent::SessionNameUpdated { session_id: session_id.clone(), name: "a name".into() },
        AgentEvent::SessionSettingsUpdated {
            session_id: session_id.clone(),
            model_id: Some(s::model()),
            reasoning_level: Some(ReasoningEffort::High),
        },
        AgentEvent::BranchCreated {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            parent_branch_id: Some(branch_id.clone()),
            parent_message_id: Some(s::turn()),
        },
        AgentEvent::BranchSwitched {
            session_id: session_id.clone(),
            from_branch_id: branch_id.clone(),
            to_branch_id: branch_id.clone(),
        },
        AgentEvent::ExtensionStateChanged {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            extension_id: ExtensionId::parse("@gent/fs-tools").unwrap(),
        },
        AgentEvent::StreamSynchronized {
            session_id,
            branch_id: Some(branch_id),
            last_event_id: EventSeq(6),
            store: s::store(),
        },
    ]
}
