//! Owns what an extension is and how it registers. Setup registers and does nothing else.
//! Tested through the shipped set in `extensions/shipped`.

use std::path::PathBuf;
use std::sync::Arc;

use gent_protocol::ExtensionId;

use crate::{AgentDefinition, Hook, ModelDriver, Tool};

/// A named set of contributions.
pub trait Extension: Send + Sync {
    /// Its id, such as `@gent/fs-tools`.
    fn id(&self) -> ExtensionId;

    /// What tells this version of its code from another. A call that waited for an answer over a restart runs only if
    /// its tool's extension names the same version as before; of an extension that names none it does not run.
    fn revision(&self) -> Option<String> {
        None
    }

    /// Registers everything. Called once for each activation. Either all of it counts or, on an error or a
    /// panic, none.
    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError>;
}

/// Why an extension could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SetupError {
    /// One sentence for the operator.
    pub message: String,
}

impl SetupError {
    /// An error with this sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// What `setup` is handed.
pub trait Host {
    /// Registers a value.
    fn register(&mut self, contribution: Contribution);

    /// Registers a handler.
    fn on(&mut self, hook: Hook);

    /// What is true of the machine and the place.
    fn facts(&self) -> &HostFacts;
}

/// Something an extension contributes.
#[derive(Clone)]
pub enum Contribution {
    /// A tool the model can call.
    Tool(Arc<dyn Tool>),
    /// An agent a session can run under.
    Agent(AgentDefinition),
    /// A source of models.
    ModelDriver(Arc<dyn ModelDriver>),
}

/// What is true of the machine and the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The working directory of the sessions this activation serves.
    pub cwd: PathBuf,
    /// The user's home, where there is one.
    pub home: Option<PathBuf>,
    /// The directory of user configuration (`~/.gent`), where there is one.
    pub gent_home: Option<PathBuf>,
    /// Operating system and version, for the model to read.
    pub platform: String,
    /// The user's shell, for the model to read.
    pub shell: Option<String>,
}
