//! Owns a private server for one run: its own data directory, gone with its client however that ends.
//! Never touches the user's own data directory. Tested in `server/tests`.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gent_client::{Attach, Attached, find_server};
use tokio::process::{Child, ChildStdin};
use tokio::time::{Instant, timeout};

use crate::background::{Readiness, StartError, read_readiness, spawn};
use crate::entry::Ownership;
use crate::{EntryError, Environment, Paths};

/// How the private directories are named.
const PREFIX: &str = "gent-isolated-";
/// How long a private server may take to start.
const START: Duration = Duration::from_secs(20);
/// How long it may take to end: its drain and a little more.
const END: Duration = Duration::from_secs(15);
/// Age from which a directory that nobody holds is a leftover and not a start in progress.
const LEFT_OVER: Duration = Duration::from_secs(60);

/// A private server. Dropping it ends the server, which removes its directory; `end` also waits for that.
#[derive(Debug)]
pub struct Isolated {
    attached: Attached,
    data_dir: PathBuf,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Isolated {
    /// How to reach it.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// Its data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Ends the server and removes its directory.
    pub async fn end(mut self) {
        // Its standard input ends: that is the order to go.
        self.stdin = None;
        if timeout(END, self.child.wait()).await.is_err()
            && let Err(error) = self.child.kill().await
        {
            tracing::debug!(%error, "isolated.kill_failed");
        }
        remove(&self.data_dir);
    }
}

/// Starts a private server on a directory of its own under the system's temporary directory, after sweeping what
/// killed ones left there.
pub async fn start_isolated(paths: &Paths, environment: &Environment) -> Result<Isolated, StartError> {
    let place = environment.var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    sweep(&place);
    let data_dir = place.join(format!("{PREFIX}{}", crate::nonce()));
    DirBuilder::new().mode(0o700).create(&data_dir).map_err(|source| EntryError::File {
        path: data_dir.clone(),
        doing: "made",
        source,
    })?;
    let started = start(&paths.with_data_dir(data_dir.clone()), environment).await;
    if started.is_err() {
        remove(&data_dir);
    }
    started
}

async fn start(paths: &Paths, environment: &Environment) -> Result<Isolated, StartError> {
    let mut child = spawn(paths, environment, &["--isolate"], Stdio::piped())?;
    let stdin = child.stdin.take();
    match read_readiness(&mut child, paths, Instant::now() + START).await? {
        Readiness::Ready { .. } => {}
        Readiness::Failed { error, .. } => return Err(StartError::Refused { message: error }),
    }
    match find_server(paths.data_dir(), &crate::nonce()).await? {
        Attach::Attached(attached) => {
            Ok(Isolated { attached: *attached, data_dir: paths.data_dir().to_path_buf(), child, stdin })
        }
        Attach::NoServer
        | Attach::Silent { .. }
        | Attach::Stuck { .. }
        | Attach::WrongProof { .. }
        | Attach::OtherMajor { .. } => {
            Err(StartError::Died { how: "after it was ready".into(), log: paths.log() })
        }
    }
}

/// Removes the directories of private servers that were killed together with their clients.
fn sweep(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_left_over(&entry.path(), LEFT_OVER) {
            remove(&entry.path());
        }
    }
}

fn is_left_over(directory: &Path, age: Duration) -> bool {
    let Ok(facts) = std::fs::symlink_metadata(directory) else { return false };
    let is_ours = facts.is_dir() && facts.uid() == rustix::process::geteuid().as_raw();
    let is_old = facts.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|passed| passed >= age);
    is_ours && is_old && Ownership::take(directory, &directory.join("gent.lock"), None).is_ok()
}

/// Removes a private directory; what cannot be removed is left to the next sweep.
pub(crate) fn remove(directory: &Path) {
    if let Err(error) = std::fs::remove_dir_all(directory)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::debug!(%error, "isolated.stays");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_whose_server_lives_is_no_leftover() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("gent-isolated-1");
        std::fs::create_dir(&directory).unwrap();
        let owner = Ownership::take(&directory, &directory.join("gent.lock"), None).unwrap();
        assert!(!is_left_over(&directory, Duration::ZERO));
        drop(owner);
        assert!(is_left_over(&directory, Duration::ZERO));
        assert!(!is_left_over(&directory, LEFT_OVER), "a start in progress");
    }

    #[test]
    fn a_link_of_that_name_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("gent-isolated-2");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(!is_left_over(&link, Duration::ZERO));
    }
}
