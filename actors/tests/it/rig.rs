//! Owns an engine to test against: a store in a temporary directory, a driver that answers by script, a few tools.
//! Ends and starts the engine again over the same store, in good order or as a kill does.

mod model;
mod tools;
mod words;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gent_actors::{
    Engine, EngineConfig, EngineError, Env, EventStream, Hub, ProcessPlace, Settings, Source,
    StandingApproval,
};
use gent_extension_api::{ApprovalRequest, BranchTarget, Context, Extension};
use gent_protocol::{
    AgentEvent, CreateSession, CreatedSession, DrainQueue, EventEnvelope, EventSeq, GetQueue,
    InteractionRequestId, MessageId, Millis, ModelId, QuestionDecision, QueueSnapshot, RequestId,
    RespondInteraction, SendMessage, SessionEvents, SteerCommand, StoreIncarnation, WorkspaceId,
};
use gent_storage::{Location, Mode, ReadTxn, Store, StoreConfig, StoreError, Synchronous, events_after};

use model::Scripted;
pub(crate) use model::{Answer, Gate, Script, calls, calls_with, text};
pub(crate) use tools::follow_up;
use tools::{TestSet, Tools};
use words::short;
pub(crate) use words::{contents, ids};

/// Longer than any wait of the engine. Under a held clock it is over as soon as nothing can move any more, so that a
/// test fails where it would hang.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Waits for what must come.
pub(crate) async fn in_time<T>(what: &str, comes: impl Future<Output = T>) -> T {
    match tokio::time::timeout(NEVER, comes).await {
        Ok(value) => value,
        Err(_) => panic!("it never comes that {what}"),
    }
}

/// Settings that name no model.
struct TestSettings {
    notices: Vec<String>,
}
impl Settings for TestSettings {
    fn model(&self) -> Option<ModelId> {
        None
    }
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }
}
struct NoApproval;
impl StandingApproval for NoApproval {
    fn allows(&self, _: &ModelId, _: &ApprovalRequest) -> bool {
        false
    }
}

/// The runtime's clock, which a test may hold; each look at the wall clock is later than the one before.
struct HeldClock {
    origin: tokio::time::Instant,
    looks: AtomicI64,
    ids: Env,
}
impl Source for HeldClock {
    fn now(&self) -> Millis {
        let since = i64::try_from(self.monotonic().as_millis()).unwrap();
        Millis(1_700_000_000_000 + since + self.looks.fetch_add(1, Ordering::Relaxed))
    }
    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
    fn new_id(&self) -> String {
        self.ids.new_id()
    }
    fn uniform(&self) -> f64 {
        0.5
    }
}

/// How a test wants its engine.
pub(crate) struct Setup {
    pub(crate) script: Vec<Answer>,
    pub(crate) notices: Vec<String>,
    pub(crate) retry_wait: Duration,
    pub(crate) max_steps: Option<u32>,
    /// The hook `turnAfter` is there; it holds at the gate of its name.
    pub(crate) has_turn_after: bool,
    pub(crate) branch_idle: Duration,
    /// Beside the rig's own.
    pub(crate) more: Vec<Arc<dyn Extension>>,
    /// On threads of its own and the real clock; else all on the test's thread, whose clock is held.
    pub(crate) has_threads: bool,
}

impl Setup {
    /// All on the test's thread: time stands still but where nothing else can move.
    pub(crate) fn still(script: Vec<Answer>) -> Self {
        Self {
            script,
            notices: Vec::new(),
            retry_wait: Duration::ZERO,
            max_steps: None,
            has_turn_after: false,
            branch_idle: Duration::from_secs(60),
            more: Vec::new(),
            has_threads: false,
        }
    }
}

