//! Owns watching a server's memory while something is done to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

use crate::harness::private_dirty_kib;

/// How often memory is read: each reading costs the watched process a walk over its pages.
const READ_EVERY: Duration = Duration::from_millis(50);

/// A watch that runs until it is dropped.
pub(crate) struct Watch {
    most: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    pub(crate) fn start(pid: u32) -> Self {
        let most = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&most);
        let task = tokio::spawn(async move {
            let mut again = tokio::time::interval(READ_EVERY);
            loop {
                again.tick().await;
                let Ok(figure) = private_dirty_kib(pid) else { return };
                seen.fetch_max(figure, Ordering::Relaxed);
            }
        });
        Self { most, task }
    }

    /// The most that was seen.
    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

/// Reads until memory is at most `limit`, for ten seconds at most, and returns the last reading.
pub(crate) async fn settled(pid: u32, limit: u64) -> Result<u64> {
    let mut again = tokio::time::interval(Duration::from_millis(250));
    let mut last = private_dirty_kib(pid)?;
    for _ in 0..40 {
        if last <= limit {
            break;
        }
        again.tick().await;
        last = private_dirty_kib(pid)?;
    }
    Ok(last)
}
