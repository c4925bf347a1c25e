//! Owns how a server is ended from outside: only after its proof, by a signal, and until its lock is free.
//! Never signals a process that did not prove that it is the server of this data directory.
//! Tested in `server/tests`.

use std::path::PathBuf;
use std::time::Duration;

use gent_client::{Attach, Entry, find_server};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::Paths;
use crate::entry::Ownership;

/// How long a server has to end after the signal: its drain and a little more.
const STOP: Duration = Duration::from_secs(15);
/// How often the lock is looked at; there is no event for a lock of another process.
const LOOK: Duration = Duration::from_millis(20);

/// What came of stopping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// It has ended.
    Stopped {
        /// Its process.
        pid: u32,
    },
    /// None was running.
    NotRunning,
}

/// Why a server was not stopped. Nothing was signalled unless it is still running.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The entry cannot be used.
    #[error(transparent)]
    Entry(#[from] gent_client::EntryError),
    /// What listens there is not the server of this data directory.
    #[error("what answers at {} is not the server of {}: nothing was signalled", entry.url, data_dir.display())]
    NotOurs {
        /// The entry.
        entry: Box<Entry>,
        /// The data directory.
        data_dir: PathBuf,
    },
    /// It does not answer, so it could not be proved.
    #[error("the server (pid {}) at {} does not answer and cannot be proved: end it yourself with `kill {}`", entry.pid, entry.url, entry.pid)]
    Stuck {
        /// The entry.
        entry: Box<Entry>,
    },
    /// The signal could not be sent.
    #[error("the server (pid {pid}) could not be signalled: check that it runs as you")]
    Signal {
        /// Its process.
        pid: u32,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It has not ended in time.
    #[error("the server (pid {pid}) still runs after 15 s: a second `gent server stop` ends it at once")]
    StillRunning {
        /// Its process.
        pid: u32,
    },
}

/// Ends the server of a data directory and waits until its lock is free.
pub async fn stop_server(paths: &Paths) -> Result<Stopped, StopError> {
    let pid = match find_server(paths.data_dir(), &crate::nonce()).await? {
        Attach::Attached(attached) => attached.pid,
        // It proved itself before its version was looked at.
        Attach::OtherMajor { entry, .. } => Some(entry.pid),
        Attach::NoServer | Attach::Silent { .. } => return Ok(Stopped::NotRunning),
        Attach::Stuck { entry } => return Err(StopError::Stuck { entry: Box::new(entry) }),
        Attach::WrongProof { entry } => {
            // Nobody holds the lock: the entry is a dead server's and its port is another program's by now.
            if is_free(paths) {
                return Ok(Stopped::NotRunning);
            }
            let data_dir = paths.data_dir().to_path_buf();
            return Err(StopError::NotOurs { entry: Box::new(entry), data_dir });
        }
    };
    let Some(pid) = pid else { return Ok(Stopped::NotRunning) };
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(Stopped::NotRunning);
    };
    match kill_process(process, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(StopError::Signal { pid, source: error.into() }),
    }
    let deadline = Instant::now() + STOP;
    while !is_free(paths) {
        if Instant::now() >= deadline {
            return Err(StopError::StillRunning { pid });
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(Stopped::Stopped { pid })
}

/// Nobody holds the lock of the data directory.
pub(crate) fn is_free(paths: &Paths) -> bool {
    !paths.data_dir().exists() || Ownership::take(paths.data_dir(), &paths.lock(), None).is_ok()
}
