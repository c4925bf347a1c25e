//! Owns the reading end of a stream: items in order, bounded, as text or decoded.
//! Never resumes a stream: that is `follow`'s business. Tested in `protocol/client/tests/it`.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use gent_protocol::{RpcError, StreamEndReason, SubscriptionId};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::outbox::{Outbox, StreamPart};
use crate::{CallError, Client, CloseReason};

/// Why a stream gave no further item.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection is gone.
    #[error(transparent)]
    Closed(CallError),
    /// The server ended it.
    #[error("the server ended the stream: {}", error.as_ref().map_or("no reason was given", RpcError::message))]
    Ended {
        /// Why.
        reason: StreamEndReason,
        /// The error, where it failed.
        error: Option<RpcError>,
    },
    /// An item does not decode.
    #[error("an item of the stream is not what this build expects")]
    Decode(#[source] serde_json::Error),
}

/// An open stream. Up to four batches wait for it; beyond them the connection is not read on.
pub struct Subscription<T> {
    id: SubscriptionId,
    ready: VecDeque<Box<RawValue>>,
    parts: mpsc::Receiver<StreamPart>,
    outbox: Arc<Outbox>,
    // The connection lives at least as long as its streams.
    _client: Client,
    item: PhantomData<fn() -> T>,
}

impl<T> Subscription<T> {
    pub(crate) fn new(
        id: SubscriptionId,
        parts: mpsc::Receiver<StreamPart>,
        client: Client,
        outbox: Arc<Outbox>,
    ) -> Self {
        Self { id, ready: VecDeque::new(), parts, outbox, _client: client, item: PhantomData }
    }

    /// The next item as it stands on the wire. Safe to drop: no item is lost.
    pub async fn next_raw(&mut self) -> Result<Box<RawValue>, StreamError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(item);
            }
            match self.parts.recv().await {
                Some(StreamPart::Items(items)) => self.ready = items.into(),
                Some(StreamPart::End(end)) => {
                    let error = end.error.as_ref().and_then(|error| RpcError::from_object(error).ok());
                    return Err(StreamError::Ended { reason: end.reason, error });
                }
                None => {
                    let lost = CallError::Closed { reason: CloseReason::Lost, text: String::new() };
                    return Err(StreamError::Closed(self.outbox.ended().map_or(lost, |ended| ended.error())));
                }
            }
        }
    }
}

impl<T: DeserializeOwned> Subscription<T> {
    /// The next item, decoded.
    pub async fn next(&mut self) -> Result<T, StreamError> {
        let raw = self.next_raw().await?;
        serde_json::from_str(raw.get()).map_err(StreamError::Decode)
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.outbox.unsubscribe(&self.id);
    }
}
