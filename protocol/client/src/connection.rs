//! Owns one connection: typed calls and streams for any number of callers over one socket, and the task that owns it.
//! Never reconnects, never repeats a call: that is `link`'s business.
//! Tested in `protocol/client/tests/it`.

use std::pin::pin;
use std::sync::Arc;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use gent_protocol::{Call, Meta, Method, StreamCall, WorkspaceId};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use crate::incoming::deliver;
use crate::limits::{FRAME_BYTES, GOODBYE, REQUESTS_IN_FLIGHT, SILENCE, STREAM_BATCHES};
use crate::outbox::{Ended, Outbox, Waiter};
use crate::{CallError, CloseReason, Subscription};

/// A connection to a server. Clones share the socket; the last one dropped says goodbye.
///
/// A stream whose reader stops reading stops the whole connection, answers included: read streams and wait for
/// answers at the same time.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    meta: Option<Meta>,
}

struct Shared {
    outbox: Arc<Outbox>,
    permits: Arc<Semaphore>,
    // Kept so that the task has an owner; it ends by itself once it was asked to leave.
    _task: tokio::task::JoinHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.outbox.leave();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("meta", &self.meta).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Frame<'a> {
    jsonrpc: &'static str,
    id: i64,
    method: &'static str,
    params: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

/// Tells the server when the caller no longer waits; never of a call that changes something, which it might undo.
struct Abandon<'a> {
    outbox: &'a Outbox,
    id: Option<i64>,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.outbox.abandon(id);
        }
    }
}

impl Client {
    /// Takes over a socket that has been upgraded. Must be called within a tokio runtime.
    pub(crate) fn over<S>(socket: WebSocketStream<S>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let outbox = Arc::new(Outbox::default());
        let task = tokio::spawn(own_socket(socket, outbox.clone()));
        let permits = Arc::new(Semaphore::new(REQUESTS_IN_FLIGHT));
        Self { shared: Arc::new(Shared { outbox, permits, _task: task }), meta: None }
    }

    /// The same connection for a workspace: every call of this handle names it.
    #[must_use]
    pub fn with_workspace(&self, workspace: &WorkspaceId) -> Self {
        Self { shared: self.shared.clone(), meta: Some(Meta::of(workspace)) }
    }

    /// Calls a method. Waits while 256 requests are in flight. Dropping the future cancels a read at the
    /// server; a call that changes something goes on there and keeps its place until it is answered.
    pub async fn call<C: Call>(&self, params: C) -> Result<C::Reply, CallError> {
        self.call_with(&params).await
    }

    /// `call` with borrowed parameters, for whoever may have to repeat it.
    pub async fn call_with<C: Call>(&self, params: &C) -> Result<C::Reply, CallError> {
        let method = C::METHOD;
        let params = self.encode(method, params)?;
        let (reply, answer) = oneshot::channel();
        let permit = self.permit().await?;
        let result = self.ask(method, &params, Waiter::Answer { reply }, permit, answer).await?;
        serde_json::from_str(result.get())
            .map_err(|error| CallError::Protocol { method: method.name(), detail: error.to_string() })
    }

    /// Opens a stream. Dropping the subscription ends it at the server.
    pub async fn subscribe<S: StreamCall>(&self, params: S) -> Result<Subscription<S::Item>, CallError> {
        let method = S::METHOD;
        let params = self.encode(method, &params)?;
        let (reply, answer) = oneshot::channel();
        let (items, parts) = mpsc::channel(STREAM_BATCHES);
        let permit = self.permit().await?;
        let id = self.ask(method, &params, Waiter::Stream { reply, items }, permit, answer).await?;
        Ok(Subscription::new(id, parts, self.clone(), self.shared.outbox.clone()))
    }

