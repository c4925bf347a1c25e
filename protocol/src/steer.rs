//! Owns what can be done to a running turn from outside.
//! Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::message::is_false;
use crate::{BranchId, MessageId, MessageMetadata, RequestId, SessionId};

/// Parameters of `steer.command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SteerParams {
    /// What to do.
    pub command: SteerCommand,
}

/// What to do to a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Says something to a turn that runs: it reads it before its next request. Nothing runs: it waits, or with
    /// `wake` opens a turn. Its message is `<requestId>:interjection`.
    Interject {
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
        /// Idempotency key, and the stem of the message's id.
        request_id: RequestId,
        /// The text.
        message: String,
        /// Goes with the message; what only the server may say is taken out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<MessageMetadata>,
        /// Opens a turn when the branch is idle.
        #[serde(default, skip_serializing_if = "is_false")]
        wake: bool,
    },
}
