//! Owns the one writer: it takes what waits, runs it as a group in one transaction, publishes, then answers.
//! Never waits for more work once there is some, never answers before it has published, never loses a caller.
//! Tested in `storage/src/writer/tests.rs` and `storage/tests/it/groups.rs`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use crate::connection::{AnyConnection, Connector, Purpose, begin_write, keep, savepoint, shrink, undo};
use crate::failpoint;
use crate::lane::Gauges;
use crate::schema::store_meta;
use crate::{Location, Published, Publisher, StoreError, WriteTxn};

/// Writes of one group (architecture, "Group commit").
pub(crate) const GROUP_WRITES: usize = 64;

/// A group that has taken so long is committed without the writes that were to follow.
const GROUP_TIME: Duration = Duration::from_millis(5);

/// The log is looked at once in so many groups.
const LOG_LOOK: u32 = 256;

/// A log beyond this is settled by force: readers that overlap without a pause can keep the ordinary checkpoints from
/// ever starting it anew.
const LOG_BYTES: u64 = 64 << 20;

/// How often a write is run again alone when another transaction was in its way.
const RUNS: u32 = 5;

/// A write on its way: its closure, and its caller.
pub(crate) trait Write: Send {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Runs the closure and keeps what it made for the answer. May be called again.
    fn run(&mut self, txn: &mut WriteTxn<'_>) -> Result<(), StoreError>;
    /// Answers the caller.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// The only kind of write there is.
pub(crate) struct NamedWrite<T, W, D> {
    name: &'static str,
    write: W,
    done: D,
    value: Option<T>,
}

impl<T, W, D> NamedWrite<T, W, D> {
    pub(crate) fn new(name: &'static str, write: W, done: D) -> Self {
        Self { name, write, done, value: None }
    }
}

impl<T, W, D> Write for NamedWrite<T, W, D>
where
    T: Send,
    W: Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send,
    D: FnOnce(Result<T, StoreError>) + Send,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, txn: &mut WriteTxn<'_>) -> Result<(), StoreError> {
        self.value = None;
        self.value = Some((self.write)(txn)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { done, value, .. } = *self;
        done(outcome.and_then(|()| value.ok_or(StoreError::Closed)));
    }
}

/// A write with its outcome, to be told its caller once nothing is locked any more.
pub(crate) struct Answer {
    write: Box<dyn Write>,
    outcome: Result<(), StoreError>,
}

impl Answer {
    pub(crate) fn new(write: Box<dyn Write>, outcome: Result<(), StoreError>) -> Self {
        Self { write, outcome }
    }

    /// Answers; a caller that panics harms nobody else.
    pub(crate) fn give(self) {
        let Self { write, outcome } = self;
        let name = write.name();
        if let Err(error) = &outcome {
            tracing::debug!(write = name, %error, "store.write_failed");
        }
        if catch_unwind(AssertUnwindSafe(|| write.answer(outcome))).is_err() {
            tracing::error!(write = name, "store.caller_panicked");
        }
    }
}

/// What became of a transaction.
enum Transaction {
    /// It was committed; the writes that took part have these outcomes, in order.
    Committed(Vec<Result<(), StoreError>>),
    /// Nothing of it was stored; so many writes had been run, the last of which is to blame.
    Undone(usize, StoreError),
    /// The database did not say, of so many writes.
    Unknown(usize),
}

/// The writer and its connection.
pub(crate) struct Writer {
    connector: Arc<Connector>,
    connection: Option<AnyConnection>,
    publisher: Arc<dyn Publisher>,
    gauges: Arc<Gauges>,
    groups_since_look: u32,
    /// `GROUP_TIME`; tests widen it, so that a slow machine does not cut their groups.
    group_time: Duration,
}

impl Writer {
    pub(crate) fn new(
        connector: Arc<Connector>,
        connection: AnyConnection,
        publisher: Arc<dyn Publisher>,
        gauges: Arc<Gauges>,
    ) -> Self {
        Self {
            connector,
            connection: Some(connection),
            publisher,
            gauges,
            groups_since_look: 0,
            group_time: GROUP_TIME,
        }
    }

