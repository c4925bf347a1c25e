//! Owns one reader: a connection of its own, on which each read sees one consistent snapshot.
//! Never writes: the connection refuses it.
//! Tested in `storage/tests/it/groups.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::connection::{AnyConnection, Connector, Purpose, begin_read, shrink, undo};
use crate::{ReadTxn, StoreError};

/// A read on its way: its closure, and its caller.
pub(crate) trait Read: Send {
    /// Runs the read in the open transaction; what is returned answers the caller once that has ended.
    fn run(self: Box<Self>, connection: Result<&mut AnyConnection, StoreError>) -> ReadAnswer;
}

/// The end of a read.
pub(crate) struct ReadAnswer {
    answer: Box<dyn FnOnce() + Send>,
    is_healthy: bool,
}

impl ReadAnswer {
    /// Answers; a caller that panics harms nobody else.
    pub(crate) fn give(self) {
        if catch_unwind(AssertUnwindSafe(self.answer)).is_err() {
            tracing::error!("store.caller_panicked");
        }
    }
}

/// The only kind of read there is.
pub(crate) struct NamedRead<R, D> {
    pub(crate) name: &'static str,
    pub(crate) read: R,
    pub(crate) done: D,
}

impl<T, R, D> Read for NamedRead<R, D>
where
    T: Send + 'static,
    R: FnOnce(&mut ReadTxn<'_>) -> Result<T, StoreError> + Send,
    D: FnOnce(Result<T, StoreError>) + Send + 'static,
{
    fn run(self: Box<Self>, connection: Result<&mut AnyConnection, StoreError>) -> ReadAnswer {
        let Self { name, read, done } = *self;
        let outcome = connection.and_then(|connection| {
            catch_unwind(AssertUnwindSafe(|| read(&mut ReadTxn::new(connection)))).unwrap_or_else(|_panic| {
                Err(StoreError::Failed { message: format!("the read {name} panicked"), source: None })
            })
        });
        let is_healthy = outcome.as_ref().err().is_none_or(StoreError::is_refusal);
        ReadAnswer { answer: Box::new(move || done(outcome)), is_healthy }
    }
}

/// A reader and its connection, opened at the first read.
pub(crate) struct Reading {
    connector: Arc<Connector>,
    connection: Option<AnyConnection>,
}

impl Reading {
    pub(crate) fn new(connector: Arc<Connector>) -> Self {
        Self { connector, connection: None }
    }

    /// Runs one read; the caller is still to be answered.
    pub(crate) fn run(&mut self, read: Box<dyn Read>) -> ReadAnswer {
        if let Err(error) = self.begin() {
            return read.run(Err(error));
        }
        let Some(connection) = &mut self.connection else { return read.run(Err(StoreError::Closed)) };
        let answer = read.run(Ok(connection));
        let ended = undo(connection);
        if ended.is_err() || !answer.is_healthy {
            self.connection = None;
        }
        answer
    }

    /// Gives back the pages it keeps for speed.
    pub(crate) fn rest(&mut self) {
        if let Some(connection) = &mut self.connection {
            shrink(connection);
        }
    }

    /// Begins the snapshot, on a new connection where the old one is lost.
    fn begin(&mut self) -> Result<(), StoreError> {
        if let Some(connection) = &mut self.connection {
            match begin_read(connection) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::warn!(%error, "store.reader_lost"),
            }
        }
        let mut connection = self.connector.connect(Purpose::Read)?;
        begin_read(&mut connection)?;
        self.connection = Some(connection);
        Ok(())
    }
}
