//! Owns the engine of a run: its store, its clock, its branches, how it is killed, stopped and started again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gent_actors::{Engine, EngineConfig, Env, Hub, ProcessPlace, Settings, Source, StandingApproval};
use gent_extension_api::{ApprovalRequest, Extension};
use gent_protocol::{
    CreateSession, CreatedSession, EventEnvelope, EventSeq, Millis, ModelId, StoreIncarnation, WorkspaceId,
};
use gent_storage::{
    Location, Mode, Published, QueueItem, QueueKind, ReadTxn, Store, StoreConfig, StoreError, StoredMessage,
    Synchronous, TurnRow, event_last, events_after, messages_before, question_shown, queue_items, turn_get,
};

use tokio_util::sync::CancellationToken;

use crate::model::{Script, Scripted};
use crate::tools::{Seen, Set};

/// More messages than a run makes.
const ALL: u32 = 100_000;

struct NoSettings;
impl Settings for NoSettings {
    fn model(&self) -> Option<ModelId> {
        None
    }
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}
struct NoApproval;
impl StandingApproval for NoApproval {
    fn allows(&self, _: &ModelId, _: &ApprovalRequest) -> bool {
        false
    }
}

/// The runtime's held clock; each look at the wall clock is later than the one before, ids count up.
pub(crate) struct HeldClock {
    origin: tokio::time::Instant,
    looks: AtomicI64,
    bound: Mutex<(i64, CancellationToken)>,
    ids: AtomicU64,
}
impl HeldClock {
    /// Fires when the clock has been looked at so often.
    pub(crate) fn bound(&self, looks: i64) -> CancellationToken {
        let fires = CancellationToken::new();
        *self.bound.lock().unwrap() = (looks, fires.clone());
        fires
    }
}
impl Source for HeldClock {
    fn now(&self) -> Millis {
        let since = i64::try_from(self.monotonic().as_millis()).unwrap();
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        let bound = self.bound.lock().unwrap();
        if looks >= bound.0 {
            bound.1.cancel();
        }
        Millis(1_700_000_000_000 + since + looks)
    }
    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
    fn new_id(&self) -> String {
        format!("id-{}", self.ids.fetch_add(1, Ordering::Relaxed))
    }
    fn uniform(&self) -> f64 {
        0.5
    }
}

/// The rows of one branch at one instant.
pub(crate) struct Rows {
    pub(crate) messages: Vec<StoredMessage>,
    pub(crate) queue: Vec<QueueItem>,
    pub(crate) turn: Option<TurnRow>,
    /// The question that may be answered, by its text and id.
    pub(crate) shown: Option<(String, gent_protocol::InteractionRequestId)>,
    /// Every event of the session, in order, as it is told and as it is meant.
    pub(crate) told: Vec<(Published, EventEnvelope)>,
}

impl Rows {
    /// Every event of the session, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = &EventEnvelope> {
        self.told.iter().map(|(_, envelope)| envelope)
    }
}

/// An engine with its branches, each in a session of its own.
pub(crate) struct World {
    pub(crate) clock: Arc<HeldClock>,
    pub(crate) engine: Engine,
    pub(crate) store: Store,
    pub(crate) script: Script,
    pub(crate) seen: Arc<Seen>,
    pub(crate) workspace: WorkspaceId,
    pub(crate) branches: Vec<CreatedSession>,
    pub(crate) n_starts: u32,
    env: Env,
    branch_idle: Duration,
    place: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new(seed: u64, n_branches: usize, branch_idle: Duration) -> Self {
        let script = Script::new(seed);
        let clock = Arc::new(HeldClock {
            origin: tokio::time::Instant::now(),
            looks: AtomicI64::new(0),
            bound: Mutex::new((i64::MAX, CancellationToken::new())),
            ids: AtomicU64::new(0),
        });
        let env = Env::of(Arc::clone(&clock) as Arc<dyn Source>);
        let (place, seen) = (tempfile::tempdir().unwrap(), Arc::default());
        let (engine, store) = start(&script, &seen, &env, branch_idle, place.path(), 1);
        let workspace = WorkspaceId::parse("0".repeat(64)).unwrap();
        let mut branches = Vec::new();
        for _ in 0..n_branches {
            let create = CreateSession { cwd: Some("/".into()), ..CreateSession::default() };
            branches.push(engine.session_create(&workspace, create).await.unwrap());
        }
        Self { clock, engine, store, script, seen, workspace, branches, n_starts: 1, env, branch_idle, place }
    }

