//! Owns the small runtime of the commands that talk to a server: one thread, gone without waiting for anything.
//! Tested end to end.

use super::failure::Failure;

/// Runs a command's future on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    // A write to a reader that is stuck must not keep the process.
    runtime.shutdown_background();
    outcome
}
