//! Owns the closed list of hooks, each with a typed input and outcome.
//! Never dispatches: order, time limits and what an error means are the host's business.

mod lifecycle;
mod turn_projection;

pub use lifecycle::{KnownUsage, LoopOpenHandler, SessionDeletedHandler, TurnAfterHandler, TurnAfterInput};
pub use turn_projection::{Notice, ToolPolicy, TurnProjection, TurnProjectionHandler, TurnProjectionInput};

use std::sync::Arc;

/// A handler of one kind of hook.
#[derive(Clone)]
pub enum Hook {
    /// Contributes to the prompt of a turn.
    TurnProjection(Arc<dyn TurnProjectionHandler>),
    /// Looks at a turn that has ended.
    TurnAfter(Arc<dyn TurnAfterHandler>),
    /// Starts or repairs what belongs to a branch.
    LoopOpen(Arc<dyn LoopOpenHandler>),
    /// Cleans up after a session.
    SessionDeleted(Arc<dyn SessionDeletedHandler>),
}

/// The kinds of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookKind {
    /// `turnProjection`, class Projection: an error or a timeout contributes nothing this time.
    TurnProjection,
    /// `turnAfter`, class Observe: an error is reported, the branch goes on.
    TurnAfter,
    /// `loopOpen`, class Lifecycle: an error is reported, the branch goes on.
    LoopOpen,
    /// `sessionDeleted`, class Lifecycle: an error is reported, the session is gone all the same.
    SessionDeleted,
}

impl Hook {
    /// Its kind.
    pub fn kind(&self) -> HookKind {
        match self {
            Self::TurnProjection(_) => HookKind::TurnProjection,
            Self::TurnAfter(_) => HookKind::TurnAfter,
            Self::LoopOpen(_) => HookKind::LoopOpen,
            Self::SessionDeleted(_) => HookKind::SessionDeleted,
        }
    }
}

impl HookKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::TurnProjection, Self::TurnAfter, Self::LoopOpen, Self::SessionDeleted];

    /// Its name on the wire and in scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::TurnProjection => "turnProjection",
            Self::TurnAfter => "turnAfter",
            Self::LoopOpen => "loopOpen",
            Self::SessionDeleted => "sessionDeleted",
        }
    }
}
