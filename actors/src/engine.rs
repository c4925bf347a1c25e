//! Owns the engine's edge: what a server or a program that embeds gent asks of it.
//! Never knows a socket or a frame. Each kind of call is in a file of its own. Tested end to end.

mod ask;
mod drain;
mod given_up;
mod letters;
mod messages;
mod operator;
mod reads;
mod sessions;

pub use operator::EngineHealth;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use actix::{Actor, Addr, Arbiter};
use gent_extension_api::{Extension, HostFacts};
use gent_protocol::{Secret, StoreIncarnation};
use gent_storage::Store;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;

use crate::credentials::Credentials;
use crate::directory::BranchDirectory;
use crate::env::Env;
use crate::error::EngineError;
use crate::hub::Hub;
use crate::keyed_locks::KeyedLocks;
use crate::process::ProcessHost;
use crate::profile::ProfileDirectory;
use crate::redact::SecretSet;
use crate::services::{FileLocks, ProcessPlace, Services, Settings, StandingApproval};
use crate::store::StoreHandle;
use letters::DeadLetters;

/// What an engine is started with.
pub struct EngineConfig {
    /// This start of this server: unique, for the owner rows.
    pub node_start: String,
    /// How long a branch that nothing holds stays in memory.
    pub branch_idle: Duration,
    /// Where processes are started from.
    pub process: ProcessPlace,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// The directory of user configuration.
    pub gent_home: Option<PathBuf>,
    /// Operating system and version, for the model to read.
    pub platform: String,
    /// The user's shell, for the model to read.
    pub shell: Option<String>,
    /// The user's settings.
    pub settings: Arc<dyn Settings>,
    /// Calls that are allowed without anybody being asked.
    pub standing_approval: Arc<dyn StandingApproval>,
    /// What must never appear in a tool's result beside the keys that clients offer, such as the server's own token.
    pub secrets: Vec<Secret>,
    /// Branch arbiters: a thread each.
    pub arbiters: usize,
    /// Threads for model streams and tools; 0: they run on the caller's runtime, whose clock a test may hold.
    pub io_threads: usize,
}

/// The engine, where it must not be kept alive.
pub(crate) struct WeakEngine(Weak<Inner>);

impl WeakEngine {
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(Engine)
    }
}

/// The engine. Clones share it.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    services: Arc<Services>,
    directory: Addr<BranchDirectory>,
    letters: DeadLetters,
    stop: CancellationToken,
    io: Option<Runtime>,
}

impl Engine {
    /// Starts an engine over an opened store. Called on an actix `System`, whose arbiter the directory runs on.
    ///
    /// Nothing is resumed before [`resume`](Self::resume). Fails when a thread cannot be started.
    pub fn start(
        config: EngineConfig,
        store: Store,
        hub: Hub,
        extensions: Vec<Arc<dyn Extension>>,
        env: Env,
    ) -> Result<Self, EngineError> {
        let io = (config.io_threads > 0).then(|| own_runtime(config.io_threads)).transpose()?;
        let io_handle = io.as_ref().map_or_else(Handle::current, |io| io.handle().clone());
        let facts = HostFacts {
            cwd: PathBuf::from("/"),
            home: config.home,
            gent_home: config.gent_home,
            platform: config.platform,
            shell: config.shell,
        };
        let services = Arc::new(Services {
            store: StoreHandle::new(store),
            hub,
            env,
            io: io_handle.clone(),
            profiles: ProfileDirectory::new(extensions, facts),
            credentials: Credentials::default(),
            secrets: Arc::new(SecretSet::of(config.secrets.iter().map(|secret| secret.expose().to_owned()))),
            settings: config.settings,
            standing_approval: config.standing_approval,
            file_locks: Arc::new(FileLocks::default()),
            lines: KeyedLocks::default(),
            processes: ProcessHost::new(
                config.process.child_program,
                config.process.children_lock,
                io_handle,
            ),
            branch_idle: config.branch_idle,
            drain: CancellationToken::new(),
            node_start: config.node_start,
            engine: OnceLock::new(),
        });
        let arbiters = (0..config.arbiters).map(|_| Arbiter::new().handle()).collect();
        let directory = BranchDirectory::new(Arc::clone(&services), arbiters).start();
        let inner = Arc::new(Inner {
            services: Arc::clone(&services),
            directory,
            letters: DeadLetters::default(),
            stop: CancellationToken::new(),
            io,
        });
        // Set once, here: nobody else has the cell yet.
        drop(services.engine.set(WeakEngine(Arc::downgrade(&inner))));
        Ok(Self(inner))
    }

    /// The store's incarnation.
    pub fn store_incarnation(&self) -> &StoreIncarnation {
        self.0.services.store.incarnation()
    }

    fn services(&self) -> &Arc<Services> {
        &self.0.services
    }

    fn store(&self) -> &StoreHandle {
        &self.0.services.store
    }

    /// Does something beside the caller; it ends with the engine.
    fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.stop.clone();
        drop(self.services().io.spawn(stop.run_until_cancelled_owned(work)));
    }

    /// Runs something on the engine's own threads, where connections to providers live.
    async fn on_io<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.services()
            .io
            .spawn(work)
            .await
            .map_err(|error| EngineError::Turn { message: format!("the engine's own code broke: {error}") })
    }
}

fn own_runtime(threads: usize) -> Result<Runtime, EngineError> {
    let mut builder = Builder::new_multi_thread();
    let built = builder.worker_threads(threads).thread_name("gent-io").enable_all().build();
    built.map_err(|error| EngineError::InvalidState {
        message: format!("the threads of the engine cannot be started: {error}"),
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(io) = self.io.take() {
            // Dropped from wherever the last clone was: it must not wait for its threads.
            io.shutdown_background();
        }
    }
}