    /// Runs as many of the waiting writes as make a group. What it returns is committed and published, or not
    /// stored; the rest is left waiting.
    pub(crate) fn run_group(&mut self, waiting: &mut VecDeque<Box<dyn Write>>) -> Vec<Answer> {
        self.groups_since_look += 1;
        if self.groups_since_look >= LOG_LOOK {
            self.groups_since_look = 0;
            self.settle_log_over(LOG_BYTES);
        }
        let started = now();
        let mut group: Vec<Box<dyn Write>> = waiting.drain(..waiting.len().min(GROUP_WRITES)).collect();
        let outcomes = match group.as_mut_slice() {
            [write] => vec![self.run_alone(write)],
            writes => self.run_together(writes),
        };
        for late in group.drain(outcomes.len()..).rev() {
            waiting.push_front(late);
        }
        self.gauges.group_took(started.elapsed());
        group.into_iter().zip(outcomes).map(|(write, outcome)| Answer::new(write, outcome)).collect()
    }

    fn run_together(&mut self, writes: &mut [Box<dyn Write>]) -> Vec<Result<(), StoreError>> {
        match self.transact(writes) {
            Transaction::Committed(outcomes) => outcomes,
            Transaction::Unknown(n_run) => self.lose_track(n_run),
            Transaction::Undone(n_run, error) => {
                // SQLite ends the whole transaction itself on a full disk, an interrupt or an I/O error, so a
                // savepoint does not protect the neighbours: all of them are run again, each alone.
                tracing::warn!(%error, writes = n_run, "store.group_undone");
                self.replace_connection();
                writes.iter_mut().take(n_run).map(|write| self.run_alone(write)).collect()
            }
        }
    }

    fn run_alone(&mut self, write: &mut Box<dyn Write>) -> Result<(), StoreError> {
        let mut run = 1;
        loop {
            match self.transact(std::slice::from_mut(write)) {
                Transaction::Committed(outcomes) => return outcomes.into_iter().next().unwrap_or(Ok(())),
                Transaction::Unknown(n_run) => {
                    return self.lose_track(n_run).pop().unwrap_or(Err(StoreError::OutcomeUnknown));
                }
                Transaction::Undone(_, error) => {
                    self.replace_connection();
                    if !error.is_transient() || run == RUNS {
                        return Err(error);
                    }
                    run += 1;
                }
            }
        }
    }

    /// Runs the writes in one transaction, commits and publishes. Several are kept apart by savepoints.
    fn transact(&mut self, writes: &mut [Box<dyn Write>]) -> Transaction {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => match self.connector.connect(Purpose::Write) {
                Ok(connection) => none.insert(connection),
                Err(error) => return Transaction::Undone(writes.len(), error.into()),
            },
        };
        if let Err(error) = begin_write(connection) {
            return Transaction::Undone(writes.len(), error.into());
        }
        let started = now();
        let is_group = writes.len() > 1;
        let mut outcomes: Vec<Result<(), StoreError>> = Vec::with_capacity(writes.len());
        let mut envelopes = Vec::new();
        for write in writes.iter_mut() {
            if !outcomes.is_empty() && started.elapsed() > self.group_time {
                break;
            }
            match run_guarded(connection, write.as_mut(), is_group) {
                Ok(Ok(made)) => {
                    envelopes.extend(made);
                    outcomes.push(Ok(()));
                }
                Ok(Err(refusal)) => outcomes.push(Err(refusal)),
                Err(error) => return Transaction::Undone(outcomes.len() + 1, error),
            }
        }
        if outcomes.iter().all(Result::is_err) {
            // Nothing was changed: there is nothing to commit.
            return match undo(connection) {
                Ok(()) => Transaction::Committed(outcomes),
                Err(error) => Transaction::Undone(outcomes.len(), error.into()),
            };
        }
        if writes.iter().any(|write| failpoint::hit("store.before_commit", Some(write.name()))) {
            return Transaction::Undone(outcomes.len(), asked_to_fail("store.before_commit"));
        }
        if let Err(error) = keep(connection) {
            let error = StoreError::from(error);
            if error.rules_commit_out() {
                return Transaction::Undone(outcomes.len(), error);
            }
            tracing::error!(%error, "store.commit_unknown");
            return Transaction::Unknown(outcomes.len());
        }
        if writes.iter().any(|write| failpoint::hit("store.after_commit", Some(write.name()))) {
            return Transaction::Unknown(outcomes.len());
        }
        self.publish(envelopes);
        Transaction::Committed(outcomes)
    }

