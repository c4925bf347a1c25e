//! Owns the requests in flight and the open streams of one connection: each is a task. Reads and streams end with the
//! connection, what changes something runs to its end without it.
//! A turn that a request waits for goes on: only the wait ends.
//! Tested in `socket_tests.rs`, with a dispatch made up for it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use futures_util::FutureExt;
use gent_protocol::{
    IncomingFrame, Method, RequestFrame, RpcError, StreamCancel, StreamEndReason, SubscriptionId, WireId,
    WorkspaceId, parse_frame,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

use super::detached::Detached;
use super::dispatch::{Called, Dispatch, Failure};
use super::outgoing::{Gone, Outgoing};
use super::reply;

/// Requests in flight on one connection. Beyond it: `LimitExceeded` at once.
pub(crate) const REQUESTS: usize = 256;
/// Bytes of the requests in flight on one connection. Beyond it: `LimitExceeded` at once.
pub(crate) const REQUEST_BYTES: usize = 32 * 1024 * 1024;
/// Reads of one connection that are worked on at once, until there is room for their answers. Beyond it: they wait. A
/// client that asks and does not read costs this many answers beside its queue.
pub(crate) const READS: usize = 4;
/// Streams of one connection. Beyond it: `LimitExceeded` at once.
pub(crate) const SUBSCRIPTIONS: usize = 64;

struct Running {
    task: JoinHandle<()>,
    bytes: usize,
    /// It changes something: once read it is done, whether or not anybody waits for its answer.
    mutates: bool,
    /// Nobody waits for its answer any more.
    is_unwanted: Rc<Cell<bool>>,
}

impl Running {
    /// Nobody waits for it any more.
    fn leave(self, detached: &Arc<Detached>) {
        self.is_unwanted.set(true);
        if self.mutates {
            detached.keep(self.task, self.bytes);
        } else {
            self.task.abort();
        }
    }
}

struct Shared {
    dispatch: Arc<dyn Dispatch>,
    detached: Arc<Detached>,
    outgoing: Outgoing,
    requests: RefCell<HashMap<WireId, Running>>,
    reads: Semaphore,
    streams: RefCell<HashMap<SubscriptionId, JoinHandle<()>>>,
    bytes: Cell<usize>,
    next_subscription: Cell<u64>,
}

/// The calls of one connection. Dropping it ends them all; `leave` lets those that change something go on.
pub(crate) struct Calls(Rc<Shared>);

impl Drop for Calls {
    fn drop(&mut self) {
        // Taken out first: a task that ends looks into these tables.
        let (requests, streams) = (self.0.requests.take(), self.0.streams.take());
        for running in requests.into_values() {
            running.task.abort();
        }
        for task in streams.into_values() {
            task.abort();
        }
    }
}

impl Calls {
    /// None yet.
    pub(crate) fn new(dispatch: Arc<dyn Dispatch>, detached: Arc<Detached>, outgoing: Outgoing) -> Self {
        Self(Rc::new(Shared {
            dispatch,
            detached,
            outgoing,
            requests: RefCell::default(),
            reads: Semaphore::new(READS),
            streams: RefCell::default(),
            bytes: Cell::new(0),
            next_subscription: Cell::new(1),
        }))
    }

    /// The connection is gone: reads and streams end, and what changes something runs to its end.
    pub(crate) fn leave(self) {
        for running in self.0.requests.take().into_values() {
            running.leave(&self.0.detached);
        }
    }

    /// Takes one message: starts a request, cancels one, or answers what is wrong with it. Waits only for room in
    /// the queue of the socket.
    pub(crate) async fn take(&self, text: &str) -> Result<(), Gone> {
        match parse_frame(text) {
            Ok(IncomingFrame::Request(request)) => match self.admit(&request, text.len()) {
                Ok((method, workspace)) => {
                    self.start(request, method, workspace, text.len());
                    Ok(())
                }
                Err(error) => self.0.outgoing.send(reply::error(Some(&request.id), &error)).await,
            },
            Ok(IncomingFrame::Notification { method, params }) => self.cancel(&method, &params).await,
            Err(gent_protocol::FrameError::Parse) => {
                let message = gent_protocol::FrameError::Parse.to_string();
                self.0.outgoing.send(reply::error(None, &RpcError::ParseError { message })).await
            }
            Err(gent_protocol::FrameError::Invalid { reason, id }) => {
                let message = gent_protocol::FrameError::Invalid { reason, id: None }.to_string();
                self.0.outgoing.send(reply::error(id.as_ref(), &RpcError::InvalidRequest { message })).await
            }
        }
    }

    /// Ends every stream with `reason`, before the socket closes.
    pub(crate) async fn end_streams(&self, reason: StreamEndReason) -> Result<(), Gone> {
        let streams: Vec<_> = self.0.streams.borrow_mut().drain().collect();
        for (subscription, task) in streams {
            task.abort();
            self.0.outgoing.send(reply::end(&subscription, reason, None)).await?;
        }
        Ok(())
    }

    fn admit(&self, request: &RequestFrame, bytes: usize) -> Result<(Method, Option<WorkspaceId>), RpcError> {
        let Some(method) = Method::parse(&request.method) else {
            return Err(RpcError::MethodNotFound { message: unknown_method(&request.method) });
        };
        let facts = method.facts();
        let workspace = parse_workspace(request.meta.workspace.as_deref(), facts.workspace)?;
        let requests = self.0.requests.borrow();
        if requests.len() >= REQUESTS {
            return Err(limit_exceeded(
                "requestsInFlight",
                REQUESTS,
                "requests are in flight on this connection",
            ));
        }
        if self.0.bytes.get().saturating_add(bytes) > REQUEST_BYTES && !requests.is_empty() {
            return Err(limit_exceeded(
                "requestBytesInFlight",
                REQUEST_BYTES,
                "bytes of requests are in flight on this connection",
            ));
        }
        if facts.streams && self.0.streams.borrow().len() >= SUBSCRIPTIONS {
            return Err(subscriptions_exceeded());
        }
        if requests.contains_key(&request.id) {
            return Err(RpcError::InvalidRequest {
                message: "a request with this id is in flight: take another id".into(),
            });
        }
        Ok((method, workspace))
    }

    fn start(&self, request: RequestFrame, method: Method, workspace: Option<WorkspaceId>, bytes: usize) {
        let id = request.id.clone();
        // Held by the task itself: it may begin after the connection has ended. The table that holds the task is
        // emptied when that happens.
        let running = Rc::clone(&self.0);
        let is_unwanted = Rc::new(Cell::new(false));
        let is_left = Rc::clone(&is_unwanted);
        let task = tokio::task::spawn_local(async move {
            let Ok(_read) = running.read_turn(method).await else { return };
            let answer = running.answer(request, method, workspace).await;
            // It counts as in flight until there is room for its answer: what waits unread is bounded.
            let is_room = running.outgoing.room_for(answer.text.len()).await.is_ok();
            if is_left.get() {
                return;
            }
            // Out of the table before the answer is out: the client may use the id again at once.
            running.forget(&answer.id);
            let is_sent = is_room && running.outgoing.push(answer.text).is_ok();
            if let Some(stream) = answer.stream
                && is_sent
            {
                stream.start();
            }
        });
        self.0.bytes.set(self.0.bytes.get().saturating_add(bytes));
        let mutates = method.facts().mutates;
        self.0.requests.borrow_mut().insert(id, Running { task, bytes, mutates, is_unwanted });
    }

    async fn cancel(&self, method: &str, params: &RawValue) -> Result<(), Gone> {
        #[derive(Deserialize)]
        struct CancelRequest {
            id: WireId,
        }
        match method {
            "rpc.cancel" => {
                let Ok(cancel) = serde_json::from_str::<CancelRequest>(params.get()) else { return Ok(()) };
                let Some(running) = self.0.forget(&cancel.id) else { return Ok(()) };
                running.leave(&self.0.detached);
                let error = RpcError::Interrupted { message: "the client cancelled the request".into() };
                self.0.outgoing.send(reply::error(Some(&cancel.id), &error)).await
            }
            "stream.cancel" => {
                let Ok(cancel) = serde_json::from_str::<StreamCancel>(params.get()) else { return Ok(()) };
                let Some(task) = self.0.streams.borrow_mut().remove(&cancel.subscription) else {
                    return Ok(());
                };
                task.abort();
                self.0.outgoing.send(reply::end(&cancel.subscription, StreamEndReason::Cancelled, None)).await
            }
            other => {
                tracing::debug!(method = other, "notification.ignored");
                Ok(())
            }
        }
    }
}

struct Answer {
    id: WireId,
    text: String,
    stream: Option<OpenedStream>,
}

/// A stream whose first item must not overtake the answer that names it. Dropped unstarted, the stream ends.
struct OpenedStream(tokio::sync::oneshot::Sender<()>);

impl OpenedStream {
    fn start(self) {
        // The stream's task is gone only when the whole connection is.
        if self.0.send(()).is_err() {
            tracing::debug!("stream.unstarted");
        }
    }
}

impl Shared {
    fn forget(&self, id: &WireId) -> Option<Running> {
        let running = self.requests.borrow_mut().remove(id)?;
        self.bytes.set(self.bytes.get().saturating_sub(running.bytes));
        Some(running)
    }

    /// Waits until a read may begin; what changes something, and a stream, whose answer is small, begin at once. The
    /// turn is kept until the answer is queued.
    async fn read_turn(&self, method: Method) -> Result<Option<SemaphorePermit<'_>>, Gone> {
        let facts = method.facts();
        if facts.mutates || facts.streams {
            return Ok(None);
        }
        self.reads.acquire().await.map(Some).map_err(|_closed| Gone)
    }

    async fn answer(
        self: &Rc<Self>,
        request: RequestFrame,
        method: Method,
        workspace: Option<WorkspaceId>,
    ) -> Answer {
        let RequestFrame { id, params, .. } = request;
        let work = async {
            let called = Called { method, params, workspace };
            if method.facts().streams {
                self.open_stream(called).await.map(|(json, stream)| (json, Some(stream)))
            } else {
                self.dispatch.call(called).await.map(|json| (json, None))
            }
        };
        // A panic of one call is that call's failure.
        let outcome = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_panic| {
            tracing::error!(method = method.name(), "call.panicked");
            let message = format!("{} failed inside the server; its log says where", method.name());
            Err(Failure::Rpc(RpcError::InternalError { message }))
        });
        let (text, stream) = match outcome {
            Ok((json, stream)) => (reply::result(&id, &json), stream),
            Err(Failure::Rpc(error)) => (reply::error(Some(&id), &error), None),
            Err(Failure::Close(code, reason)) => {
                let error = RpcError::InvalidRequest { message: reason.clone() };
                self.outgoing.close(code, &reason);
                (reply::error(Some(&id), &error), None)
            }
        };
        Answer { id, text, stream }
    }

    async fn open_stream(self: &Rc<Self>, called: Called) -> Result<(String, OpenedStream), Failure> {
        let mut batches = self.dispatch.subscribe(called).await?;
        if self.streams.borrow().len() >= SUBSCRIPTIONS {
            // Others were opened while this one was.
            return Err(subscriptions_exceeded().into());
        }
        let n = self.next_subscription.replace(self.next_subscription.get().saturating_add(1));
        let subscription = SubscriptionId::parse(format!("s{n}"))
            .map_err(|error| RpcError::InternalError { message: error.to_string() })?;
        let (opened, start) = tokio::sync::oneshot::channel::<()>();
        let shared = Rc::downgrade(self);
        let id = subscription.clone();
        let outgoing = self.outgoing.clone();
        let task = tokio::task::spawn_local(async move {
            let ended = match start.await {
                Ok(()) => follow(&outgoing, &id, &mut *batches).await,
                Err(_unstarted) => Err(Gone),
            };
            if let Some(shared) = Weak::upgrade(&shared) {
                shared.streams.borrow_mut().remove(&id);
            }
            if let Ok(text) = ended
                && outgoing.send(text).await.is_err()
            {
                tracing::debug!("stream.end_unread");
            }
        });
        self.streams.borrow_mut().insert(subscription.clone(), task);
        Ok((format!("{{\"subscription\":\"{subscription}\"}}"), OpenedStream(opened)))
    }
}

