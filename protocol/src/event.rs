//! Owns the catalogue of events. Never decides when one is emitted.
//! Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::is_false;
use crate::{
    BranchId, EventSeq, ExtensionId, InteractionRequestId, Message, MessageId, Millis, ModelId,
    ReasoningEffort, RunId, SessionId, StoreIncarnation, ToolCallId, Usage,
};

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepOutcome {
    /// Cancelled.
    Interrupted,
    /// The stream broke.
    Failed,
    /// The model asked for tools.
    ToolCalls,
    /// The model answered.
    Answered,
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_tag", rename_all_fields = "camelCase")]
pub enum AgentEvent {
    /// A session was made.
    SessionStarted {
        /// The session.
        session_id: SessionId,
        /// Its first branch.
        branch_id: BranchId,
    },
    /// A message was stored.
    MessageReceived {
        /// The whole message.
        message: Message,
    },
    /// The window of a request is final.
    ModelContextProjected {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// Estimated tokens of the messages.
        estimated_tokens: u64,
        /// What messages may take.
        available_input_tokens: u64,
        /// The window.
        context_limit_tokens: u64,
        /// Messages that did not fit.
        omitted_messages: u64,
        /// The marker of the last handoff.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handoff_message_id: Option<MessageId>,
        /// A handoff happened for this request.
        compacted: bool,
        /// What the summary cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// A request goes out.
    StreamStarted {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The turn's opening message.
        message_id: MessageId,
        /// The step, from 1.
        step: u32,
        /// The run: text collected of another run of this step is void.
        run: RunId,
    },
    /// Text arrived. Perishable: the text is in the message that follows.
    StreamChunk {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The turn's opening message.
        message_id: MessageId,
        /// The step.
        step: u32,
        /// The run.
        run: RunId,
        /// UTF-8 bytes of the step's text before `chunk`.
        offset: u64,
        /// The text.
        chunk: String,
    },
    /// A request is tried again after a wait.
    ProviderRetrying {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Attempts in all.
        max_attempts: u32,
        /// The wait.
        delay_ms: Millis,
        /// Why.
        error: String,
    },
    /// A step's stream ended.
    StreamEnded {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The turn's opening message.
        message_id: MessageId,
        /// The step.
        step: u32,
        /// What the provider counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Estimated tokens of system prompt and tools.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_overhead_tokens: Option<u64>,
        /// The model that was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelId>,
        /// What it cost, frozen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The catalogue entry it was priced by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priced_model: Option<ModelId>,
        /// It was cancelled.
        #[serde(default, skip_serializing_if = "is_false")]
        interrupted: bool,
        /// How it ended.
        outcome: StepOutcome,
    },
    /// A call begins.
    ToolCallStarted {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// The call that made this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<ToolCallId>,
        /// The message that holds the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assistant_message_id: Option<MessageId>,
    },
    /// A call succeeded.
    ToolCallSucceeded {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// One line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Text for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// The result, lossless: what a replay uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result_json: Option<String>,
        /// The call that made this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<ToolCallId>,
        /// The message that holds the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assistant_message_id: Option<MessageId>,
    },
    /// A call failed or did not run.
    ToolCallFailed {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// One line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Text for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// The result, lossless: what a replay uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result_json: Option<String>,
        /// The call that made this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<ToolCallId>,
        /// The message that holds the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assistant_message_id: Option<MessageId>,
    },
    /// A question is shown.
    InteractionPresented {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The question.
        request_id: InteractionRequestId,
        /// Its text.
        text: String,
        /// Facts for a client that draws it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    /// A question was answered or dismissed.
    InteractionResolved {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The question.
        request_id: InteractionRequestId,
        /// The answer.
        approved: bool,
        /// What the user said with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notes: Option<String>,
        /// What the user made of the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited_content: Option<String>,
        /// It closed unanswered.
        #[serde(default, skip_serializing_if = "is_false")]
        dismissed: bool,
    },
    /// Something went wrong. With `notice` the turn goes on; without, it may end on it.
    ErrorOccurred {
        /// The session.
        session_id: SessionId,
        /// The branch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch_id: Option<BranchId>,
        /// What, in words.
        error: String,
        /// The turn goes on.
        #[serde(default, skip_serializing_if = "is_false")]
        notice: bool,
    },
    /// A turn ended: exactly one for each admitted turn.
    TurnCompleted {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The turn's opening message.
        message_id: MessageId,
        /// How long it took.
        duration_ms: Millis,
        /// It was cancelled.
        #[serde(default, skip_serializing_if = "is_false")]
        interrupted: bool,
        /// It ended on a failure.
        stream_failed: bool,
        /// It ended without an answer.
        #[serde(default, skip_serializing_if = "is_false")]
        unanswered: bool,
        /// Its tokens; only when every step's are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Its cost; only beside `usage`, when every step was priced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// A session was renamed.
    SessionNameUpdated {
        /// The session.
        session_id: SessionId,
        /// Its name.
        name: String,
    },
    /// A session's settings changed; an absent one is unset.
    SessionSettingsUpdated {
        /// The session.
        session_id: SessionId,
        /// The model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_id: Option<ModelId>,
        /// The effort.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning_level: Option<ReasoningEffort>,
    },
    /// A branch was made.
    BranchCreated {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The branch it was forked from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_branch_id: Option<BranchId>,
        /// The last message it shares with that branch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<MessageId>,
    },
    /// Another branch became the active one.
    BranchSwitched {
        /// The session.
        session_id: SessionId,
        /// From.
        from_branch_id: BranchId,
        /// To.
        to_branch_id: BranchId,
    },
    /// An extension's state changed; whoever shows it asks for it.
    ExtensionStateChanged {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// The extension.
        extension_id: ExtensionId,
    },
    /// The replay of a subscription is over. Never stored; shares its number with the last replayed event.
    StreamSynchronized {
        /// The session.
        session_id: SessionId,
        /// The branch that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch_id: Option<BranchId>,
        /// The cursor.
        last_event_id: EventSeq,
        /// The store's incarnation; goes with the cursor.
        store: StoreIncarnation,
    },
}

impl AgentEvent {
    /// Every tag, in the order of the catalogue.
    pub const TAGS: [&'static str; 20] = [
        "SessionStarted",
        "MessageReceived",
        "ModelContextProjected",
        "StreamStarted",
        "StreamChunk",
        "ProviderRetrying",
        "StreamEnded",
        "ToolCallStarted",
        "ToolCallSucceeded",
        "ToolCallFailed",
        "InteractionPresented",
        "InteractionResolved",
        "ErrorOccurred",
        "TurnCompleted",
        "SessionNameUpdated",
        "SessionSettingsUpdated",
        "BranchCreated",
        "BranchSwitched",
        "ExtensionStateChanged",
        "StreamSynchronized",
    ];

    /// The event's tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::SessionStarted { .. } => "SessionStarted",
            Self::MessageReceived { .. } => "MessageReceived",
            Self::ModelContextProjected { .. } => "ModelContextProjected",
            Self::StreamStarted { .. } => "StreamStarted",
            Self::StreamChunk { .. } => "StreamChunk",
            Self::ProviderRetrying { .. } => "ProviderRetrying",
            Self::StreamEnded { .. } => "StreamEnded",
            Self::ToolCallStarted { .. } => "ToolCallStarted",
            Self::ToolCallSucceeded { .. } => "ToolCallSucceeded",
            Self::ToolCallFailed { .. } => "ToolCallFailed",
            Self::InteractionPresented { .. } => "InteractionPresented",
            Self::InteractionResolved { .. } => "InteractionResolved",
            Self::ErrorOccurred { .. } => "ErrorOccurred",
            Self::TurnCompleted { .. } => "TurnCompleted",
            Self::SessionNameUpdated { .. } => "SessionNameUpdated",
            Self::SessionSettingsUpdated { .. } => "SessionSettingsUpdated",
            Self::BranchCreated { .. } => "BranchCreated",
            Self::BranchSwitched { .. } => "BranchSwitched",
            Self::ExtensionStateChanged { .. } => "ExtensionStateChanged",
            Self::StreamSynchronized { .. } => "StreamSynchronized",
        }
    }

    /// The session it belongs to.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::MessageReceived { message } => &message.session_id,
            Self::SessionStarted { session_id, .. }
            | Self::ModelContextProjected { session_id, .. }
            | Self::StreamStarted { session_id, .. }
            | Self::StreamChunk { session_id, .. }
            | Self::ProviderRetrying { session_id, .. }
            | Self::StreamEnded { session_id, .. }
            | Self::ToolCallStarted { session_id, .. }
            | Self::ToolCallSucceeded { session_id, .. }
            | Self::ToolCallFailed { session_id, .. }
            | Self::InteractionPresented { session_id, .. }
            | Self::InteractionResolved { session_id, .. }
            | Self::ErrorOccurred { session_id, .. }
            | Self::TurnCompleted { session_id, .. }
            | Self::SessionNameUpdated { session_id, .. }
            | Self::SessionSettingsUpdated { session_id, .. }
            | Self::BranchCreated { session_id, .. }
            | Self::BranchSwitched { session_id, .. }
            | Self::ExtensionStateChanged { session_id, .. }
            | Self::StreamSynchronized { session_id, .. } => session_id,
        }
    }

    /// The branch it belongs to; none means that every subscriber of the session gets it.
    pub fn branch_id(&self) -> Option<&BranchId> {
        match self {
            Self::MessageReceived { message } => Some(&message.branch_id),
            Self::SessionStarted { branch_id, .. }
            | Self::ModelContextProjected { branch_id, .. }
            | Self::StreamStarted { branch_id, .. }
            | Self::StreamChunk { branch_id, .. }
            | Self::ProviderRetrying { branch_id, .. }
            | Self::StreamEnded { branch_id, .. }
            | Self::ToolCallStarted { branch_id, .. }
            | Self::ToolCallSucceeded { branch_id, .. }
            | Self::ToolCallFailed { branch_id, .. }
            | Self::InteractionPresented { branch_id, .. }
            | Self::InteractionResolved { branch_id, .. }
            | Self::TurnCompleted { branch_id, .. }
            | Self::BranchCreated { branch_id, .. }
            | Self::ExtensionStateChanged { branch_id, .. } => Some(branch_id),
            Self::ErrorOccurred { branch_id, .. } | Self::StreamSynchronized { branch_id, .. } => {
                branch_id.as_ref()
            }
            Self::SessionNameUpdated { .. }
            | Self::SessionSettingsUpdated { .. }
            | Self::BranchSwitched { .. } => None,
        }
    }
}