    /// Before any caller is answered: who subscribes on the reply must find the event.
    fn publish(&self, envelopes: Vec<Published>) {
        if envelopes.is_empty() {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| self.publisher.publish(envelopes))).is_err() {
            tracing::error!("store.publisher_panicked");
        }
    }

    fn lose_track(&mut self, n_writes: usize) -> Vec<Result<(), StoreError>> {
        self.replace_connection();
        if catch_unwind(AssertUnwindSafe(|| self.publisher.lost_track())).is_err() {
            tracing::error!("store.publisher_panicked");
        }
        (0..n_writes).map(|_| Err(StoreError::OutcomeUnknown)).collect()
    }

    /// Drops the connection, and with it whatever state its transaction is in; the next write opens another.
    fn replace_connection(&mut self) {
        if let Some(mut connection) = self.connection.take()
            && let Err(error) = undo(&mut connection)
        {
            tracing::debug!(%error, "store.rollback_failed");
        }
    }

    /// Settles the log when it has outgrown its bound. Waits a moment for readers, never long: the writes that wait
    /// are worth more than a short log.
    fn settle_log_over(&mut self, limit: u64) {
        let (Location::Sqlite(path), Some(AnyConnection::Sqlite(connection))) =
            (&self.connector.location, &mut self.connection)
        else {
            return;
        };
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        let bytes = std::fs::metadata(log).map_or(0, |log| log.len());
        if bytes <= limit {
            return;
        }
        tracing::warn!(bytes, "store.log_large");
        let settled = connection.batch_execute(
            "PRAGMA busy_timeout = 100; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = 5000;",
        );
        if let Err(error) = settled {
            tracing::warn!(%error, "store.log_not_settled");
        }
    }

    /// Gives back the pages it keeps for speed: an idle server is small.
    pub(crate) fn rest(&mut self) {
        if let Some(connection) = &mut self.connection {
            shrink(connection);
        }
    }

    /// Marks the orderly stop and settles the log.
    pub(crate) fn finish(mut self) {
        let Some(connection) = &mut self.connection else { return };
        let marked = diesel::update(store_meta::table).set(store_meta::orderly.eq(true)).execute(connection);
        if let Err(error) = marked {
            tracing::warn!(%error, "store.stop_not_marked");
        }
        let settled = match connection {
            // What deletes have freed goes back to the disk, a bounded piece at each stop.
            AnyConnection::Sqlite(sqlite) => {
                sqlite.batch_execute("PRAGMA incremental_vacuum(2000); PRAGMA wal_checkpoint(TRUNCATE);")
            }
            #[cfg(feature = "postgres")]
            AnyConnection::Postgres(_) => Ok(()),
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "store.log_not_settled");
        }
    }
}

/// Runs one closure, in a savepoint where it has neighbours. The outer error undoes the whole transaction, the inner
/// one is a refusal that has cost nothing.
fn run_guarded(
    connection: &mut AnyConnection,
    write: &mut dyn Write,
    is_group: bool,
) -> Result<Result<Vec<Published>, StoreError>, StoreError> {
    if is_group {
        savepoint(connection)?;
    }
    let name = write.name();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut txn = WriteTxn::new(connection);
        write.run(&mut txn)?;
        if failpoint::hit("store.in_write", Some(name)) {
            return Err(asked_to_fail("store.in_write"));
        }
        Ok(txn.into_envelopes())
    }));
    match ran {
        Ok(Ok(envelopes)) => {
            if is_group {
                keep(connection)?;
            }
            Ok(Ok(envelopes))
        }
        Ok(Err(error)) if error.is_refusal() => {
            if is_group {
                undo(connection)?;
            }
            Ok(Err(error))
        }
        Ok(Err(error)) => Err(error),
        Err(_panic) => Err(StoreError::Failed {
            message: format!("the write {name} panicked: nothing of it was stored"),
            source: None,
        }),
    }
}

fn asked_to_fail(name: &str) -> StoreError {
    StoreError::Failed { message: format!("failpoint {name}"), source: None }
}

#[expect(clippy::disallowed_methods, reason = "how long a group takes is measured, and decides no outcome")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
