//! Owns the wait of a starting server for the processes of the one before it.
//! Never ends them itself: each helper does, as soon as its server is gone. Tested in `actors/tests/process`.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How long a starting server waits: TERM, 3 s, KILL, and some for a busy machine.
pub const CHILDREN_END_LIMIT: Duration = Duration::from_secs(10);

/// Why a server cannot start yet.
#[derive(Debug, thiserror::Error)]
pub enum ChildrenRemain {
    /// Processes are still there.
    #[error(
        "commands of an earlier server still run (they hold {}); end them, then start again",
        path.display()
    )]
    StillRunning {
        /// The lock they hold.
        path: PathBuf,
    },
    /// The lock cannot be used.
    #[error("{} cannot be locked; check the rights of its directory", path.display())]
    Unusable {
        /// The lock.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Waits until no process of an earlier server is left: takes `children_lock` exclusively once, and releases
/// it. Blocks the thread for at most `limit`; the file is made where it is missing.
pub fn wait_for_children(children_lock: &Path, limit: Duration) -> Result<(), ChildrenRemain> {
    let unusable = |source| ChildrenRemain::Unusable { path: children_lock.to_path_buf(), source };
    let lock = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(children_lock)
        .map_err(unusable)?;
    match lock.try_lock() {
        Ok(()) => return Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => {}
        Err(std::fs::TryLockError::Error(source)) => return Err(unusable(source)),
    }
    // The system has no lock with a time limit. A thread that waits on ends with the lock, or with the program.
    let (sender, taken) = sync_channel(1);
    std::thread::Builder::new()
        .name("children-lock".into())
        .spawn(move || drop(sender.send(lock.lock())))
        .map_err(unusable)?;
    match taken.recv_timeout(limit) {
        Ok(outcome) => outcome.map_err(unusable),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(ChildrenRemain::StillRunning { path: children_lock.to_path_buf() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(path: &Path) -> File {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.lock_shared().unwrap();
        file
    }

    #[test]
    fn a_start_with_nothing_left_over_does_not_wait_and_leaves_the_lock_free() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("children.lock");
        wait_for_children(&path, Duration::ZERO).unwrap();
        wait_for_children(&path, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_process_that_stays_is_told_of_in_one_sentence_that_names_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("children.lock");
        let held = shared(&path);
        let error = wait_for_children(&path, Duration::from_millis(1)).unwrap_err();
        assert!(matches!(&error, ChildrenRemain::StillRunning { path: named } if *named == path));
        drop(held);
    }

    #[test]
    fn the_start_goes_on_as_soon_as_the_last_one_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("children.lock");
        let held = shared(&path);
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || wait_for_children(&path, CHILDREN_END_LIMIT)
        });
        drop(held);
        waiting.join().unwrap().unwrap();
    }
}
