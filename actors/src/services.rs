//! Owns what every branch shares: the store, the clock, the profiles, the credentials, the settings.
//! Never decides anything. Tested through the engine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{ApprovalRequest, FileLock, FileLockGuard};
use gent_protocol::ModelId;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::branch::BranchKey;
use crate::credentials::Credentials;
use crate::engine::{Engine, WeakEngine};
use crate::env::Env;
use crate::hub::Hub;
use crate::keyed_locks::KeyedLocks;
use crate::process::ProcessHost;
use crate::profile::ProfileDirectory;
use crate::redact::SecretSet;
use crate::store::StoreHandle;

/// Reads the user's settings afresh.
pub trait Settings: Send + Sync {
    /// The model to use when session and agent name none.
    fn model(&self) -> Option<ModelId>;

    /// One sentence for each thing in them that cannot be used: each turn begins by telling them.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Calls that are allowed without anybody being asked, such as the demo's own commands.
pub trait StandingApproval: Send + Sync {
    /// True when `model` may do this.
    fn allows(&self, model: &ModelId, request: &ApprovalRequest) -> bool;
}

/// Where processes are started from.
#[derive(Debug, Clone)]
pub struct ProcessPlace {
    /// The program that understands `__child`.
    pub child_program: PathBuf,
    /// The file whose shared lock every child holds.
    pub children_lock: PathBuf,
}

/// What every branch shares.
pub(crate) struct Services {
    pub(crate) store: StoreHandle,
    pub(crate) hub: Hub,
    pub(crate) env: Env,
    pub(crate) io: Handle,
    pub(crate) profiles: ProfileDirectory,
    pub(crate) credentials: Credentials,
    /// Every key that was offered: what must never appear in a tool's result.
    pub(crate) secrets: Arc<SecretSet>,
    pub(crate) settings: Arc<dyn Settings>,
    pub(crate) standing_approval: Arc<dyn StandingApproval>,
    pub(crate) file_locks: Arc<FileLocks>,
    /// Messages on their way to a branch, in the order in which they came.
    pub(crate) lines: KeyedLocks<BranchKey>,
    pub(crate) processes: Arc<ProcessHost>,
    pub(crate) branch_idle: Duration,
    /// Fires when the server takes no new turns; running ones are put aside at their next step boundary.
    pub(crate) drain: CancellationToken,
    /// This start of this server, for the owner rows.
    pub(crate) node_start: String,
    /// The engine, for what extensions order of it.
    pub(crate) engine: OnceLock<WeakEngine>,
}

impl Services {
    /// The engine, while it lives.
    pub(crate) fn engine(&self) -> Option<Engine> {
        self.engine.get()?.upgrade()
    }
}

/// Locks by path. Two names of one file are one lock.
#[derive(Default)]
pub(crate) struct FileLocks(KeyedLocks<PathBuf>);

impl FileLock for FileLocks {
    fn lock<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, FileLockGuard> {
        // A file that does not exist yet has one name.
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.0.lock(real).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_names_of_one_file_are_one_lock() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a");
        std::fs::write(&file, "").unwrap();
        let locks = FileLocks::default();
        let held = locks.lock(&file).await;
        let other_name = place.path().join(".").join("a");
        let mut waiting = locks.lock(&other_name);
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        drop(waiting.await);
    }
}
