//! Owns how an extension asks for leave. Never decides who is asked.
//! Tested in `actors`.

use futures_util::future::BoxFuture;
use serde_json::Value;

/// A question whose answer is yes or no.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// What is to be allowed, in words.
    pub text: String,
    /// Facts for a client that draws the question.
    pub metadata: Option<Value>,
}

/// An answer. It holds for this one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Yes or no.
    pub approved: bool,
    /// What was said with it, or why nobody could be asked.
    pub notes: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InteractionError {
    /// The call was stopped.
    #[error("the call was stopped before an answer came")]
    Stopped,
}

/// Asking for leave.
pub trait Interaction: Send + Sync {
    /// Asks. Where nobody can be asked the decision is no, with the reason in its notes.
    fn approve<'a>(&'a self, request: ApprovalRequest) -> BoxFuture<'a, Result<Decision, InteractionError>>;
}
