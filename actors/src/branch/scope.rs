//! Owns the scope of one activation: every task of it, and the one token that ends them all.
//! The next activation of the branch opens only when the scope of this one is empty.
//! Tested below.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One activation's tasks. Clones share it.
#[derive(Clone)]
pub(crate) struct Scope {
    token: CancellationToken,
    tasks: TaskTracker,
    io: Handle,
}

impl Scope {
    /// A scope whose tasks run on `io`.
    pub(crate) fn new(io: Handle) -> Self {
        Self { token: CancellationToken::new(), tasks: TaskTracker::new(), io }
    }

    /// Starts a task that is dropped when the scope is closed. `None` in its result says that it was.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let token = self.token.clone();
        let task = async move { token.run_until_cancelled_owned(task).await };
        self.tasks.spawn_on(task, &self.io)
    }

    /// Counts a task that ends by itself, such as one that waits for a process to die.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Ends every task at its next await.
    pub(crate) fn close(&self) {
        self.token.cancel();
        self.tasks.close();
    }

    /// Every task is gone.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until every task is gone; false when `limit` is over first.
    pub(crate) async fn emptied(&self, limit: Duration) -> bool {
        self.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closing_a_scope_ends_its_tasks_and_then_it_is_empty() {
        let scope = Scope::new(Handle::current());
        let task = scope.spawn(std::future::pending::<()>());
        assert!(scope.emptied(Duration::from_secs(5)).await);
        assert_eq!(task.await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_seen() {
        let scope = Scope::new(Handle::current());
        let stuck = scope.tasks().track_future(std::future::pending::<()>());
        assert!(!scope.emptied(Duration::from_secs(10)).await);
        drop(stuck);
    }
}
