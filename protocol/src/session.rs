//! Owns the wire types of sessions, branches and messages: what is asked and what is answered.
//! Tested in `protocol/tests/wire.rs`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AgentName, BranchId, EventSeq, Message, MessageId, Millis, ModelId, OpenQuestion, PageParams,
    ReasoningEffort, RequestId, RunId, RuntimeMetrics, RuntimeState, SessionId, StoreIncarnation,
};

/// Variables of the client's environment that the session's processes start from. The server keeps only names
/// of its allow list and never a secret.
pub type EnvironmentMap = BTreeMap<String, String>;

/// What becomes of a tool call that must be allowed by somebody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Somebody must be asked; where nobody can be, the call answers `blocked`.
    #[default]
    Ask,
    /// Every call is allowed.
    Approve,
}

/// What every turn of a session runs under; fixed when it is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionAdmission {
    /// The agent; `main` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The model it was set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<ModelId>,
    /// The effort it was set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<ReasoningEffort>,
    /// The branch a client shows first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_branch_id: Option<BranchId>,
    /// The session that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// The branch that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_branch_id: Option<BranchId>,
    /// The chain of handoffs it belongs to; its own id when it began one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<SessionId>,
    /// What its turns run under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<SessionAdmission>,
    /// Whether its tool calls need somebody's leave.
    #[serde(default)]
    pub approval: Approval,
    /// When it was made.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
}

/// One line of messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// Its id.
    pub id: BranchId,
    /// Its session.
    pub session_id: SessionId,
    /// The branch it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_branch_id: Option<BranchId>,
    /// The last message it shares with that branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_message_id: Option<MessageId>,
    /// Its name; the first branch is `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Millis,
}

/// Parameters of `session.create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateSession {
    /// Its name; else the first line of the first prompt, 80 characters, else `New session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its working directory, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A prompt to send at once; the reply does not wait for its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    /// What its turns run under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<SessionAdmission>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<ModelId>,
    /// Its effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<ReasoningEffort>,
    /// Whether its tool calls need somebody's leave; `ask` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// What its processes start from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: EnvironmentMap,
    /// Idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// Result of `session.create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedSession {
    /// The session.
    pub session_id: SessionId,
    /// Its first branch.
    pub branch_id: BranchId,
    /// Its name.
    pub name: String,
}

/// Parameters of `session.list`: sessions of the workspace, newest change first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListSessions {
    /// Which page.
    #[serde(flatten)]
    pub page: PageParams,
}

/// Parameters of `session.get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetSession {
    /// The session.
    pub session_id: SessionId,
}

/// Parameters of `session.delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteSession {
    /// The session.
    pub session_id: SessionId,
}

/// Parameters of `session.updateSettings`. A key that is absent keeps what is stored, `null` clears it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSettings {
    /// The session.
    pub session_id: SessionId,
    /// The model.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model_id: Option<Option<ModelId>>,
    /// The effort.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<Option<ReasoningEffort>>,
}

/// Tells a key that is present and null from one that is absent.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Result of `session.updateSettings`: all settings after the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatedSettings {
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<ModelId>,
    /// The effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<ReasoningEffort>,
}

/// Parameters of `session.getSnapshot`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetSnapshot {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// `before` of an earlier snapshot: the page that ends before its oldest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// The text of a step that is still streaming.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamingText {
    /// The turn's opening message.
    pub message_id: MessageId,
    /// The step.
    pub step: u32,
    /// The run.
    pub run: RunId,
    /// The text so far.
    pub text: String,
    /// Its length in UTF-8 bytes: the `offset` that the next delta will have.
    pub offset: u64,
}

/// Result of `session.getSnapshot`: one consistent read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSnapshot {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The session's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The page of messages, oldest first; it ends at the newest message (or before `before`).
    pub messages: Vec<Message>,
    /// Older messages exist.
    pub truncated: bool,
    /// The cursor for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The newest event this snapshot accounts for; subscribe with `after` this.
    pub last_event_id: EventSeq,
    /// The store's incarnation; goes with the cursor.
    pub store: StoreIncarnation,
    /// The model the session was set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<ModelId>,
    /// The effort the session was set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<ReasoningEffort>,
    /// Its agent.
    pub agent: AgentName,
    /// The model a turn would use now, where one can be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_model_id: Option<ModelId>,
    /// Why that one, or why none, in one sentence.
    pub resolved_model_reason: String,
    /// What the branch does.
    pub runtime: RuntimeState,
    /// Its totals.
    pub metrics: RuntimeMetrics,
    /// The text of the step that streams, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<StreamingText>,
    /// The question that waits for an answer, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<OpenQuestion>,
}

/// Parameters of `session.events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvents {
    /// The session.
    pub session_id: SessionId,
    /// Only events of this branch, and those of no branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<BranchId>,
    /// The last event seen; from the start when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<EventSeq>,
    /// The store in which it was seen; checked when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreIncarnation>,
}

/// Parameters of `branch.list`: in creation order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListBranches {
    /// The session.
    pub session_id: SessionId,
    /// Which page.
    #[serde(flatten)]
    pub page: PageParams,
}

/// Parameters of `message.list`: in the branch's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMessages {
    /// The branch.
    pub branch_id: BranchId,
    /// Which page.
    #[serde(flatten)]
    pub page: PageParams,
}

/// Parameters of `message.send`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The text.
    pub content: String,
    /// Idempotency key. With one the reply comes when the turn has ended; without, when it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// For this turn alone; the session's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Replaces what the session's processes start from, when not empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: EnvironmentMap,
}

/// Result of a call that answers nothing but "done".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}
