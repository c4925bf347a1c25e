//! Owns one fresh database for one test, and the few values that most tests need.

use std::sync::{Arc, Mutex};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use gent_protocol::{
    AgentEvent, Approval, BranchId, EventSeq, Message, MessageId, MessageKind, Millis, Part, RequestId, Role,
    RunId, SessionId, StoreIncarnation, WorkspaceId,
};
use gent_storage::{
    EventPage, Location, Mode, NewSession, Published, Publisher, QueueItem, QueueKind, ReadTxn, Store,
    StoreConfig, StoreError, Synchronous, TurnRow, TurnState, WriteTxn, events_after, message_insert,
    session_create,
};
use serde_json::json;

/// Writes each test once and runs it on every database there is.
macro_rules! suite {
    ($($(#[$meta:meta])* fn $name:ident($db:ident) $body:block)*) => {
        $(fn $name($db: &$crate::fixture::Fixture) $body)*

        mod sqlite {
            $($(#[$meta])* #[test] fn $name() { super::$name(&$crate::fixture::Fixture::sqlite()) })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $($(#[$meta])* #[test] fn $name() { super::$name(&$crate::fixture::Fixture::postgres()) })*
        }
    };
}

#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<Published>>);

impl Heard {
    pub(crate) fn has(&self, seq: EventSeq) -> bool {
        self.0.lock().unwrap().iter().any(|envelope| envelope.id == seq)
    }
}

impl Publisher for Heard {
    fn publish(&self, envelopes: Vec<Published>) {
        self.0.lock().unwrap().extend(envelopes);
    }

    fn lost_track(&self) {}
}

pub(crate) struct Fixture {
    pub(crate) location: Location,
    pub(crate) place: tempfile::TempDir,
    pub(crate) heard: Arc<Heard>,
    store: Mutex<Option<Store>>,
}

impl Fixture {
    pub(crate) fn sqlite() -> Self {
        let place = tempfile::tempdir().unwrap();
        Self::at(Location::Sqlite(place.path().join("data.db")), place)
    }

    /// A schema of its own in the database that the environment names.
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        #[expect(clippy::disallowed_methods, reason = "the suite's only input from outside")]
        let url = std::env::var("GENT_TEST_POSTGRES_URL").unwrap_or_else(|_| {
            panic!(
                "set GENT_TEST_POSTGRES_URL for the PostgreSQL half of this suite: eval \"$(.ci/postgres)\""
            )
        });
        let schema = format!("t{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::SeqCst));
        let mut connection = PgConnection::establish(&url).unwrap();
        connection
            .batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema};"))
            .unwrap();
        let url = format!("{url}?options=-csearch_path%3D{schema}");
        Self::at(Location::Postgres(url), tempfile::tempdir().unwrap())
    }

    fn at(location: Location, place: tempfile::TempDir) -> Self {
        let fixture = Self { location, place, heard: Arc::default(), store: Mutex::default() };
        fixture.reopen(|_| {});
        fixture
    }

    pub(crate) fn config(&self) -> StoreConfig {
        StoreConfig {
            location: self.location.clone(),
            synchronous: Synchronous::Normal,
            readers: 2,
            mode: Mode::Threaded,
            new_incarnation: StoreIncarnation::parse("first-life").unwrap(),
            boot_id: Some("boot-1".into()),
            backups: Some(self.place.path().join("backups")),
            now: Millis(1_000),
        }
    }

    /// Drops the store as a killed process would, without an orderly stop, and opens it again.
    pub(crate) fn reopen(&self, change: impl FnOnce(&mut StoreConfig)) {
        let mut config = self.config();
        change(&mut config);
        let mut store = self.store.lock().unwrap();
        store.take();
        *store = Some(Store::open(config, self.heard.clone()).unwrap());
    }

    pub(crate) fn shut(&self) {
        self.store.lock().unwrap().take();
    }

    pub(crate) fn store(&self) -> Store {
        self.store.lock().unwrap().clone().unwrap()
    }

    pub(crate) fn write<T: Send + 'static>(
        &self,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.store().write_blocking("test.write", write)
    }

    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut ReadTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.store().read_blocking("test.read", read)
    }

    /// Runs SQL behind the store's back.
    pub(crate) fn sql(&self, sql: &str) {
        match &self.location {
            Location::Sqlite(path) => {
                let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
                connection.batch_execute(&format!("PRAGMA busy_timeout = 5000; {sql}")).unwrap();
            }
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => {
                PgConnection::establish(url).unwrap().batch_execute(sql).unwrap();
            }
        }
    }

    /// A number out of one row, read behind the store's back.
    pub(crate) fn sql_number(&self, sql: &str) -> i64 {
        #[derive(QueryableByName)]
        struct Number {
            #[diesel(sql_type = diesel::sql_types::BigInt)]
            n: i64,
        }
        let query = diesel::sql_query(format!("SELECT ({sql}) AS n"));
        let number: Number = match &self.location {
            Location::Sqlite(path) => {
                let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
                connection.batch_execute("PRAGMA busy_timeout = 5000;").unwrap();
                query.get_result(&mut connection).unwrap()
            }
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => query.get_result(&mut PgConnection::establish(url).unwrap()).unwrap(),
        };
        number.n
    }

    /// A session `name` with the branch `name-b`, at time `at`.
    pub(crate) fn session(&self, name: &str, at: i64) -> (SessionId, BranchId) {
        let new = new_session(name, at);
        let made = self.write(move |txn| session_create(txn, &new)).unwrap();
        (made.session_id, made.branch_id)
    }

    pub(crate) fn append(&self, event: AgentEvent) -> EventSeq {
        self.write(move |txn| txn.append(&event, Millis(5))).unwrap()
    }

    pub(crate) fn insert(&self, message: Message) -> gent_storage::MessageInserted {
        self.write(move |txn| message_insert(txn, &message)).unwrap()
    }

    pub(crate) fn events(&self, session: &SessionId, after: i64) -> EventPage {
        let session = session.clone();
        self.read(move |r| events_after(r, &session, None, EventSeq(after), 1_000, usize::MAX)).unwrap()
    }

    pub(crate) fn published(&self) -> Vec<Published> {
        self.heard.0.lock().unwrap().clone()
    }
}

pub(crate) fn workspace() -> WorkspaceId {
    WorkspaceId::parse("a".repeat(64)).unwrap()
}

pub(crate) fn elsewhere() -> WorkspaceId {
    WorkspaceId::parse("b".repeat(64)).unwrap()
}

pub(crate) fn new_session(name: &str, at: i64) -> NewSession {
    NewSession {
        workspace: workspace(),
        session: SessionId::parse(name).unwrap(),
        branch: BranchId::parse(format!("{name}-b")).unwrap(),
        name: format!("session {name}"),
        cwd: Some("/home/x".into()),
        model: None,
        reasoning: None,
        admission: None,
        approval: Approval::Ask,
        env: Default::default(),
        initial_prompt: None,
        request: None,
        at: Millis(at),
    }
}

pub(crate) fn request(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

pub(crate) fn message_id(text: &str) -> MessageId {
    MessageId::parse(text).unwrap()
}

pub(crate) fn message(of: &(SessionId, BranchId), id: &str, text: &str) -> Message {
    Message {
        kind: MessageKind::Regular,
        id: message_id(id),
        session_id: of.0.clone(),
        branch_id: of.1.clone(),
        role: Role::User,
        parts: vec![Part::text(text)],
        created_at: Millis(7),
        turn_duration_ms: None,
        metadata: None,
    }
}

pub(crate) fn named(session: &SessionId, name: &str) -> AgentEvent {
    AgentEvent::SessionNameUpdated { session_id: session.clone(), name: name.into() }
}

pub(crate) fn chunk(of: &(SessionId, BranchId), step: u32, run: &str, offset: u64, text: &str) -> AgentEvent {
    AgentEvent::StreamChunk {
        session_id: of.0.clone(),
        branch_id: of.1.clone(),
        message_id: message_id("m"),
        step,
        run: RunId::parse(run).unwrap(),
        offset,
        chunk: text.into(),
    }
}

pub(crate) fn turn(of: &(SessionId, BranchId), id: &str, state: TurnState, started_at: i64) -> TurnRow {
    TurnRow {
        session_id: of.0.clone(),
        branch_id: of.1.clone(),
        message_id: message_id(id),
        state,
        attempts: 2,
        run: RunId::parse("run").unwrap(),
        step: 3,
        continuations: 1,
        started_at: Millis(started_at),
        approval: Some(Approval::Approve),
        route: Some(json!({"driver": "x"})),
        waiting_for: Some("credential".into()),
        totals: json!({"steps": 3}),
    }
}

pub(crate) fn item(of: &(SessionId, BranchId), id: &str, wake: bool) -> QueueItem {
    QueueItem {
        session_id: of.0.clone(),
        branch_id: of.1.clone(),
        message: message(of, id, id),
        kind: QueueKind::FollowUp,
        wake,
        approval: None,
        queued_at: Millis(9),
        sender: None,
    }
}
