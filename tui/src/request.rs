//! Owns what a run is asked to do. Everything random or taken from the process comes in here.
//! Never decides anything. Tested through `run`.

use std::time::Duration;

use gent_protocol::{AgentName, EnvironmentMap, ModelId, RequestId, SessionId};

/// Which session a prompt goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one, under this agent or the usual one.
    New {
        /// The agent; fixed when the session is made.
        agent: Option<AgentName>,
    },
    /// This one.
    Existing(SessionId),
    /// The newest of the directory that no other session made.
    Newest,
}

/// Which tool calls run without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grant {
    /// None.
    #[default]
    Nothing,
    /// Those of the session when the run makes it; of an older one those of this turn.
    Session,
}

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// The answer on standard output, everything else on standard error.
    Text,
    /// One object at the end.
    Json,
    /// The turn's envelopes as they come, then the object.
    StreamJson,
}

/// What is connected to a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terminals {
    /// Standard output: the answer is streamed and made harmless.
    pub stdout: bool,
    /// Standard error may be dimmed: it is a terminal and `NO_COLOR` is not set.
    pub dim_stderr: bool,
}

/// Idempotency keys of a run: the same over every reconnection, so that nothing is done twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunIds {
    /// Of `session.create`.
    pub create: RequestId,
    /// Of `message.send`; the turn's id follows from it.
    pub send: RequestId,
    /// Of the cancel.
    pub cancel: RequestId,
}

/// One prompt to run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The prompt.
    pub prompt: String,
    /// The working directory, absolute and lexically resolved.
    pub cwd: String,
    /// Where it goes.
    pub session: SessionChoice,
    /// The model; the session's setting is changed where there is a session.
    pub model: Option<ModelId>,
    /// What is allowed without asking.
    pub grant: Grant,
    /// What the session's processes start from.
    pub env: EnvironmentMap,
    /// The session can be gone on with afterwards: its server and store outlive the run.
    pub keeps_session: bool,
    /// How it is shown.
    pub format: OutputFormat,
    /// The most time it may take; then it is cancelled.
    pub timeout: Option<Duration>,
    /// Its idempotency keys.
    pub ids: RunIds,
    /// What is connected to a terminal.
    pub terminals: Terminals,
    /// Errors are shown with their causes.
    pub verbose: bool,
}
