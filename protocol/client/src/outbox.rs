//! Owns what a connection's callers and its task share: frames to send, calls that wait, open streams, the end.
//! Bounded: a waiting call and its cancel share one permit of `REQUESTS_IN_FLIGHT`; a stream has one cancel.
//! Never awaits, never touches a socket. Tested in `protocol/client/tests/it`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gent_protocol::{StreamEnd, SubscriptionId};
use serde_json::value::RawValue;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};

use crate::{CallError, CloseReason};

/// What a stream hands to its reader.
#[derive(Debug)]
pub(crate) enum StreamPart {
    Items(Vec<Box<RawValue>>),
    End(StreamEnd),
}

/// What a call waits for.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// One answer.
    Answer { reply: oneshot::Sender<Result<Box<RawValue>, CallError>> },
    /// The id of a new stream, whose items may follow in the very next frame.
    Stream { reply: oneshot::Sender<Result<SubscriptionId, CallError>>, items: mpsc::Sender<StreamPart> },
    /// Nobody waits any more for the id of a stream: it is cancelled as soon as it is known.
    Abandoned,
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) reason: CloseReason,
    pub(crate) text: String,
}

impl Ended {
    pub(crate) fn error(&self) -> CallError {
        CallError::Closed { reason: self.reason.clone(), text: self.text.clone() }
    }
}

struct Outgoing {
    text: String,
    // A cancel keeps the permit of its call until it is written, so that abandoned calls stay bounded.
    permit: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct State {
    last_id: i64,
    waiting: HashMap<i64, (Waiter, OwnedSemaphorePermit)>,
    streams: HashMap<SubscriptionId, mpsc::Sender<StreamPart>>,
    outgoing: VecDeque<Outgoing>,
    leaving: bool,
    ended: Option<Ended>,
}

/// Shared by the handles of one connection and the task that owns its socket.
#[derive(Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    wake: Notify,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files a request; `encode` gets its id.
    pub(crate) fn file(
        &self,
        waiter: Waiter,
        permit: OwnedSemaphorePermit,
        encode: impl FnOnce(i64) -> String,
    ) -> Result<i64, CallError> {
        let mut state = self.state();
        if let Some(ended) = &state.ended {
            return Err(ended.error());
        }
        state.last_id += 1;
        let id = state.last_id;
        state.outgoing.push_back(Outgoing { text: encode(id), permit: None });
        state.waiting.insert(id, (waiter, permit));
        drop(state);
        self.wake.notify_one();
        Ok(id)
    }

    /// Gives a call up: its answer is no longer waited for and the server is told.
    pub(crate) fn abandon(&self, id: i64) {
        let mut state = self.state();
        let Some((waiter, permit)) = state.waiting.remove(&id) else { return };
        let permit = match waiter {
            Waiter::Answer { .. } => Some(permit),
            Waiter::Stream { .. } | Waiter::Abandoned => {
                state.waiting.insert(id, (Waiter::Abandoned, permit));
                None
            }
        };
        if state.ended.is_none() {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"rpc.cancel","params":{{"id":{id}}}}}"#);
            state.outgoing.push_back(Outgoing { text, permit });
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Stops a stream.
    pub(crate) fn unsubscribe(&self, subscription: &SubscriptionId) {
        let mut state = self.state();
        if state.streams.remove(subscription).is_none() {
            return;
        }
        push_stream_cancel(&mut state, subscription);
        drop(state);
        self.wake.notify_one();
    }

    /// Takes the waiter of an answer.
    pub(crate) fn take(&self, id: i64) -> Option<Waiter> {
        self.state().waiting.remove(&id).map(|(waiter, _permit)| waiter)
    }

    /// Opens a stream whose id has become known.
    pub(crate) fn open(&self, subscription: SubscriptionId, items: mpsc::Sender<StreamPart>) {
        self.state().streams.insert(subscription, items);
    }

    /// Stops a stream that nobody waits for.
    pub(crate) fn refuse(&self, subscription: &SubscriptionId) {
        push_stream_cancel(&mut self.state(), subscription);
        self.wake.notify_one();
    }

    /// The reader of a stream.
    pub(crate) fn stream(&self, subscription: &SubscriptionId) -> Option<mpsc::Sender<StreamPart>> {
        self.state().streams.get(subscription).cloned()
    }

    /// Forgets a stream that the server ended.
    pub(crate) fn close_stream(&self, subscription: &SubscriptionId) -> Option<mpsc::Sender<StreamPart>> {
        self.state().streams.remove(subscription)
    }

    /// Asks the task to say goodbye.
    pub(crate) fn leave(&self) {
        self.state().leaving = true;
        self.wake.notify_one();
    }

    /// The connection is over: everybody who waits learns why.
    pub(crate) fn end(&self, ended: Ended) {
        let mut state = self.state();
        if state.ended.is_none() {
            state.ended = Some(ended);
        }
        state.waiting.clear();
        state.streams.clear();
        state.outgoing.clear();
    }

    /// How it ended, once it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.state().ended.clone()
    }

    /// The next frame to send; none when this side leaves and everything is sent.
    pub(crate) async fn next(&self) -> Option<String> {
        loop {
            if let Some(next) = self.poll_next() {
                return next;
            }
            self.wake.notified().await;
        }
    }

    /// `Some(None)` when this side leaves; `None` when nothing is to be sent now.
    pub(crate) fn poll_next(&self) -> Option<Option<String>> {
        let mut state = self.state();
        match state.outgoing.pop_front() {
            Some(Outgoing { text, permit }) => {
                drop(permit);
                Some(Some(text))
            }
            None if state.leaving => Some(None),
            None => None,
        }
    }
}

fn push_stream_cancel(state: &mut State, subscription: &SubscriptionId) {
    if state.ended.is_some() {
        return;
    }
    let params = serde_json::json!({ "subscription": subscription });
    let text = format!(r#"{{"jsonrpc":"2.0","method":"stream.cancel","params":{params}}}"#);
    state.outgoing.push_back(Outgoing { text, permit: None });
}
