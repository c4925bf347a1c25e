//! Owns the lock that keeps two calls from writing one file at once.
//! Never touches the file. Tested in `actors`.

use std::path::Path;

use futures_util::future::BoxFuture;
use tokio::sync::OwnedMutexGuard;

/// Held while a file is read, changed and written.
pub type FileLockGuard = OwnedMutexGuard<()>;

/// Locks by path, shared by every branch of the server.
pub trait FileLock: Send + Sync {
    /// Waits for the file's lock. Two paths to one file are one lock when the file exists.
    fn lock<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, FileLockGuard>;
}
