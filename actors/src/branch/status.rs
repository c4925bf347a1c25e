//! Owns what an operator sees of an activation, kept where it can be read without asking the actor.
//! Tested end to end through `actor.list`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gent_protocol::ActorState;

/// Holds of extensions, and of hooks that have not ended. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct HoldCounter(Arc<AtomicUsize>);

/// One hold; given back when dropped.
#[derive(Debug)]
pub(crate) struct Hold(HoldCounter);

impl HoldCounter {
    pub(crate) fn hold(&self) -> Hold {
        self.0.fetch_add(1, Ordering::AcqRel);
        Hold(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What an activation shows. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct StatusCell(Arc<Mutex<Status>>);

/// See [`StatusCell`].
#[derive(Debug, Clone)]
pub(crate) struct Status {
    pub(crate) state: ActorState,
    pub(crate) since: Duration,
    pub(crate) epoch: i64,
    pub(crate) has_turn: bool,
    pub(crate) waiters: usize,
    pub(crate) held: usize,
    pub(crate) attempts: Option<u32>,
    pub(crate) waiting_for: Option<String>,
    pub(crate) last_error: Option<String>,
}

impl StatusCell {
    pub(crate) fn new(now: Duration) -> Self {
        Self(Arc::new(Mutex::new(Status {
            state: ActorState::Opening,
            since: now,
            epoch: 0,
            has_turn: false,
            waiters: 0,
            held: 0,
            attempts: None,
            waiting_for: None,
            last_error: None,
        })))
    }

    pub(crate) fn read(&self) -> Status {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Shows another state, since now.
    pub(crate) fn enter(&self, state: ActorState, now: Duration) {
        self.change(|status| {
            if status.state != state {
                status.state = state;
                status.since = now;
            }
        });
    }
}

impl Status {
    /// What keeps the activation in memory.
    pub(crate) fn holds(&self) -> Vec<String> {
        let mut holds = Vec::new();
        if self.state == ActorState::Opening {
            holds.push("opening".to_owned());
        }
        if self.has_turn {
            holds.push("turn".to_owned());
        }
        if self.held > 0 {
            holds.push(format!("{} of extensions and hooks", self.held));
        }
        if self.waiters > 0 {
            holds.push(format!("{} callers of message.send", self.waiters));
        }
        holds
    }
}