    /// Kills the engine, or stops it in good order, and starts another one over its rows.
    pub(crate) async fn restart(&mut self, kills: bool) {
        if kills {
            // Nothing is stored from here on, not even that what runs was put aside.
            self.store.close();
        }
        self.engine.stop().await;
        self.store.close();
        self.n_starts += 1;
        let place = self.place.path();
        let started = start(&self.script, &self.seen, &self.env, self.branch_idle, place, self.n_starts);
        (self.engine, self.store) = started;
    }

    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut ReadTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.store.read_blocking("sim.read", read).unwrap()
    }

    /// The rows of a branch.
    pub(crate) fn rows(&self, branch: usize) -> Rows {
        let CreatedSession { session_id, branch_id, .. } = self.branches[branch].clone();
        self.read(move |txn| {
            let mut told = Vec::new();
            let mut after = EventSeq(0);
            loop {
                let page = events_after(txn, &session_id, None, after, ALL, usize::MAX)?;
                let meant = |item: Published| {
                    let envelope = serde_json::from_str(&item.json).unwrap();
                    (item, envelope)
                };
                told.extend(page.items.into_iter().map(meant));
                after = page.last;
                if !page.more {
                    break;
                }
            }
            let shown = question_shown(txn, &branch_id)?.map(|row| (row.question.text, row.request_id));
            Ok(Rows {
                messages: messages_before(txn, &branch_id, None, ALL, usize::MAX)?,
                queue: queue_items(txn, &branch_id)?,
                turn: turn_get(txn, &branch_id)?,
                shown,
                told,
            })
        })
    }

    /// The question of a branch that may be answered.
    pub(crate) fn shown(&self, branch: usize) -> Option<gent_protocol::InteractionRequestId> {
        let branch = self.branches[branch].branch_id.clone();
        self.read(move |txn| Ok(question_shown(txn, &branch)?.map(|row| row.request_id)))
    }

    /// Why a branch is not at rest: a turn that is not over, or something that waits for one.
    pub(crate) fn unrest(&self, branch: usize) -> Option<String> {
        let id = self.branches[branch].branch_id.clone();
        let (turn, queue) = self.read(move |txn| Ok((turn_get(txn, &id)?, queue_items(txn, &id)?)));
        if let Some(row) = turn {
            return Some(format!("branch {branch} has a turn: {row:?}"));
        }
        // What was said to no turn may wait for one.
        let due = queue.iter().find(|item| item.wake || item.kind == QueueKind::FollowUp);
        due.map(|item| format!("on branch {branch} this waits: {item:?}"))
    }

    /// The number of a branch's newest event; none when the store is closed.
    pub(crate) fn last(&self, branch: usize) -> Option<EventSeq> {
        last(&self.store, &self.branches[branch])
    }
}

/// The number of a session's newest event; none when the store is closed.
pub(crate) fn last(store: &Store, session: &CreatedSession) -> Option<EventSeq> {
    let session = session.session_id.clone();
    store.read_blocking("sim.last", move |txn| event_last(txn, &session)).ok()
}

fn start(
    script: &Script,
    seen: &Arc<Seen>,
    env: &Env,
    branch_idle: Duration,
    place: &Path,
    n_starts: u32,
) -> (Engine, Store) {
    let hub = Hub::default();
    let config = StoreConfig {
        location: Location::Sqlite(place.join("data.db")),
        synchronous: Synchronous::Normal,
        readers: 1,
        mode: Mode::Inline,
        new_incarnation: StoreIncarnation::parse("store-1").unwrap(),
        boot_id: None,
        backups: None,
        now: Millis(1),
    };
    let store = Store::open(config, Arc::new(hub.clone())).unwrap();
    let config = EngineConfig {
        node_start: format!("sim-{n_starts}"),
        branch_idle,
        process: ProcessPlace {
            child_program: PathBuf::from("/nonexistent"),
            children_lock: place.join("children.lock"),
        },
        home: None,
        gent_home: None,
        platform: "test".into(),
        shell: None,
        settings: Arc::new(NoSettings),
        standing_approval: Arc::new(NoApproval),
        secrets: Vec::new(),
        arbiters: 0,
        io_threads: 0,
    };
    let driver = Arc::new(Scripted(script.clone()));
    let extensions: Vec<Arc<dyn Extension>> = vec![Arc::new(Set { seen: Arc::clone(seen), driver })];
    let engine = Engine::start(config, store.clone(), hub, extensions, env.clone()).unwrap();
    (engine, store)
}