/// Pulls one batch once there is one and the socket has room. One stream of a connection at a time holds a batch,
/// the others hold a cursor; the turn is kept until the batch is queued.
async fn pull<'a>(
    outgoing: &'a Outgoing,
    batches: &mut dyn super::dispatch::Batches,
) -> Result<(tokio::sync::MutexGuard<'a, ()>, Result<Option<Vec<Arc<str>>>, RpcError>), Gone> {
    batches.ready().await;
    let turn = outgoing.pull_turn().await;
    outgoing.stream_room().await?;
    Ok((turn, batches.take().await))
}

/// Pulls batches as the socket takes them; returns the end to be told.
async fn follow(
    outgoing: &Outgoing,
    id: &SubscriptionId,
    batches: &mut dyn super::dispatch::Batches,
) -> Result<String, Gone> {
    loop {
        let (turn, next) = match AssertUnwindSafe(pull(outgoing, batches)).catch_unwind().await {
            Ok(Ok((turn, next))) => (Some(turn), next),
            Ok(Err(gone)) => return Err(gone),
            Err(_panic) => {
                tracing::error!("stream.panicked");
                let message = "the stream failed inside the server".to_owned();
                (None, Err(RpcError::InternalError { message }))
            }
        };
        match next {
            Ok(Some(batch)) if batch.is_empty() => {}
            Ok(Some(batch)) => outgoing.send(reply::items(id, &batch)).await?,
            Ok(None) => return Ok(reply::end(id, StreamEndReason::Deleted, None)),
            Err(error) => return Ok(reply::end(id, StreamEndReason::Failed, Some(&error))),
        }
        drop(turn);
    }
}

