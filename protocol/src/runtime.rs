//! Owns what a client is shown of a branch at rest or at work: queue, state, metrics, usage.
//! Never computes them. Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BranchId, InteractionRequestId, MessageId, Millis, RequestId, SessionId};

/// Tokens of one step or turn. A count the provider did not give is absent, never 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// All input, cached or not.
    pub input_tokens: u64,
    /// All output, reasoning included.
    pub output_tokens: u64,
    /// Of the input: read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Of the input: written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
}

/// One waiting message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_tag", rename_all_fields = "camelCase")]
pub enum QueueEntry {
    /// Delivered at the next step boundary of the running turn.
    Steering {
        /// The message's id.
        id: MessageId,
        /// Its text.
        content: String,
        /// When it was queued.
        created_at: Millis,
    },
    /// Opens a turn of its own when its time has come.
    FollowUp {
        /// The message's id.
        id: MessageId,
        /// Its text.
        content: String,
        /// When it was queued.
        created_at: Millis,
    },
}

/// What waits on a branch. Messages without text are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueSnapshot {
    /// Steers, oldest first.
    pub steering: Vec<QueueEntry>,
    /// Follow-ups, oldest first.
    pub follow_up: Vec<QueueEntry>,
}

/// Parameters of `queue.get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetQueue {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
}

/// Parameters of `queue.drain`: takes everything that waits out of the queue and answers with it. What runs goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainQueue {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// Idempotency key: a repeat answers as the first did, and takes nothing.
    pub request_id: RequestId,
}

/// What a branch does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_tag", rename_all_fields = "camelCase")]
pub enum RuntimeState {
    /// No turn.
    Idle {
        /// What waits.
        queue: QueueSnapshot,
    },
    /// A turn runs.
    Running {
        /// What waits.
        queue: QueueSnapshot,
        /// The turn's opening message.
        message_id: MessageId,
        /// When it started.
        started_at_ms: Millis,
    },
    /// A turn waits for an answer.
    WaitingForInteraction {
        /// What waits.
        queue: QueueSnapshot,
        /// The turn's opening message.
        message_id: MessageId,
        /// When it started.
        started_at_ms: Millis,
        /// The open question.
        request_id: InteractionRequestId,
    },
}

/// How full the model's window was at the last request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextGauge {
    /// Estimated tokens of the messages that were sent.
    pub estimated_tokens: u64,
    /// What messages may take: window less output reserve, system prompt and tools.
    pub available_input_tokens: u64,
    /// The window.
    pub context_limit_tokens: u64,
    /// Messages that did not fit.
    pub omitted_messages: u64,
    /// The marker of the last handoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_message_id: Option<MessageId>,
    /// Handoffs so far.
    pub compactions: u64,
}

/// Running totals of a branch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeMetrics {
    /// Turns that have ended.
    pub turns: u64,
    /// Their time.
    pub duration_ms: Millis,
    /// What was priced of them, in US dollars.
    pub cost_usd: f64,
    /// Input of the last step whose usage is known.
    pub last_input_tokens: u64,
    /// The gauge, once there was a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextGauge>,
}
