//! Owns the session of the test context: every verb fails, since no test of a shipped tool needs one.
//! Compiled for tests only.

use futures_util::FutureExt;
use gent_extension_api::protocol::MessageId;
use gent_extension_api::{
    BranchTarget, FollowUp, ResidentHold, SessionError, SessionResult, SessionVerbs, SteerMessage,
    TurnMessage,
};

/// No branch to act on.
pub(crate) struct NoSession;

struct NoHold;

impl ResidentHold for NoHold {}

fn stale<'a, T: Send + 'a>() -> SessionResult<'a, T> {
    futures_util::future::ready(Err(SessionError::Stale)).boxed()
}

impl SessionVerbs for NoSession {
    fn follow_up<'a>(&'a self, _: Option<BranchTarget>, _: FollowUp) -> SessionResult<'a, MessageId> {
        stale()
    }

    fn dequeue_follow_up<'a>(&'a self, _: Option<BranchTarget>, _: MessageId) -> SessionResult<'a, bool> {
        stale()
    }

    fn turn<'a>(&'a self, _: BranchTarget, _: TurnMessage) -> SessionResult<'a, MessageId> {
        stale()
    }

    fn steer<'a>(&'a self, _: Option<BranchTarget>, _: SteerMessage) -> SessionResult<'a, MessageId> {
        stale()
    }

    fn stop<'a>(&'a self, _: Option<BranchTarget>) -> SessionResult<'a, ()> {
        stale()
    }

    fn stop_message<'a>(&'a self, _: Option<BranchTarget>, _: MessageId) -> SessionResult<'a, bool> {
        stale()
    }

    fn hold_resident(&self) -> Box<dyn ResidentHold> {
        Box::new(NoHold)
    }
}