/// An engine with one session.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) script: Script,
    pub(crate) tools: Arc<Tools>,
    pub(crate) workspace: WorkspaceId,
    pub(crate) session: CreatedSession,
    pub(crate) store: Store,
    env: Env,
    pub(crate) setup: Setup,
    n_starts: u32,
    pub(crate) place: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn new(script: Vec<Answer>) -> Self {
        Self::of(Setup { has_threads: true, ..Setup::still(script) }).await
    }

    /// All on the test's thread, with the clock held.
    pub(crate) async fn still(script: Vec<Answer>) -> Self {
        Self::of(Setup::still(script)).await
    }

    /// With a driver that asks for this wait before a request is tried again.
    pub(crate) async fn with_retry_wait(script: Vec<Answer>, retry_wait: Duration) -> Self {
        Self::of(Setup { retry_wait, has_threads: true, ..Setup::still(script) }).await
    }

    /// With settings that have these faults.
    pub(crate) async fn with_notices(script: Vec<Answer>, notices: Vec<String>) -> Self {
        Self::of(Setup { notices, has_threads: true, ..Setup::still(script) }).await
    }

    pub(crate) async fn of(mut setup: Setup) -> Self {
        let script = Script::new(std::mem::take(&mut setup.script));
        let env = if setup.has_threads {
            Env::real()
        } else {
            tokio::time::pause();
            let (origin, looks) = (tokio::time::Instant::now(), AtomicI64::new(0));
            Env::of(Arc::new(HeldClock { origin, looks, ids: Env::real() }))
        };
        let (place, tools) = (tempfile::tempdir().unwrap(), Arc::default());
        let (engine, store) = start(&setup, &script, &tools, &env, place.path(), 1);
        let workspace = WorkspaceId::parse("0".repeat(64)).unwrap();
        let create = CreateSession { cwd: Some("/".into()), ..CreateSession::default() };
        let session = engine.session_create(&workspace, create).await.unwrap();
        Self { engine, script, tools, workspace, session, store, env, setup, n_starts: 1, place }
    }

    /// Kills the engine and starts another one over what it had stored. Nothing is taken up before
    /// `engine.resume` or a call that reaches the branch.
    pub(crate) async fn restart(&mut self) {
        // Nothing is stored from here on, not even that what runs was put aside.
        self.store.close();
        self.start_again().await;
    }

    /// Stops the engine in good order and starts another one over its store.
    pub(crate) async fn stop_and_start(&mut self) {
        self.engine.stop().await;
        self.store.close();
        self.start_again().await;
    }

    async fn start_again(&mut self) {
        self.engine.stop().await;
        self.n_starts += 1;
        let place = self.place.path();
        let started = start(&self.setup, &self.script, &self.tools, &self.env, place, self.n_starts);
        (self.engine, self.store) = started;
    }

    /// Sends a message and waits for its turn.
    pub(crate) async fn send(&self, request: &str, content: &str) -> Result<(), EngineError> {
        let sent = self.engine.message_send(&self.workspace, self.message(Some(request), content));
        in_time("the turn ends", sent).await
    }

    /// Sends a message without waiting for its turn.
    pub(crate) async fn post(&self, content: &str) -> Result<(), EngineError> {
        self.engine.message_send(&self.workspace, self.message(None, content)).await
    }

    /// A message to the branch.
    pub(crate) fn message(&self, request: Option<&str>, content: &str) -> SendMessage {
        SendMessage {
            session_id: self.session.session_id.clone(),
            branch_id: self.session.branch_id.clone(),
            content: content.into(),
            request_id: request.map(|request| RequestId::parse(request).unwrap()),
            approval: None,
            env: Default::default(),
        }
    }

    /// Cancels what runs.
    pub(crate) async fn cancel(&self) {
        self.cancel_of("cancel", None).await;
    }

    /// Cancels the turn of a message, or what runs.
    pub(crate) async fn cancel_of(&self, request: &str, message: Option<&str>) {
        let command = SteerCommand::Cancel {
            session_id: self.session.session_id.clone(),
            branch_id: self.session.branch_id.clone(),
            request_id: RequestId::parse(request).unwrap(),
            message_id: message.map(|id| MessageId::parse(id).unwrap()),
        };
        self.engine.steer(&self.workspace, command).await.unwrap();
    }

    /// Says something to the turn that runs.
    pub(crate) async fn steer(&self, request: &str, say: &str) {
        self.engine.steer(&self.workspace, self.interjection(request, say, false)).await.unwrap();
    }

    /// Says something to the turn that runs, or opens one.
    pub(crate) async fn wake(&self, request: &str, say: &str) {
        self.engine.steer(&self.workspace, self.interjection(request, say, true)).await.unwrap();
    }

    fn interjection(&self, request: &str, say: &str, wake: bool) -> SteerCommand {
        SteerCommand::Interject {
            session_id: self.session.session_id.clone(),
            branch_id: self.session.branch_id.clone(),
            request_id: RequestId::parse(request).unwrap(),
            message: say.into(),
            metadata: None,
            wake,
        }
    }

    /// Takes everything that waits out of the queue.
    pub(crate) async fn drain(&self, request: &str) -> Result<QueueSnapshot, EngineError> {
        let ask = DrainQueue {
            session_id: self.session.session_id.clone(),
            branch_id: self.session.branch_id.clone(),
            request_id: RequestId::parse(request).unwrap(),
        };
        self.engine.queue_drain(&self.workspace, ask).await
    }

    /// What waits.
    pub(crate) async fn queue(&self) -> QueueSnapshot {
        let (session_id, branch_id) = (self.session.session_id.clone(), self.session.branch_id.clone());
        self.engine.queue_get(&self.workspace, GetQueue { session_id, branch_id }).await.unwrap()
    }

    /// Answers a question.
    pub(crate) async fn respond(
        &self,
        question: &InteractionRequestId,
        approved: bool,
    ) -> Result<(), EngineError> {
        let answer = RespondInteraction {
            request_id: question.clone(),
            session_id: self.session.session_id.clone(),
            branch_id: self.session.branch_id.clone(),
            decision: QuestionDecision { approved, notes: None, edited_content: None },
        };
        self.engine.respond(&self.workspace, answer).await
    }

    /// What an extension is handed on another branch, for verbs towards this one.
    pub(crate) async fn elsewhere(&self) -> Context {
        let request_id = Some(RequestId::parse("elsewhere").unwrap());
        let create = CreateSession { request_id, ..CreateSession::default() };
        let other = self.engine.session_create(&self.workspace, create).await.unwrap();
        self.context_of(&other).await
    }

    /// What an extension is handed when a session's branch is opened, which this does.
    pub(crate) async fn context_of(&self, session: &CreatedSession) -> Context {
        let ask = DrainQueue {
            session_id: session.session_id.clone(),
            branch_id: session.branch_id.clone(),
            request_id: RequestId::parse("open").unwrap(),
        };
        self.engine.queue_drain(&self.workspace, ask).await.unwrap();
        self.tools.context(&session.session_id).await
    }

    /// This branch, as a verb's target.
    pub(crate) fn here(&self) -> Option<BranchTarget> {
        let (session_id, branch_id) = (self.session.session_id.clone(), self.session.branch_id.clone());
        Some(BranchTarget { session_id, branch_id })
    }

    /// A subscription from the first event on.
    pub(crate) async fn subscribe(&self) -> EventStream {
        let ask = SessionEvents {
            session_id: self.session.session_id.clone(),
            branch_id: None,
            after: None,
            store: None,
        };
        self.engine.subscribe(&self.workspace, ask).await.unwrap()
    }

    /// The number and the text of every event that the store holds, in order.
    pub(crate) async fn stored(&self) -> Vec<(EventSeq, String)> {
        let session = self.session.session_id.clone();
        let (done, page) = tokio::sync::oneshot::channel();
        let read = move |txn: &mut ReadTxn<'_>| events_after(txn, &session, None, EventSeq(0), 1000, 1 << 20);
        self.store.read("test.stored", read, |page| drop(done.send(page)));
        let page = page.await.unwrap().unwrap();
        assert!(!page.more);
        page.items.into_iter().map(|item| (item.id, item.json.to_string())).collect()
    }

    /// Reads the rows.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut ReadTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.store.read_blocking("test.read", read).unwrap()
    }

    /// Waits until an event of this tag is stored and told.
    pub(crate) async fn told(&self, tag: &str) {
        let mut stream = self.subscribe().await;
        while !stream.next_batch().await.unwrap().unwrap().iter().any(|published| published.tag == tag) {}
    }

    /// Waits for the n-th event, from 1, that this takes something of, and gives that.
    pub(crate) async fn event<T>(&self, n: usize, take: impl Fn(&AgentEvent) -> Option<T>) -> T {
        let find = async {
            let (mut stream, mut left) = (self.subscribe().await, n);
            loop {
                for published in stream.next_batch().await.unwrap().expect("the session is there") {
                    let envelope: EventEnvelope = serde_json::from_str(&published.json).unwrap();
                    if let Some(taken) = take(&envelope.event) {
                        left -= 1;
                        if left == 0 {
                            return taken;
                        }
                    }
                }
            }
        };
        in_time("the event is told", find).await
    }

    /// Waits for the n-th question, from 1.
    pub(crate) async fn question(&self, n: usize) -> InteractionRequestId {
        let asked = |event: &AgentEvent| match event {
            AgentEvent::InteractionPresented { request_id, .. } => Some(request_id.clone()),
            _ => None,
        };
        self.event(n, asked).await
    }

    /// Waits until so many turns have ended.
    pub(crate) async fn ended(&self, n: usize) {
        self.event(n, |event| matches!(event, AgentEvent::TurnCompleted { .. }).then_some(())).await;
    }

    /// The events so far, in short.
    pub(crate) async fn trace(&self) -> String {
        let mut stream = self.subscribe().await;
        let mut words = Vec::new();
        loop {
            for published in stream.next_batch().await.unwrap().unwrap() {
                let envelope: EventEnvelope = serde_json::from_str(&published.json).unwrap();
                match short(&envelope.event) {
                    Some(word) => words.push(word),
                    None => return words.join(" "),
                }
            }
        }
    }
}

