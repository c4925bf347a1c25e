//! Owns the deadline of every wait. It guards against a test that hangs; it is never what a test waits for.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// How long a test waits for anything before it fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Waits for `future`, and fails with a sentence that names `what` when it does not come.
pub async fn within<T>(what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(done) => done.with_context(|| format!("while waiting for {what}")),
        Err(_elapsed) => bail!("waited {} s in vain for {what}", DEADLINE.as_secs()),
    }
}

/// Asks again and again until `ask` has an answer: only for facts that no event tells of, such as a process that is
/// gone or a branch that left memory.
pub async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let mut again = tokio::time::interval(Duration::from_millis(10));
    within(what, async {
        loop {
            again.tick().await;
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
        }
    })
    .await
}
