//! Owns what an extension may do to a branch: send to it, say something to its turn, stop it, keep it in memory.
//! Never does it: the host stamps each message with the extension's id, stores it, and answers from what it stored.
//! Tested in `actors/tests/it/`.

use futures_util::future::BoxFuture;
use gent_protocol::{BranchId, MessageId, SessionId};

/// The longest source id of a follow-up, in characters.
pub const SOURCE_ID_CHARS: usize = 256;

/// A branch. Verbs without one mean the branch of the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchTarget {
    /// The session, of the same workspace.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
}

/// A message that waits for its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct FollowUp {
    /// The same source id again replaces the message while it waits and does nothing once its turn has begun.
    /// 1 to 256 characters.
    pub source_id: String,
    /// The text.
    pub content: String,
    /// A type of the extension's own, for readers of the transcript.
    pub custom_type: Option<String>,
    /// In the transcript, not shown to the model.
    pub hidden: bool,
    /// Begins a turn as soon as none runs, also on a branch that has not lived yet.
    pub wake: bool,
}

/// Something that is said to a turn that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerMessage {
    /// Once for each id; at most 128 characters. The message's id is `<request_id>:interjection`.
    pub request_id: String,
    /// The text.
    pub content: String,
    /// A type of the extension's own, for readers of the transcript.
    pub custom_type: Option<String>,
    /// Begins a turn where none runs.
    pub wake: bool,
}

/// A prompt for another branch.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnMessage {
    /// Once for each id; at most 128 characters.
    pub request_id: String,
    /// The text.
    pub content: String,
    /// Answer when the turn has ended: only towards a session that this one spawned.
    pub wait: bool,
}

/// Why a verb was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// As many follow-ups wait as may.
    #[error("{max} follow-ups wait on the branch already")]
    FollowUpQueueFull {
        /// The bound.
        max: u64,
    },
    /// The branch's own turn would wait for itself, or for one that may wait for it.
    #[error("a turn cannot wait for this branch: {message}")]
    WouldWait {
        /// Why.
        message: String,
    },
    /// The host refused or failed.
    #[error("{message}")]
    Failed {
        /// One sentence.
        message: String,
    },
    /// The context has outlived its host.
    #[error("the server that this context came from is gone")]
    Stale,
}

/// A result of a verb.
pub type SessionResult<'a, T> = BoxFuture<'a, Result<T, SessionError>>;

/// Keeps a branch in memory until it is dropped.
pub trait ResidentHold: Send + Sync {}

/// What an extension may do to branches of its workspace. `to`: none is the context's own branch.
pub trait SessionVerbs: Send + Sync {
    /// Queues a message behind what waits. On the own branch it begins after the running turn, its hooks included.
    /// Answers with the message's id.
    fn follow_up<'a>(&'a self, to: Option<BranchTarget>, message: FollowUp) -> SessionResult<'a, MessageId>;

    /// Takes a waiting follow-up back. True: it will not run; false: it runs, has run, or never was.
    fn dequeue_follow_up<'a>(
        &'a self,
        to: Option<BranchTarget>,
        message: MessageId,
    ) -> SessionResult<'a, bool>;

    /// Begins a turn on another branch, or queues its prompt there. Refused on the own branch.
    fn turn<'a>(&'a self, to: BranchTarget, message: TurnMessage) -> SessionResult<'a, MessageId>;

    /// Says something to the running turn: it reads it before its next request to a model.
    fn steer<'a>(&'a self, to: Option<BranchTarget>, message: SteerMessage) -> SessionResult<'a, MessageId>;

    /// Stops whatever runs. On the own branch the turn ends after the handler has returned or was dropped.
    fn stop<'a>(&'a self, to: Option<BranchTarget>) -> SessionResult<'a, ()>;

    /// Stops the turn of one message, also one that waits. True once for each message that a stop reached: false when
    /// its turn has ended, when it joined another turn, and when it was stopped before.
    fn stop_message<'a>(&'a self, to: Option<BranchTarget>, message: MessageId) -> SessionResult<'a, bool>;

    /// Keeps the own branch in memory while the hold lives. Outside of a living branch it holds nothing.
    fn hold_resident(&self) -> Box<dyn ResidentHold>;
}
