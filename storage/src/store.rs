//! Owns the store's handle: queues in front, one writer and several readers behind.
//! Never knows tokio or actix: callers are answered through closures.
//! Tested in `storage/tests/it/groups.rs` and `storage/tests/it/opening.rs`.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use gent_protocol::{
    BranchId, DatabaseKind, DatabaseStatus, EventSeq, Millis, SessionId, StoreIncarnation, WriterStatus,
};

use crate::connection::Connector;
use crate::lane::{Gauges, Lane};
use crate::opening::{Opened, open_database};
use crate::reader::{NamedRead, Read, Reading};
use crate::settler::{self, Bell};
use crate::writer::{Answer, GROUP_WRITES, NamedWrite, Write, Writer};
use crate::{Location, OpenError, ReadTxn, StoreError, WriteTxn};

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// The death of the process.
    Normal,
    /// The loss of power as well.
    Full,
}

/// Where writes and reads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On the store's own threads.
    Threaded,
    /// At once on the calling thread, with the same code: for tests under paused time.
    Inline,
}

/// Which queue a write waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Writes that somebody waits for.
    Ordinary,
    /// Portions of sweeps: run one at a time when no ordinary write waits.
    Bulk,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Where it is.
    pub location: Location,
    /// What a commit survives.
    pub synchronous: Synchronous,
    /// Reader threads, at least one.
    pub readers: usize,
    /// Where writes and reads run.
    pub mode: Mode,
    /// Used when the store is new, or the boot changed without an orderly stop.
    pub new_incarnation: StoreIncarnation,
    /// This boot of the machine, where it can be known.
    pub boot_id: Option<String>,
    /// Directory for the copy that is made before a migration.
    pub backups: Option<PathBuf>,
    /// The time of the opening.
    pub now: Millis,
}

/// Takes the envelopes of committed writes.
pub trait Publisher: Send + Sync {
    /// Called after COMMIT and before the writes are answered, in commit order. Must not block, nor call the store.
    fn publish(&self, envelopes: Vec<Published>);
    /// Called when the outcome of a write is unknown: everything is to be read from the store.
    fn lost_track(&self);
}

/// An envelope as it goes on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Its number.
    pub id: EventSeq,
    /// The session.
    pub session_id: SessionId,
    /// The branch; none for events of the whole session.
    pub branch_id: Option<BranchId>,
    /// The event's tag.
    pub tag: &'static str,
    /// A text delta: its row goes with the message that follows.
    pub perishable: bool,
    /// The whole envelope as JSON.
    pub json: Arc<str>,
}

/// A handle to the store; clones share it. When the last is dropped without `close`, what is queued is still done, but
/// the stop is not marked as orderly.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    incarnation: StoreIncarnation,
    status: DatabaseStatus,
    gauges: Arc<Gauges>,
    side: Side,
}

enum Side {
    Threaded(Threads),
    Inline { writer: Mutex<Option<Box<Writer>>>, reading: Mutex<Option<Reading>> },
}

struct Threads {
    writes: Arc<Lane<Box<dyn Write>>>,
    reads: Arc<Lane<Box<dyn Read>>>,
    writer: Mutex<Option<JoinHandle<Writer>>>,
    settler: Mutex<Option<JoinHandle<()>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Opens, checks and migrates the database, in this order: foreign and newer ones are refused before anything is
    /// changed, a copy is made before a migration. Then starts the threads.
    pub fn open(config: StoreConfig, publisher: Arc<dyn Publisher>) -> Result<Store, OpenError> {
        let Opened { connector, connection, incarnation } = open_database(&config)?;
        let gauges = Arc::new(Gauges::default());
        let status = database_status(&connector);
        let writer = Writer::new(connector.clone(), connection, publisher, gauges.clone());
        let side = match config.mode {
            Mode::Threaded => {
                let threads = Threads::start(writer, &connector, config.readers).map_err(|error| {
                    OpenError::Unreachable { place: config.location.to_string(), reason: error.to_string() }
                })?;
                Side::Threaded(threads)
            }
            Mode::Inline => Side::Inline {
                writer: Mutex::new(Some(Box::new(writer))),
                reading: Mutex::new(Some(Reading::new(connector))),
            },
        };
        Ok(Store { shared: Arc::new(Shared { incarnation, status, gauges, side }) })
    }

