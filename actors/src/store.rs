//! Owns the asynchronous face of the store: a named write or read whose reply is awaited.
//! Never blocks the thread it is called on, never retries: the store does what may be retried.
//! Tested through the engine.

use gent_protocol::{DatabaseStatus, StoreIncarnation, WriterStatus};
use gent_storage::{Queue, ReadTxn, Store, StoreError, WriteTxn};
use tokio::sync::oneshot;

/// The store, asked from asynchronous code. Clones share it.
#[derive(Clone)]
pub(crate) struct StoreHandle(Store);

impl StoreHandle {
    pub(crate) fn new(store: Store) -> Self {
        Self(store)
    }

    /// Runs a named write. Dropping the future does not take it back: it may still commit.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(Queue::Ordinary, name, write).await
    }

    /// Runs one portion of longer work, behind every ordinary write.
    pub(crate) async fn write_bulk<T: Send + 'static>(
        &self,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(Queue::Bulk, name, write).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        queue: Queue,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, replied) = oneshot::channel();
        self.0.submit(queue, name, write, move |result| {
            // Nobody waits any more: the write stands all the same.
            drop(reply.send(result));
        });
        replied.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a named read over one consistent snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        name: &'static str,
        read: impl FnOnce(&mut ReadTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, replied) = oneshot::channel();
        self.0.read(name, read, move |result| drop(reply.send(result)));
        replied.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(crate) fn incarnation(&self) -> &StoreIncarnation {
        self.0.incarnation()
    }

    pub(crate) fn status(&self) -> DatabaseStatus {
        self.0.status()
    }

    pub(crate) fn writer_status(&self) -> WriterStatus {
        self.0.writer_status()
    }
}
