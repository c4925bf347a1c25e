//! Owns the calls that change something and whose connection is gone or who were cancelled: what was read is done,
//! whoever asked for it. Bounded in time, number and bytes; the end of the server waits for them.
//! Never answers anybody. Tested below and in `socket_tests.rs`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// How long such a call may take. It covers a write behind a busy store; a prompt that was stored long ago and only
/// waits for the end of its turn stops waiting then.
pub(crate) const DETACHED: Duration = Duration::from_secs(5);
/// Such calls at once. Beyond it: the one detached longest is given up, most likely one that only waits.
pub(crate) const DETACHED_CALLS: usize = 1_024;
/// Bytes of their requests, twice what one connection may have in flight. Beyond it: as above.
pub(crate) const DETACHED_BYTES: usize = 64 * 1024 * 1024;

struct Kept {
    number: u64,
    bytes: usize,
    task: AbortHandle,
}

#[derive(Default)]
struct Table {
    kept: VecDeque<Kept>,
    bytes: usize,
    next: u64,
}

/// The detached calls of a server.
pub(crate) struct Detached {
    table: Mutex<Table>,
    n_running: watch::Sender<usize>,
}

impl Detached {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { table: Mutex::default(), n_running: watch::Sender::new(0) }
    }

    /// Lets `task` run to its end within the bounds. Only on the thread that serves sockets.
    pub(crate) fn keep(self: &Arc<Self>, mut task: JoinHandle<()>, bytes: usize) {
        if task.is_finished() {
            return;
        }
        let number = self.enter(task.abort_handle(), bytes);
        let this = Arc::clone(self);
        tokio::task::spawn_local(async move {
            // An aborted one has left its place to another.
            if tokio::time::timeout(DETACHED, &mut task).await.is_err() {
                tracing::debug!("call.given_up");
                task.abort();
            }
            this.leave(number);
        });
    }

    /// Returns once none is left.
    pub(crate) async fn none(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let reached = self.n_running.subscribe().wait_for(|n_running| *n_running == 0).await.is_ok();
        debug_assert!(reached, "the sender outlives the wait");
    }

    fn enter(&self, task: AbortHandle, bytes: usize) -> u64 {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let number = table.next;
        table.next = table.next.wrapping_add(1);
        table.bytes = table.bytes.saturating_add(bytes);
        table.kept.push_back(Kept { number, bytes, task });
        while table.kept.len() > DETACHED_CALLS || (table.bytes > DETACHED_BYTES && table.kept.len() > 1) {
            let Some(oldest) = table.kept.pop_front() else { break };
            table.bytes = table.bytes.saturating_sub(oldest.bytes);
            tracing::warn!("call.displaced");
            oldest.task.abort();
        }
        self.n_running.send_replace(table.kept.len());
        number
    }

    fn leave(&self, number: u64) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = table.kept.iter().position(|kept| kept.number == number)
            && let Some(left) = table.kept.remove(place)
        {
            table.bytes = table.bytes.saturating_sub(left.bytes);
        }
        self.n_running.send_replace(table.kept.len());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local};
    use tokio::time::{Instant, sleep};

    use super::*;

    /// Counts when the task that holds it ends, however it ends.
    struct Ending(Rc<Cell<usize>>);

    impl Drop for Ending {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_its_time_is_waited_for_and_one_that_only_waits_is_not() {
        let set = LocalSet::new();
        set.run_until(async {
            let detached = Arc::new(Detached::new());
            let done = Rc::new(Cell::new(false));
            let slow = Rc::clone(&done);
            detached.keep(
                spawn_local(async move {
                    sleep(Duration::from_secs(4)).await;
                    slow.set(true);
                }),
                1,
            );
            let began = Instant::now();
            detached.none().await;
            assert_eq!((done.get(), began.elapsed()), (true, Duration::from_secs(4)));
            detached.keep(spawn_local(std::future::pending()), 1);
            detached.none().await;
            assert_eq!(began.elapsed(), Duration::from_secs(4) + DETACHED);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_its_bounds_the_oldest_is_given_up() {
        let set = LocalSet::new();
        set.run_until(async {
            for (n_calls, bytes, n_ended) in [(DETACHED_CALLS + 3, 1, 3), (5, DETACHED_BYTES / 2, 3)] {
                let detached = Arc::new(Detached::new());
                let ended = Rc::new(Cell::new(0));
                for _ in 0..n_calls {
                    let ending = Ending(Rc::clone(&ended));
                    let waits = async move {
                        let _ending = ending;
                        std::future::pending().await
                    };
                    detached.keep(spawn_local(waits), bytes);
                }
                // The clock stands still until nothing else is to be done.
                sleep(Duration::from_millis(1)).await;
                assert_eq!(ended.get(), n_ended, "{n_calls} of {bytes} bytes");
                detached.none().await;
            }
        })
        .await;
    }
}
