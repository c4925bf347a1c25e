//! Owns why a turn ends without its model having a say: a phase failure.
//! Its text is for a person: causes in words, no class names, no stack. Tested end to end (A.11, E16, G3, G10, H5).

use gent_extension_api::{DriverError, ProviderFailure};
use gent_protocol::ModelId;
use gent_storage::StoreError;

use super::window::WindowError;

/// Why a turn could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnFailure {
    /// A write or a read failed; what was stored stands.
    #[error("the turn could not be stored: {0}")]
    Store(#[from] StoreError),
    /// No request can be built.
    #[error("{source} (the window of {model})")]
    Window {
        /// The model.
        model: ModelId,
        /// What is wrong with the window.
        source: WindowError,
    },
    /// No model can be asked.
    #[error("{message}")]
    Route {
        /// One sentence with what to do.
        message: String,
    },
    /// The driver cannot serve.
    #[error("{0}")]
    Driver(#[from] DriverError),
    /// The credential was refused.
    #[error("{0}")]
    Auth(ProviderFailure),
    /// A tool's code broke.
    #[error("the tool '{tool}' broke: {message}")]
    ToolPanicked {
        /// The tool.
        tool: String,
        /// What it said.
        message: String,
    },
    /// What was recorded of a call cannot be read.
    #[error("the recorded result of the call {call} cannot be read")]
    CorruptResult {
        /// The call.
        call: String,
    },
    /// A call that waited for an answer cannot be run with the tools that are there now.
    #[error("the call of '{tool}' that waited for an answer did not run: {reason}")]
    Replay {
        /// The tool.
        tool: String,
        /// Why, in one word.
        reason: &'static str,
    },
    /// The engine's own code broke.
    #[error("the turn broke: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// It was started too often without getting anywhere.
    #[error("the turn was closed: the server died {attempts} times while it ran")]
    TooManyAttempts {
        /// How often.
        attempts: u32,
    },
}

/// What a panic said.
pub(crate) fn panic_message(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "it did not say why".to_owned(),
        },
    }
}
