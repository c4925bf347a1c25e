//! Owns what a handler is handed: where it runs and what it may do there.
//! Never outlives its turn: a host's facets answer with an error once the turn is gone.
//! Tested through every tool.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gent_protocol::{BranchId, MessageId, Millis, SessionId, ToolCallId};
use tokio_util::sync::CancellationToken;

use crate::{Exec, FileLock, HostFacts, Interaction, Redactor, SessionVerbs};

/// Everything a context is made of; only a host builds one.
#[derive(Clone)]
pub struct ContextParts {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The session's working directory.
    pub cwd: PathBuf,
    /// When the session was made.
    pub session_created_at: Millis,
    /// What is true of the machine and the place.
    pub facts: Arc<HostFacts>,
    /// Fires when the call or the turn is stopped.
    pub cancelled: CancellationToken,
    /// Sending, steering and stopping.
    pub session: Arc<dyn SessionVerbs>,
    /// Asking for leave.
    pub interaction: Arc<dyn Interaction>,
    /// Starting processes.
    pub exec: Arc<dyn Exec>,
    /// Locking files.
    pub file_lock: Arc<dyn FileLock>,
    /// Taking secrets out.
    pub redactor: Arc<dyn Redactor>,
}

/// What a handler is handed.
#[derive(Clone)]
pub struct Context(Arc<ContextParts>);

impl Context {
    /// A context of these parts.
    pub fn new(parts: ContextParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The session.
    pub fn session_id(&self) -> &SessionId {
        &self.0.session_id
    }

    /// The branch.
    pub fn branch_id(&self) -> &BranchId {
        &self.0.branch_id
    }

    /// The session's working directory.
    pub fn cwd(&self) -> &Path {
        &self.0.cwd
    }

    /// The user's home, where there is one.
    pub fn home(&self) -> Option<&Path> {
        self.0.facts.home.as_deref()
    }

    /// What is true of the machine and the place.
    pub fn facts(&self) -> &HostFacts {
        &self.0.facts
    }

    /// When the session was made.
    pub fn session_created_at(&self) -> Millis {
        self.0.session_created_at
    }

    /// Fires when the call or the turn is stopped. A handler that ignores it is dropped all the same.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    /// Sending, steering and stopping.
    pub fn session(&self) -> &dyn SessionVerbs {
        &*self.0.session
    }

    /// Asking for leave.
    pub fn interaction(&self) -> &dyn Interaction {
        &*self.0.interaction
    }

    /// Starting processes.
    pub fn exec(&self) -> &dyn Exec {
        &*self.0.exec
    }

    /// Locking files.
    pub fn file_lock(&self) -> &dyn FileLock {
        &*self.0.file_lock
    }

    /// Taking secrets out.
    pub fn redactor(&self) -> &dyn Redactor {
        &*self.0.redactor
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("session_id", &self.0.session_id)
            .field("branch_id", &self.0.branch_id)
            .field("cwd", &self.0.cwd)
            .finish_non_exhaustive()
    }
}

/// What a tool is handed: a context and the call it serves.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Where it runs and what it may do.
    pub context: Context,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The message that holds the call.
    pub assistant_message_id: MessageId,
}

impl std::ops::Deref for ToolContext {
    type Target = Context;
    fn deref(&self) -> &Context {
        &self.context
    }
}
