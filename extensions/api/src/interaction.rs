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
    /// What the user made of the text that was shown.
    pub edited_content: Option<String>,
}

impl Decision {
    /// A yes without words.
    pub fn yes() -> Self {
        Self { approved: true, notes: None, edited_content: None }
    }

    /// A no that says why.
    pub fn no(why: impl Into<String>) -> Self {
        Self { approved: false, notes: Some(why.into()), edited_content: None }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InteractionError {
    /// The call was stopped.
    #[error("the call was stopped before an answer came")]
    Stopped,
    /// The question could not be stored: it counts as not asked.
    #[error("the question could not be asked: {message}")]
    Failed {
        /// Why.
        message: String,
    },
}

/// Asking for leave.
pub trait Interaction: Send + Sync {
    /// Asks. Where nobody can be asked the decision is no, with the reason in its notes.
    ///
    /// The question is stored, and the call waits for its answer without a task: the handler is dropped at this await
    /// and run again from its beginning once the answer is there, perhaps days later and by another process; then this
    /// returns the answer at once. So what comes before the first ask must be without effect, and the questions of one
    /// call must come in the same order each time. An answer holds for this one call.
    fn approve<'a>(&'a self, request: ApprovalRequest) -> BoxFuture<'a, Result<Decision, InteractionError>>;
}
