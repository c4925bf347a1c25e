//! Owns how a search is ended before it is through: by its time budget, by the stop of the call, or because
//! nobody waits for it any more. Never ends a thread: the search looks at its sign. Tested below.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use gent_extension_api::ToolError;
use tokio_util::sync::CancellationToken;

/// Why a search should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// Its time budget is used up.
    TimeIsUp,
    /// The call was stopped.
    Cancelled,
}

/// The sign a search looks at.
#[derive(Debug, Default)]
pub(super) struct Stop(AtomicU8);

impl Stop {
    const TIME_IS_UP: u8 = 1;
    const CANCELLED: u8 = 2;

    /// Why the search should end now, if it should.
    pub(super) fn reason(&self) -> Option<StopReason> {
        match self.0.load(Ordering::Relaxed) {
            Self::TIME_IS_UP => Some(StopReason::TimeIsUp),
            Self::CANCELLED => Some(StopReason::Cancelled),
            _ => None,
        }
    }

    /// True when the search should end.
    pub(super) fn is_set(&self) -> bool {
        self.reason().is_some()
    }

    fn set(&self, reason: StopReason) {
        let value = match reason {
            StopReason::TimeIsUp => Self::TIME_IS_UP,
            StopReason::Cancelled => Self::CANCELLED,
        };
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Sets the sign when the waiting side is dropped, so that no search goes on for nobody.
struct StopWhenDropped(Arc<Stop>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.set(StopReason::Cancelled);
    }
}

/// Runs `work` on a blocking thread and sets its sign when `budget` is used up or `cancelled` fires. Waits for
/// what it returns then.
pub(super) async fn run_within<T: Send + 'static>(
    budget: Duration,
    cancelled: &CancellationToken,
    work: impl FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let stop = Arc::new(Stop::default());
    let _when_dropped = StopWhenDropped(Arc::clone(&stop));
    let sign = Arc::clone(&stop);
    let mut task = tokio::task::spawn_blocking(move || work(&sign));
    let ended = tokio::select! {
        ended = &mut task => ended,
        reason = async {
            tokio::select! {
                () = cancelled.cancelled() => StopReason::Cancelled,
                () = tokio::time::sleep(budget) => StopReason::TimeIsUp,
            }
        } => {
            stop.set(reason);
            task.await
        }
    };
    ended.unwrap_or_else(|error| {
        Err(ToolError::Broken { message: format!("the search ended abnormally: {error}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for_sign(stop: &Stop) -> Result<Option<StopReason>, ToolError> {
        while !stop.is_set() {
            std::thread::yield_now();
        }
        Ok(stop.reason())
    }

    #[tokio::test]
    async fn the_time_budget_ends_a_search_and_its_result_is_kept() {
        let token = CancellationToken::new();
        let reason = run_within(Duration::from_millis(1), &token, wait_for_sign).await;
        assert_eq!(reason, Ok(Some(StopReason::TimeIsUp)));
    }

    #[tokio::test]
    async fn a_stopped_call_ends_its_search() {
        let token = CancellationToken::new();
        token.cancel();
        let reason = run_within(Duration::MAX, &token, wait_for_sign).await;
        assert_eq!(reason, Ok(Some(StopReason::Cancelled)));
    }

    #[tokio::test]
    async fn a_search_that_nobody_waits_for_ends() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let token = CancellationToken::new();
        let running = run_within(Duration::MAX, &token, move |stop| {
            let reason = wait_for_sign(stop);
            send.send(reason).ok();
            Ok(())
        });
        tokio::select! {
            biased;
            _ = running => panic!("nothing ends it"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(receive.await.unwrap(), Ok(Some(StopReason::Cancelled)));
    }
}