    /// Queues a write under its name. `write` may be run more than once and has no effect outside its transaction;
    /// `done` is called once, after commit and publication, on the writer's thread: it must be short. When too much
    /// waits, or the store is closed, it is called at once on this thread.
    pub fn submit<T: Send + 'static>(
        &self,
        queue: Queue,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
        done: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) {
        let write: Box<dyn Write> = Box::new(NamedWrite::new(name, write, done));
        match &self.shared.side {
            Side::Threaded(threads) => {
                if let Err((write, refusal)) = threads.writes.push(write, queue == Queue::Ordinary) {
                    Answer::new(write, Err(refusal)).give();
                }
            }
            Side::Inline { writer, .. } => {
                let mut waiting = VecDeque::from([write]);
                let answers = match &mut *writer.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(writer) => writer.run_group(&mut waiting),
                    None => {
                        waiting.drain(..).map(|write| Answer::new(write, Err(StoreError::Closed))).collect()
                    }
                };
                // The lock is gone: a caller may write again.
                answers.into_iter().for_each(Answer::give);
            }
        }
    }

    /// Queues a read over one consistent snapshot of everything committed before it runs. `done` is called once, on a
    /// reader's thread: it must be short.
    pub fn read<T: Send + 'static>(
        &self,
        name: &'static str,
        read: impl FnOnce(&mut ReadTxn<'_>) -> Result<T, StoreError> + Send + 'static,
        done: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) {
        let read: Box<dyn Read> = Box::new(NamedRead { name, read, done });
        match &self.shared.side {
            Side::Threaded(threads) => {
                if let Err((read, refusal)) = threads.reads.push(read, true) {
                    read.run(Err(refusal)).give();
                }
            }
            Side::Inline { reading, .. } => {
                let answer = match &mut *reading.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(reading) => reading.run(read),
                    None => read.run(Err(StoreError::Closed)),
                };
                answer.give();
            }
        }
    }

    /// As `submit` in the ordinary queue, waiting for the outcome. For start-up, doctor and tests; never from a `done`.
    pub fn write_blocking<T: Send + 'static>(
        &self,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        wait_for(|done| self.submit(Queue::Ordinary, name, write, done))
    }

    /// As `read`, waiting for the outcome. For start-up, doctor and tests; never from a `done`.
    pub fn read_blocking<T: Send + 'static>(
        &self,
        name: &'static str,
        read: impl FnOnce(&mut ReadTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        wait_for(|done| self.read(name, read, done))
    }

    /// The life of this store: a cursor of another one is invalid.
    pub fn incarnation(&self) -> &StoreIncarnation {
        &self.shared.incarnation
    }

    /// Which database it is, without credentials.
    pub fn status(&self) -> DatabaseStatus {
        self.shared.status.clone()
    }

    /// What the writer does now, and how long its last group took.
    pub fn writer_status(&self) -> WriterStatus {
        let queued = match &self.shared.side {
            Side::Threaded(threads) => threads.writes.len() as u64,
            Side::Inline { .. } => 0,
        };
        WriterStatus { queued, group_ms: self.shared.gauges.group_ms() }
    }

    /// Finishes what is queued, marks the orderly stop, settles the log and joins the threads; later submits and reads
    /// answer `Closed`. Called again it does nothing. Not to be called from a `done`.
    pub fn close(&self) {
        match &self.shared.side {
            Side::Threaded(threads) => {
                if let Some(writer) = threads.stop() {
                    writer.finish();
                }
            }
            Side::Inline { writer, reading } => {
                reading.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(writer) = writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    writer.finish();
                }
            }
        }
    }
}

impl Threads {
    fn start(writer: Writer, connector: &Arc<Connector>, n_readers: usize) -> std::io::Result<Self> {
        let writes = Arc::new(Lane::new());
        let reads = Arc::new(Lane::new());
        let (bell, settler) = settler::start(connector)?.unzip();
        let lane = writes.clone();
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run_writer(writer, &lane, bell))?;
        let mut readers = Vec::new();
        for _ in 0..n_readers.max(1) {
            let lane = reads.clone();
            let reading = Reading::new(connector.clone());
            let reader = std::thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || run_reader(reading, &lane))?;
            readers.push(reader);
        }
        Ok(Self {
            writes,
            reads,
            writer: Mutex::new(Some(writer)),
            settler: Mutex::new(settler),
            readers: Mutex::new(readers),
        })
    }

    /// Lets the threads finish what is queued and waits for them. The writer first: its callers may still read.
    fn stop(&self) -> Option<Writer> {
        self.writes.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let writer = writer.and_then(join);
        // It ends with the writer's bell.
        if let Some(settler) = self.settler.lock().unwrap_or_else(PoisonError::into_inner).take() {
            join(settler);
        }
        self.reads.close();
        let readers = std::mem::take(&mut *self.readers.lock().unwrap_or_else(PoisonError::into_inner));
        for reader in readers {
            join(reader);
        }
        writer
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for a thread, unless it is this one: then it ends by itself.
fn join<T>(thread: JoinHandle<T>) -> Option<T> {
    if thread.thread().id() == std::thread::current().id() {
        return None;
    }
    thread.join().inspect_err(|_panic| tracing::error!("store.thread_panicked")).ok()
}

fn run_writer(mut writer: Writer, lane: &Lane<Box<dyn Write>>, mut bell: Option<Bell>) -> Writer {
    while let Some(mut waiting) = lane.take(GROUP_WRITES, || writer.rest()) {
        while !waiting.is_empty() {
            writer.run_group(&mut waiting).into_iter().for_each(Answer::give);
            if let Some(bell) = &mut bell {
                bell.group_committed();
            }
        }
    }
    writer
}

fn run_reader(mut reading: Reading, lane: &Lane<Box<dyn Read>>) {
    while let Some(waiting) = lane.take(1, || reading.rest()) {
        for read in waiting {
            reading.run(read).give();
        }
    }
}

fn wait_for<T: Send + 'static>(
    start: impl FnOnce(Box<dyn FnOnce(Result<T, StoreError>) + Send>),
) -> Result<T, StoreError> {
    let (sender, receiver) = sync_channel(1);
    start(Box::new(move |outcome| {
        // Nobody listens any more only when the waiting thread is gone.
        sender.send(outcome).ok();
    }));
    receiver.recv().unwrap_or(Err(StoreError::Closed))
}

fn database_status(connector: &Connector) -> DatabaseStatus {
    let (kind, path) = match &connector.location {
        Location::Sqlite(path) => (DatabaseKind::Sqlite, Some(path.display().to_string())),
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => (DatabaseKind::Postgres, None),
    };
    let synchronous = match connector.synchronous {
        Synchronous::Normal => "normal",
        Synchronous::Full => "full",
    };
    DatabaseStatus { kind, path, synchronous: synchronous.to_owned() }
}
