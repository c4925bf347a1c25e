//! Owns the messages of the branch actor and of its conversation with the directory.
//! Orders are named as orders, reports as what happened; each has a typed result.

use actix::Message;
use gent_protocol::{Approval, MessageId, RequestId};
use gent_storage::StoreError;
use tokio::sync::OwnedSemaphorePermit;

use super::key::BranchKey;

/// Why a branch did not do what was ordered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BranchError {
    /// The activation is leaving: send it again, the handle finds the next one.
    #[error("the branch is moving")]
    Moved,
    /// The server takes no new turns.
    #[error("the server is shutting down")]
    Draining,
    /// As many follow-ups wait as may.
    #[error("the branch has {max} follow-ups waiting already")]
    FollowUpsFull {
        /// The bound.
        max: usize,
    },
    /// As many callers wait as may.
    #[error("{max} callers wait on the branch already")]
    WaitersFull {
        /// The bound.
        max: usize,
    },
    /// The turn that was waited for failed.
    #[error("{0}")]
    Turn(String),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An order with its place in the lane.
pub(crate) trait Order: Message<Result = Result<(), BranchError>> + Send + 'static {}

/// Admits a message; with `waits` the reply comes when its turn has ended.
#[derive(Message)]
#[rtype(result = "Result<(), BranchError>")]
pub(crate) struct Submit {
    pub(crate) message: gent_protocol::Message,
    pub(crate) approval: Option<Approval>,
    pub(crate) waits: bool,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Ends the turn of `message`, also one that has not started; without it, whatever runs.
#[derive(Message)]
#[rtype(result = "Result<(), BranchError>")]
pub(crate) struct CancelTurn {
    pub(crate) request: RequestId,
    pub(crate) message: Option<MessageId>,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// A credential was offered: a turn that waits for one may go on.
#[derive(Message)]
#[rtype(result = "Result<(), BranchError>")]
pub(crate) struct CredentialOffered {
    pub(crate) permit: OwnedSemaphorePermit,
}

impl Order for Submit {}
impl Order for CancelTurn {}
impl Order for CredentialOffered {}

/// Ends the activation: its scope is closed, nothing is recorded.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Close;

/// A branch reports that nothing holds it.
#[derive(Message)]
#[rtype(result = "Verdict")]
pub(crate) struct Idle {
    pub(crate) key: BranchKey,
    pub(crate) generation: u64,
}

/// What the directory makes of [`Idle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, actix::MessageResponse)]
pub(crate) enum Verdict {
    /// Leave.
    Retire,
    /// Stay: somebody is on the way.
    Stay,
}
