//! Owns the order of one activation's writes: one in flight, control before step before delta, each fenced by
//! the activation's epoch. Never retries. Tested below.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use gent_storage::{BranchFence, StoreError, WriteTxn, fence_check};
use tokio::sync::oneshot;

use crate::store::StoreHandle;

/// Which write goes first when several wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Decisions of the actor.
    Control = 0,
    /// Steps of the turn.
    Step = 1,
    /// Text on its way.
    Delta = 2,
}

/// Writes of one activation. Clones share the order.
#[derive(Clone)]
pub(crate) struct BranchWriter {
    store: StoreHandle,
    fence: BranchFence,
    gate: Gate,
}

impl BranchWriter {
    pub(crate) fn new(store: StoreHandle, fence: BranchFence) -> Self {
        Self { store, fence, gate: Gate::default() }
    }

    pub(crate) fn store(&self) -> &StoreHandle {
        &self.store
    }

    /// Runs a named write behind the fence. Dropping the future does not take it back.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        rank: Rank,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _turn = self.gate.enter(rank).await;
        let fence = self.fence.clone();
        self.store
            .write(name, move |txn| {
                fence_check(txn, &fence)?;
                write(txn)
            })
            .await
    }
}

#[derive(Clone, Default)]
struct Gate(Arc<Mutex<Line>>);

#[derive(Default)]
struct Line {
    is_taken: bool,
    waiting: [VecDeque<oneshot::Sender<Turn>>; 3],
}

/// The right to write, handed on when dropped.
struct Turn {
    gate: Gate,
}

impl Gate {
    fn line(&self) -> std::sync::MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter(&self, rank: Rank) -> Turn {
        let called = {
            let mut line = self.line();
            if !line.is_taken {
                line.is_taken = true;
                return Turn { gate: self.clone() };
            }
            let (call, called) = oneshot::channel();
            if let Some(waiting) = line.waiting.get_mut(rank as usize) {
                waiting.push_back(call);
            }
            called
        };
        match called.await {
            Ok(turn) => turn,
            // The line outlives its waiters: this is not reached, and a turn of one's own is a safe answer.
            Err(_) => Turn { gate: self.clone() },
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut line = self.gate.line();
            let next = line.waiting.iter_mut().find_map(VecDeque::pop_front);
            line.is_taken = next.is_some();
            next
        };
        if let Some(next) = next {
            // Where the waiter is gone the turn comes back, and dropping it hands it on.
            drop(next.send(Turn { gate: self.gate.clone() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_decision_goes_before_a_step_and_a_step_before_a_delta() {
        let gate = Gate::default();
        let first = gate.enter(Rank::Delta).await;
        let mut delta = Box::pin(gate.enter(Rank::Delta));
        let mut step = Box::pin(gate.enter(Rank::Step));
        let mut control = Box::pin(gate.enter(Rank::Control));
        assert!((&mut delta).now_or_never().is_none());
        assert!((&mut step).now_or_never().is_none());
        assert!((&mut control).now_or_never().is_none());
        drop(first);
        let control = (&mut control).now_or_never().expect("control is next");
        assert!((&mut step).now_or_never().is_none());
        drop(control);
        let step = (&mut step).now_or_never().expect("the step is next");
        drop(step);
        assert!((&mut delta).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_waiter_that_is_gone_does_not_keep_the_line() {
        let gate = Gate::default();
        let first = gate.enter(Rank::Step).await;
        let mut gone = Box::pin(gate.enter(Rank::Control));
        assert!((&mut gone).now_or_never().is_none());
        drop(gone);
        drop(first);
        assert!(gate.enter(Rank::Delta).now_or_never().is_some());
    }
}
