//! Owns the ids that are computed from other ids. They are idempotency keys: a replay writes the same id
//! and becomes a no-op. Never reads anything but its arguments.
//! Tested below.

use crate::{BranchId, MessageId, ModelId, RequestId, SessionId, ToolCallId, WorkspaceId};

/// The user message of a client's send: `message:<requestId>`.
pub fn client_message_id(request: &RequestId) -> MessageId {
    MessageId::from_parts(format!("message:{request}"))
}

/// The message of something that is said to a running turn: `<requestId>:interjection`.
pub fn interjection_message_id(request: &RequestId) -> MessageId {
    MessageId::from_parts(format!("{request}:interjection"))
}

/// The user message of a session's first prompt: `message:session.create:<requestId>:initial`.
pub fn initial_prompt_message_id(request: &RequestId) -> MessageId {
    MessageId::from_parts(format!("message:session.create:{request}:initial"))
}

/// The assistant message of a step (steps start at 1).
pub fn assistant_message_id(turn: &MessageId, step: u32) -> MessageId {
    MessageId::from_parts(format!("{turn}:assistant:{step}"))
}

/// The message that holds the results of a step's tool calls.
pub fn tool_result_message_id(turn: &MessageId, step: u32) -> MessageId {
    MessageId::from_parts(format!("{turn}:tool-result:{step}"))
}

/// The instruction to go on that follows a cut, empty or broken step.
pub fn continuation_message_id(turn: &MessageId, step: u32) -> MessageId {
    MessageId::from_parts(format!("{turn}:continuation:{step}"))
}

/// The instruction that precedes the last step a turn may take.
pub fn final_step_message_id(turn: &MessageId) -> MessageId {
    MessageId::from_parts(format!("{turn}:final-step"))
}

/// The notice that a step is answered by another model than the step before.
pub fn model_change_message_id(turn: &MessageId, step: u32, previous: &ModelId, next: &ModelId) -> MessageId {
    MessageId::from_parts(format!("model-change:{turn}:{step}:{previous}:{next}"))
}

/// A follow-up that an extension queued under its own source id.
pub fn follow_up_message_id(
    workspace: &WorkspaceId,
    session: &SessionId,
    branch: &BranchId,
    source: &str,
) -> MessageId {
    MessageId::from_parts(format!("follow-up:{workspace}:{session}:{branch}:{source}"))
}

/// The id of a call to which the provider gave none: `<assistantMessageId>:<n>`, `n` from 1.
pub fn synthetic_tool_call_id(assistant: &MessageId, n: usize) -> ToolCallId {
    ToolCallId::from_parts(format!("{assistant}:{n}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_have_the_documented_form() {
        let turn = client_message_id(&RequestId::parse("r").unwrap());
        assert_eq!(turn.as_str(), "message:r");
        assert_eq!(assistant_message_id(&turn, 1).as_str(), "message:r:assistant:1");
        assert_eq!(tool_result_message_id(&turn, 2).as_str(), "message:r:tool-result:2");
        assert_eq!(continuation_message_id(&turn, 3).as_str(), "message:r:continuation:3");
        assert_eq!(final_step_message_id(&turn).as_str(), "message:r:final-step");
        assert_eq!(synthetic_tool_call_id(&turn, 1).as_str(), "message:r:1");
    }
}
