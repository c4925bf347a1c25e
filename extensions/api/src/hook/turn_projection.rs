//! Owns the `turnProjection` hook: what an extension adds to the prompt of a turn.
//! Tested in `actors/src/profile` and through `@gent/agents`.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;

use crate::{AgentDefinition, Context, PromptSection};

/// What a turn is about to run under.
#[derive(Debug, Clone)]
pub struct TurnProjectionInput {
    /// The agent.
    pub agent: AgentDefinition,
    /// Somebody can be asked.
    pub interactive: bool,
}

/// What an extension adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnProjection {
    /// Sections of the system prompt.
    pub prompt_sections: Vec<PromptSection>,
    /// Host status that follows the conversation, never stored.
    pub notices: Vec<Notice>,
    /// Which tools the model is shown.
    pub tool_policy: Option<ToolPolicy>,
}

/// A short text of host status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its id.
    pub id: String,
    /// Its text; blank text is dropped.
    pub content: String,
    /// Keys that come back once a turn that showed it has been answered.
    pub keys: Vec<String>,
}

/// Which tools the model is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolPolicy {
    /// Only these, of those the agent holds; it cannot bring a tool back.
    pub model_set: Option<BTreeSet<String>>,
}

/// Handles `turnProjection`.
pub trait TurnProjectionHandler: Send + Sync {
    /// Says what to add. Called once a turn; dropped when the turn is stopped.
    fn project<'a>(
        &'a self,
        context: Context,
        input: TurnProjectionInput,
    ) -> BoxFuture<'a, Result<TurnProjection, String>>;
}