    /// True once the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.outbox.ended().is_some()
    }

    fn encode<P: Serialize>(&self, method: Method, params: &P) -> Result<Box<RawValue>, CallError> {
        let params = serde_json::value::to_raw_value(params)
            .map_err(|error| CallError::Protocol { method: method.name(), detail: error.to_string() })?;
        // The rest of the frame is under 512 bytes.
        let bytes = params.get().len() + 512;
        if bytes > FRAME_BYTES {
            return Err(CallError::TooLarge { bytes, max: FRAME_BYTES });
        }
        Ok(params)
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, CallError> {
        // The semaphore is never closed; a connection that ended answers in `file`.
        self.shared.permits.clone().acquire_owned().await.map_err(|_closed| self.closed())
    }

    async fn ask<T>(
        &self,
        method: Method,
        params: &RawValue,
        waiter: Waiter,
        permit: OwnedSemaphorePermit,
        answer: oneshot::Receiver<Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let outbox = &self.shared.outbox;
        let id = outbox.file(waiter, permit, |id| {
            let frame = Frame { jsonrpc: "2.0", id, method: method.name(), params, meta: self.meta.as_ref() };
            // Names and numbers always encode; an empty frame would be refused by the server as malformed.
            serde_json::to_string(&frame).unwrap_or_default()
        })?;
        let mut abandon = Abandon { outbox, id: (!method.facts().mutates).then_some(id) };
        let outcome = answer.await;
        abandon.id = None;
        outcome.unwrap_or_else(|_dropped| Err(self.closed()))
    }

    fn closed(&self) -> CallError {
        match self.shared.outbox.ended() {
            Some(ended) => ended.error(),
            None => CallError::Closed { reason: CloseReason::Lost, text: String::new() },
        }
    }
}

/// The connection's task: reads and writes at the same time until either is over.
async fn own_socket<S>(socket: WebSocketStream<S>, outbox: Arc<Outbox>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sink, stream) = socket.split();
    let ended = {
        let mut reading = pin!(read(stream, &outbox));
        let writing = pin!(write(sink, &outbox));
        tokio::select! {
            ended = &mut reading => ended,
            written = writing => {
                // The close code, if there is one, lies behind what has not been read yet.
                let ended = timeout(GOODBYE, reading).await.ok();
                match written {
                    Written::Left => Ended { reason: CloseReason::Left, text: String::new() },
                    Written::Failed => {
                        ended.unwrap_or(Ended { reason: CloseReason::Lost, text: String::new() })
                    }
                }
            }
        }
    };
    outbox.end(ended);
}

enum Written {
    Left,
    Failed,
}

async fn write(mut sink: impl Sink<Message, Error = SocketError> + Unpin, outbox: &Outbox) -> Written {
    while let Some(text) = outbox.next().await {
        if sink.feed(Message::text(text)).await.is_err() {
            return Written::Failed;
        }
        // What came together goes out in one write.
        while let Some(Some(text)) = outbox.poll_next() {
            if sink.feed(Message::text(text)).await.is_err() {
                return Written::Failed;
            }
        }
        if sink.flush().await.is_err() {
            return Written::Failed;
        }
    }
    // The other end may be gone before the goodbye: nothing is lost by that.
    let _gone = sink.close().await;
    Written::Left
}

async fn read(
    mut stream: impl Stream<Item = Result<Message, SocketError>> + Unpin,
    outbox: &Outbox,
) -> Ended {
    let lost = || Ended { reason: CloseReason::Lost, text: String::new() };
    loop {
        let Ok(next) = timeout(SILENCE, stream.next()).await else { return lost() };
        match next {
            Some(Ok(Message::Text(text))) => {
                if deliver(outbox, text.as_str()).await.is_err() {
                    return Ended { reason: CloseReason::Garbage, text: String::new() };
                }
            }
            Some(Ok(Message::Close(Some(frame)))) => {
                let text = frame.reason.as_str().to_owned();
                return Ended { reason: CloseReason::of_code(frame.code.into()), text };
            }
            Some(Ok(Message::Close(None)) | Err(_)) | None => return lost(),
            // Pings are answered by the library; nothing else is of this protocol.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
        }
    }
}
