//! Owns what a driver makes of a provider's stream, and of its failures.
//! Never folds it into a message: that is the engine's business. Tested through the drivers.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use gent_protocol::{ProviderOptions, Usage};
use serde_json::Value;

/// A provider's answer as it comes. Dropping it ends the request.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<StreamPart, ProviderFailure>> + Send>>;

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamPart {
    /// Text. Pieces that follow each other are one part.
    Text {
        /// The piece.
        text: String,
    },
    /// Thinking. Pieces with the same `id` that follow each other are one part.
    Reasoning {
        /// Which part.
        id: String,
        /// The piece; may be empty.
        text: String,
        /// What the provider wants back; the last one given for the part counts.
        options: Option<ProviderOptions>,
    },
    /// A whole call.
    ToolCall(StreamedCall),
    /// What the provider counted. The last one counts.
    Usage(Usage),
    /// The answer is over. Nothing follows.
    Finish {
        /// Why.
        reason: FinishReason,
    },
}

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamedCall {
    /// The provider's id of the call; the host makes one where there is none.
    pub id: Option<String>,
    /// The tool's wire name.
    pub name: String,
    /// Its input: the parsed JSON, or the raw text as a string where it did not parse.
    pub params: Value,
    /// What the provider wants back.
    pub options: Option<ProviderOptions>,
}

/// Why an answer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// The output cap or the end of the stream cut it.
    Length,
    /// It asks for tools.
    ToolCalls,
    /// The provider withheld it.
    ContentFilter,
    /// The window was full.
    WindowFull,
    /// The provider gave another word or none: a finished answer.
    Unknown,
}

/// What a failure means to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The credential is missing or refused: never tried again.
    Auth,
    /// It may work in a moment.
    Transient,
    /// It will work in a while.
    RateLimited,
    /// The request is longer than the model takes.
    ContextOverflow,
    /// It will fail again.
    Refused,
}

/// Why a request or its stream failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderFailure {
    /// What it means.
    pub kind: FailureKind,
    /// One sentence: which provider, what, and what to do. Never a secret.
    pub message: String,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
}

impl ProviderFailure {
    /// A failure without a wait.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}
