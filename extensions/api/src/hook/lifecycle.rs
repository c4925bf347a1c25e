//! Owns the hooks about the life of a branch: `turnAfter`, `loopOpen`, `sessionDeleted`.
//! A handler looks, repairs and cleans up; what it returns is nothing, and an error is reported. Tested in `actors`.

use futures_util::future::BoxFuture;
use gent_protocol::{AgentName, BranchId, MessageId, Millis, SessionId, Usage};

use crate::Context;

/// What a turn used, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KnownUsage {
    /// The sum of the steps whose count is known.
    pub known: Usage,
    /// What was priced of them, in US dollars.
    pub cost_usd: Option<f64>,
    /// Nothing of the turn is missing in the sum.
    pub complete: bool,
}

/// A turn that has ended; its receipt is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnAfterInput {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// Its opening message.
    pub message_id: MessageId,
    /// When it started.
    pub started_at: Millis,
    /// How long it took.
    pub duration: Millis,
    /// Its agent.
    pub agent: AgentName,
    /// It was stopped.
    pub interrupted: bool,
    /// It failed.
    pub stream_failed: bool,
    /// It ended without an answer.
    pub unanswered: bool,
    /// What it used.
    pub usage: KnownUsage,
    /// The keys of the notices that its last request carried; empty unless the turn was answered.
    pub read_notices: Vec<String>,
    /// What was said to it while it ran.
    pub joined: Vec<MessageId>,
}

/// Handles `turnAfter`: once for each turn that ended while the server lived, after its receipt and before the next turn
/// of the branch. After a death between receipt and hook it is not called: repair from `loopOpen`.
pub trait TurnAfterHandler: Send + Sync {
    /// The branch starts no other turn until it returns; it may queue one.
    fn turn_after<'a>(&'a self, context: Context, input: TurnAfterInput)
    -> BoxFuture<'a, Result<(), String>>;
}

/// Handles `loopOpen`: a branch was taken into memory. Runs beside it and delays no turn.
pub trait LoopOpenHandler: Send + Sync {
    /// Called once for each time the branch is opened.
    fn loop_open<'a>(&'a self, context: Context) -> BoxFuture<'a, Result<(), String>>;
}

/// Handles `sessionDeleted`: nothing of the session can be read or written any more.
pub trait SessionDeletedHandler: Send + Sync {
    /// The place to clean up what the extension keeps of it elsewhere.
    fn session_deleted<'a>(&'a self, session: SessionId) -> BoxFuture<'a, Result<(), String>>;
}
