//! Owns what can be done to a running turn from outside.
//! Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BranchId, MessageId, RequestId, SessionId};

/// Parameters of `steer.command`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SteerParams {
    /// What to do.
    pub command: SteerCommand,
}

/// What to do to a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "_tag", rename_all_fields = "camelCase")]
pub enum SteerCommand {
    /// Ends a turn as interrupted.
    Cancel {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// Idempotency key.
        request_id: RequestId,
        /// The turn's opening message: then also a turn that has not started is stopped, and no other one.
        /// Absent: whatever runs now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
    },
}
