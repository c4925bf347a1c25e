//! Owns how tests write down what they see: events in short, and what waits.

use gent_protocol::{AgentEvent, QueueEntry, StepOutcome};

/// What waits, in words.
pub(crate) fn contents(entries: &[QueueEntry]) -> Vec<String> {
    let content = |entry: &QueueEntry| match entry {
        QueueEntry::Steering { content, .. } | QueueEntry::FollowUp { content, .. } => content.clone(),
    };
    entries.iter().map(content).collect()
}

/// The messages that wait.
pub(crate) fn ids(entries: &[QueueEntry]) -> Vec<String> {
    let id = |entry: &QueueEntry| match entry {
        QueueEntry::Steering { id, .. } | QueueEntry::FollowUp { id, .. } => id.to_string(),
    };
    entries.iter().map(id).collect()
}

/// One event in the notation of the reference traces; none for the marker.
pub(super) fn short(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::StreamSynchronized { .. } => return None,
        AgentEvent::MessageReceived { message } => {
            let id = message.id.as_str();
            format!("MR({})", id.rsplit("message:").next().unwrap_or(id))
        }
        AgentEvent::ModelContextProjected { .. } => "MCP".into(),
        AgentEvent::StreamStarted { step, .. } => format!("SS{step}"),
        AgentEvent::StreamChunk { .. } => "SC".into(),
        AgentEvent::StreamEnded { step, outcome, .. } => match outcome {
            StepOutcome::Answered => format!("SE{step}(Answered)"),
            StepOutcome::ToolCalls => format!("SE{step}(ToolCalls)"),
            StepOutcome::Failed => format!("SE{step}(Failed)"),
            StepOutcome::Interrupted => format!("SE{step}(Interrupted)"),
        },
        AgentEvent::ToolCallStarted { tool_call_id, .. } => format!("TS({tool_call_id})"),
        AgentEvent::ToolCallSucceeded { tool_call_id, .. } => format!("TOK({tool_call_id})"),
        AgentEvent::ToolCallFailed { tool_call_id, .. } => format!("TF({tool_call_id})"),
        AgentEvent::ProviderRetrying { attempt, .. } => format!("Retry({attempt})"),
        AgentEvent::ErrorOccurred { error, .. } => format!("Error({error})"),
        AgentEvent::TurnCompleted { interrupted, stream_failed, unanswered, .. } => {
            let flags =
                [(*interrupted, "interrupted"), (*stream_failed, "failed"), (*unanswered, "unanswered")];
            let flags: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
            format!("TC({})", flags.join(","))
        }
        other => other.tag().to_owned(),
    })
}
