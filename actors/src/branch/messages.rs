//! Owns the messages of the branch actor and of its conversation with the directory.
//! Orders are named as orders, reports as what happened; each has a typed result.

use actix::Message;
use gent_protocol::{Approval, InteractionRequestId, MessageId, QuestionDecision, QueueSnapshot, RequestId};
use gent_storage::{QueueSender, StoreError};
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
    /// As many steers wait as may.
    #[error("the branch has {max} steers waiting already")]
    SteersFull {
        /// The bound.
        max: usize,
    },
    /// The question may not be answered: unknown, not shown yet, or closed.
    #[error("the question is not the one that is asked")]
    NotAsked {
        /// The question that was answered.
        question: InteractionRequestId,
        /// The one that is asked.
        shown: Option<InteractionRequestId>,
    },
    /// The question has another answer.
    #[error("the question has another answer already")]
    OtherAnswer {
        /// The question.
        question: InteractionRequestId,
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
pub(crate) trait Order:
    Message<Result = Result<<Self as Order>::Output, BranchError>> + Send + 'static
{
    /// What it is answered with.
    type Output: Send + 'static;
}

/// What a message is to the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubmitKind {
    /// A prompt: it opens a turn as soon as one may begin.
    Prompt,
    /// Queued by source: with `wake` it opens a turn like a prompt, without it only on a branch that has lived.
    FollowUp { wake: bool },
}

/// A message that is to open a turn.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    pub(crate) message: gent_protocol::Message,
    pub(crate) kind: SubmitKind,
    pub(crate) sender: Option<QueueSender>,
    pub(crate) approval: Option<Approval>,
}

/// Admits a message; with `waits` the reply comes when its turn has ended.
#[derive(Message)]
#[rtype(result = "Result<(), BranchError>")]
pub(crate) struct Submit {
    pub(crate) submission: Submission,
    pub(crate) waits: bool,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Takes a waiting follow-up back. True: it will not run; false: it runs, has run, or never was.
#[derive(Message)]
#[rtype(result = "Result<bool, BranchError>")]
pub(crate) struct Dequeue {
    pub(crate) message: MessageId,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Something that is said to a running turn.
#[derive(Debug, Clone)]
pub(crate) struct Interjection {
    pub(crate) request: RequestId,
    pub(crate) message: gent_protocol::Message,
    pub(crate) sender: Option<QueueSender>,
    pub(crate) wake: bool,
}

/// Says something to the running turn, or lets it wait.
#[derive(Message)]
#[rtype(result = "Result<(), BranchError>")]
pub(crate) struct Interject {
    pub(crate) interjection: Interjection,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// An order to stop: the turn of `message`, also one that has not started; without it, whatever runs.
#[derive(Debug, Clone)]
pub(crate) struct StopOrder {
    pub(crate) request: RequestId,
    pub(crate) message: Option<MessageId>,
    /// The branch that asked; none: a client.
    pub(crate) requester: Option<QueueSender>,
}

/// Stops. True once for each message that a stop reached.
#[derive(Message)]
#[rtype(result = "Result<bool, BranchError>")]
pub(crate) struct Stop {
    pub(crate) order: StopOrder,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Answers a question of the branch.
#[derive(Message)]
#[rtype(result = "Result<(), BranchError>")]
pub(crate) struct Answer {
    pub(crate) question: InteractionRequestId,
    pub(crate) decision: QuestionDecision,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Takes everything that waits out of the queue.
#[derive(Message)]
#[rtype(result = "Result<QueueSnapshot, BranchError>")]
pub(crate) struct DrainAll {
    pub(crate) request: RequestId,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// A credential was offered: a turn that waits for one may go on.
#[derive(Message)]
#[rtype(result = "Result<(), BranchError>")]
pub(crate) struct CredentialOffered {
    pub(crate) permit: OwnedSemaphorePermit,
}

impl Order for Submit {
    type Output = ();
}
impl Order for Dequeue {
    type Output = bool;
}
impl Order for Interject {
    type Output = ();
}
impl Order for Stop {
    type Output = bool;
}
impl Order for Answer {
    type Output = ();
}
impl Order for DrainAll {
    type Output = QueueSnapshot;
}
impl Order for CredentialOffered {
    type Output = ();
}

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
