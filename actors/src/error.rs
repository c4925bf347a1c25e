//! Owns what the engine can refuse or fail with, seen from its edge.
//! Never names a library's error: the cause is kept as `#[source]` for the operator.
//! Tested through the engine; `server/src/error.rs` maps each variant to the wire.

use gent_protocol::{BranchId, EventSeq, InteractionRequestId, Millis, SessionId};
use gent_storage::StoreError;

/// Why the engine did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no such thing.
    #[error("no such {what}: {id}{hint}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Under which id.
        id: String,
        /// Where it is instead, beginning with `; `, or nothing.
        hint: String,
    },
    /// The call does not fit what is there.
    #[error("{message}")]
    InvalidState {
        /// One sentence.
        message: String,
    },
    /// The session is being deleted.
    #[error("the session {session} is being deleted")]
    Terminated {
        /// The session.
        session: String,
    },
    /// The branch takes no more commands now.
    #[error("the branch {branch} is busy; try again in a moment")]
    Busy {
        /// The branch.
        branch: String,
    },
    /// A bound was reached.
    #[error("{message}")]
    LimitExceeded {
        /// Which.
        limit: &'static str,
        /// Its value.
        max: u64,
        /// One sentence.
        message: String,
    },
    /// The cursor is of another store or beyond its end.
    #[error("the cursor is not of this store or lies beyond its newest event {last}; take a new snapshot")]
    CursorInvalid {
        /// The newest event.
        last: EventSeq,
    },
    /// The server is going away.
    #[error("the server is shutting down; try again in a moment")]
    Draining {
        /// When to try.
        retry_after: Millis,
    },
    /// The store refused or failed.
    #[error("{message}")]
    Storage {
        /// One sentence.
        message: String,
        /// The cause.
        #[source]
        source: Option<StoreError>,
    },
    /// Events could not be read.
    #[error("{message}")]
    EventStore {
        /// One sentence.
        message: String,
        /// The cause.
        #[source]
        source: Option<StoreError>,
    },
    /// The question may not be answered: unknown, of another branch, not shown yet, or closed.
    #[error("the question is not the one that waits for an answer; ask for a snapshot to see which does")]
    QuestionMismatch {
        /// The question that was answered.
        question: InteractionRequestId,
        /// The one that waits.
        shown: Option<InteractionRequestId>,
        /// The session.
        session: SessionId,
        /// The branch.
        branch: BranchId,
    },
    /// The question has another answer.
    #[error("the question has another answer already: the first one counts")]
    QuestionConflict {
        /// The question.
        question: InteractionRequestId,
    },
    /// The branch broke too often; its rows are whole.
    #[error(
        "the branch {branch} is given up: {reason}; what was sent is stored, and a prompt tries it again"
    )]
    GivenUp {
        /// The branch.
        branch: String,
        /// Why.
        reason: String,
    },
    /// A turn failed, or its branch could not run it.
    #[error("{message}")]
    Turn {
        /// One sentence.
        message: String,
    },
    /// A provider cannot be reached or refuses.
    #[error("{message}")]
    Provider {
        /// The model or driver.
        model: String,
        /// One sentence.
        message: String,
    },
    /// What ran was stopped.
    #[error("the call was stopped")]
    Interrupted,
    /// The store lost the answer.
    #[error("the store lost the answer; repeat the call with the same request id")]
    OutcomeUnknown,
}

impl EngineError {
    /// Nothing of this id.
    pub(crate) fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::NotFound { what, id: id.to_string(), hint: String::new() }
    }

    /// The error and its causes, for a person: no class names, no stack.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// An error and its causes, each once, joined by `: `.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}
