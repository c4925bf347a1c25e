//! Owns the name of a branch actor. Never resolves it. Tested through the directory.

use std::fmt;

use gent_protocol::{BranchId, SessionId, WorkspaceId};

/// One branch of one session of one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BranchKey {
    pub(crate) workspace: WorkspaceId,
    pub(crate) session: SessionId,
    pub(crate) branch: BranchId,
}

impl fmt::Display for BranchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.session, self.branch)
    }
}
