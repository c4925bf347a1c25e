//! Owns how a run ended: the result object of the machine formats and the exit code.
//! Tested in `tui/tests/it` against golden objects.

use gent_protocol::{BranchId, MessageId, Millis, SessionId, Usage};
use serde::Serialize;

/// How the turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// With an answer.
    Answered,
    /// Cancelled, or left.
    Interrupted,
    /// On a failure.
    Failed,
    /// Without an answer.
    Unanswered,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunError {
    /// For a machine.
    pub tag: String,
    /// For a person: one sentence.
    pub message: String,
    /// What lies behind it, nearest first; for whoever asks for more.
    #[serde(skip)]
    pub causes: Vec<String>,
}

impl RunError {
    pub(crate) fn new(tag: &str, message: impl Into<String>) -> Self {
        Self { tag: tag.to_owned(), message: message.into(), causes: Vec::new() }
    }

    /// The failure of a call, a connection or a stream.
    pub(crate) fn of(tag: &str, error: &dyn std::error::Error) -> Self {
        let mut failure = Self::new(tag, error.to_string());
        let mut cause = error.source();
        while let Some(error) = cause {
            failure.causes.push(error.to_string());
            cause = error.source();
        }
        failure
    }
}

/// The result object of `json` and `stream-json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// The session, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The branch, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<BranchId>,
    /// The turn's opening message, once it may have been sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// How it ended.
    pub outcome: Outcome,
    /// The text of the turn's last assistant message that has any.
    pub text: String,
    /// Requests to the model.
    pub steps: u32,
    /// Tool calls that were started.
    pub tool_calls: u32,
    /// Tokens, when all steps' are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// US dollars, when all steps were priced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The turn's time; that of the run where the turn's is not known.
    pub duration_ms: Millis,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// What a run leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// 0 answered, 1 not answered, 130 after Ctrl-C, 143 after SIGTERM.
    pub exit_code: u8,
    /// The result object.
    pub result: RunResult,
}
