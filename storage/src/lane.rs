//! Owns the queues in front of the writer and of the readers: bounded, and asleep when empty.
//! Never polls: a thread that waits is woken by what arrives, and once after a while without anything, to rest.
//! Tested in `storage/tests/it/groups.rs`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::StoreError;

/// Writes, and reads, that may wait. Beyond it a caller is told at once: waiting longer would help nobody.
pub(crate) const WAITING: usize = 4096;

/// Without work for so long, a thread gives back what it keeps only for speed.
const REST: Duration = Duration::from_secs(2);

/// What can be told of the writer.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    group_micros: AtomicU64,
}

impl Gauges {
    pub(crate) fn group_took(&self, time: Duration) {
        self.group_micros.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn group_ms(&self) -> f64 {
        self.group_micros.load(Ordering::Relaxed) as f64 / 1000.0
    }
}

/// A queue with a preferred and a second rank: of the second, one at a time is taken, when the first is empty.
pub(crate) struct Lane<T> {
    waiting: Mutex<Ranks<T>>,
    arrived: Condvar,
}

struct Ranks<T> {
    first: VecDeque<T>,
    second: VecDeque<T>,
    /// Taken and not yet answered.
    taken: usize,
    closed: bool,
}

impl<T> Lane<T> {
    pub(crate) fn new() -> Self {
        let ranks = Ranks { first: VecDeque::new(), second: VecDeque::new(), taken: 0, closed: false };
        Self { waiting: Mutex::new(ranks), arrived: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Ranks<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an item, or gives it back with the reason.
    pub(crate) fn push(&self, item: T, is_first: bool) -> Result<(), (T, StoreError)> {
        let mut ranks = self.lock();
        if ranks.closed {
            return Err((item, StoreError::Closed));
        }
        if ranks.first.len() + ranks.second.len() >= WAITING {
            return Err((item, StoreError::QueueFull));
        }
        if is_first {
            ranks.first.push_back(item);
        } else {
            ranks.second.push_back(item);
        }
        drop(ranks);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for work and takes at most `most` items; none when the lane is closed and empty. Calls `at_rest` when
    /// nothing has come for a while, once.
    pub(crate) fn take(&self, most: usize, at_rest: impl FnOnce()) -> Option<VecDeque<T>> {
        let mut at_rest = Some(at_rest);
        let mut ranks = self.lock();
        ranks.taken = 0;
        loop {
            if !ranks.first.is_empty() {
                let n_taken = ranks.first.len().min(most);
                let taken: VecDeque<T> = ranks.first.drain(..n_taken).collect();
                ranks.taken = n_taken;
                return Some(taken);
            }
            if let Some(item) = ranks.second.pop_front() {
                ranks.taken = 1;
                return Some(VecDeque::from([item]));
            }
            if ranks.closed {
                return None;
            }
            if at_rest.is_none() {
                ranks = self.arrived.wait(ranks).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.arrived.wait_timeout(ranks, REST).unwrap_or_else(PoisonError::into_inner);
            ranks = waited.0;
            if waited.1.timed_out() && ranks.first.is_empty() && ranks.second.is_empty() {
                drop(ranks);
                if let Some(rest) = at_rest.take() {
                    rest();
                }
                ranks = self.lock();
            }
        }
    }

    /// Takes no more; what waits is still done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// How many wait or are being done.
    pub(crate) fn len(&self) -> usize {
        let ranks = self.lock();
        ranks.first.len() + ranks.second.len() + ranks.taken
    }
}