fn subscriptions_exceeded() -> RpcError {
    limit_exceeded("subscriptions", SUBSCRIPTIONS, "streams are open on this connection")
}

fn limit_exceeded(limit: &str, max: usize, what: &str) -> RpcError {
    RpcError::LimitExceeded {
        message: format!("{max} {what}: wait for answers, or open another connection"),
        limit: limit.to_owned(),
        max: u64::try_from(max).unwrap_or(u64::MAX),
    }
}

fn unknown_method(name: &str) -> String {
    let short: String = name.chars().take(80).collect();
    let nearest = Method::ALL
        .iter()
        .map(|method| (strsim::jaro_winkler(method.name(), &short), method.name()))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((closeness, nearest)) if closeness > 0.8 => {
            format!("there is no method {short:?}; the nearest is {nearest:?}")
        }
        _ => format!("there is no method {short:?}"),
    }
}

/// The workspace of a request. A malformed one is refused also where none is needed.
fn parse_workspace(text: Option<&str>, is_needed: bool) -> Result<Option<WorkspaceId>, RpcError> {
    match text {
        Some(text) => WorkspaceId::parse(text).map(Some).map_err(|error| RpcError::WorkspaceHeaderError {
            message: format!("meta.workspace is invalid: {error}"),
        }),
        None if is_needed => Err(RpcError::WorkspaceHeaderError {
            message: "meta.workspace is missing: send the SHA-256 of the working directory".into(),
        }),
        None => Ok(None),
    }
}
