//! Owns what an operator is shown of a branch actor.
//! Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BranchId, Millis, PageParams, SessionId, WorkspaceId};

/// Parameters of `actor.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListActors {
    /// Which page.
    #[serde(flatten)]
    pub page: PageParams,
}

/// Parameters of `actor.get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetActor {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
}

/// What an actor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActorState {
    /// Reading its rows.
    Opening,
    /// No turn.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for an answer.
    Waiting,
    /// Leaving memory.
    Retiring,
    /// Given up after repeated failures; a prompt brings it back.
    Faulted,
    /// Not in memory; a turn of it waits in its rows.
    Drained,
}

/// Commands that wait in a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaneDepth {
    /// Cancel, steer, stop, answer, inspect.
    pub control: u32,
    /// Everything else.
    pub data: u32,
}

/// One branch as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActorRow {
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its session.
    pub session_id: SessionId,
    /// Its branch.
    pub branch_id: BranchId,
    /// What it does.
    pub state: ActorState,
    /// For how long.
    pub since_ms: Millis,
    /// The number of this activation, counted over all branches since the server started.
    pub generation: u64,
    /// Its right to commit: the highest of all activations.
    pub epoch: i64,
    /// What keeps it in memory.
    pub holds: Vec<String>,
    /// What waits in its lanes.
    pub lanes: LaneDepth,
    /// How often it died since the server started.
    pub restarts: u32,
    /// How often its unfinished turn was started over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// What its turn waits for: `credential`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Its last failure, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}
