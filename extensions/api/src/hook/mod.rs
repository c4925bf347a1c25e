//! Owns the closed list of hooks, each with a typed input and outcome.
//! Never dispatches: order, time limits and what an error means are the host's business.

mod turn_projection;

pub use turn_projection::{Notice, ToolPolicy, TurnProjection, TurnProjectionHandler, TurnProjectionInput};

use std::sync::Arc;

/// A handler of one kind of hook.
#[derive(Clone)]
pub enum Hook {
    /// Contributes to the prompt of a turn.
    TurnProjection(Arc<dyn TurnProjectionHandler>),
}

/// The kinds of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookKind {
    /// `turnProjection`, class Projection: an error or a timeout contributes nothing this time.
    TurnProjection,
}

impl Hook {
    /// Its kind.
    pub fn kind(&self) -> HookKind {
        match self {
            Self::TurnProjection(_) => HookKind::TurnProjection,
        }
    }
}

impl HookKind {
    /// Every kind.
    pub const ALL: [Self; 1] = [Self::TurnProjection];

    /// Its name on the wire and in scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::TurnProjection => "turnProjection",
        }
    }
}