/// Lets everything else that can run have so many turns.
pub(crate) async fn yields(n: usize) {
    for _ in 0..n {
        tokio::task::yield_now().await;
    }
}

/// How long each of two that race is held back: every way in which one can be a little ahead of the other.
pub(crate) fn races() -> impl ExactSizeIterator<Item = (usize, usize)> {
    const AHEAD: usize = 8;
    (0..2 * AHEAD).map(|n| (n.saturating_sub(AHEAD), AHEAD.saturating_sub(n)))
}

/// Starts an engine over the store in `place`.
fn start(
    setup: &Setup,
    script: &Script,
    tools: &Arc<Tools>,
    env: &Env,
    place: &std::path::Path,
    n_starts: u32,
) -> (Engine, Store) {
    let hub = Hub::default();
    let config = StoreConfig {
        location: Location::Sqlite(place.join("data.db")),
        synchronous: Synchronous::Normal,
        readers: 2,
        mode: if setup.has_threads { Mode::Threaded } else { Mode::Inline },
        new_incarnation: StoreIncarnation::parse("store-1").unwrap(),
        boot_id: None,
        backups: None,
        now: Millis(1),
    };
    let store = Store::open(config, Arc::new(hub.clone())).unwrap();
    let n_threads = usize::from(setup.has_threads);
    let config = EngineConfig {
        node_start: format!("test-{n_starts}"),
        branch_idle: setup.branch_idle,
        process: ProcessPlace {
            child_program: PathBuf::from("/nonexistent"),
            children_lock: place.join("children.lock"),
        },
        home: None,
        gent_home: None,
        platform: "test".into(),
        shell: None,
        settings: Arc::new(TestSettings { notices: setup.notices.clone() }),
        standing_approval: Arc::new(NoApproval),
        secrets: Vec::new(),
        arbiters: n_threads,
        io_threads: n_threads,
    };
    let driver = Arc::new(Scripted { script: script.clone(), retry_wait: setup.retry_wait });
    let set = TestSet {
        tools: Arc::clone(tools),
        max_steps: setup.max_steps,
        has_turn_after: setup.has_turn_after,
        driver,
    };
    let mut extensions: Vec<Arc<dyn Extension>> = vec![Arc::new(set)];
    extensions.extend(setup.more.iter().cloned());
    let engine = Engine::start(config, store.clone(), hub, extensions, env.clone()).unwrap();
    (engine, store)
}
