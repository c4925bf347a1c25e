//! Owns the private place of a test: a data directory, a home, a working directory, and the built program.
//! Never touches the user's own. The place is removed with the value unless `GENT_TEST_KEEP` is set.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use gent_protocol::WorkspaceId;
use tempfile::TempDir;

/// The directories of one test.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    // Removes the directory when dropped.
    _guard: Option<TempDir>,
}

impl Place {
    /// A new place in the system's temporary directory.
    pub fn new() -> Result<Self> {
        Self::inside(&std::env::temp_dir())
    }

    /// A new place in `parent`.
    pub fn inside(parent: &Path) -> Result<Self> {
        std::fs::create_dir_all(parent)?;
        let guard = tempfile::Builder::new().prefix("gent-test-").tempdir_in(parent)?;
        let root = guard.path().canonicalize()?;
        for name in ["home", "work"] {
            std::fs::create_dir_all(root.join(name))?;
        }
        if std::env::var_os("GENT_TEST_KEEP").is_some() {
            return Ok(Self { root: guard.keep().canonicalize()?, _guard: None });
        }
        Ok(Self { root, _guard: Some(guard) })
    }

    /// The place itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The data directory. The server makes it.
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// HOME of the server and of command lines.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The working directory of sessions and command lines.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The workspace of the working directory.
    pub fn workspace(&self) -> WorkspaceId {
        WorkspaceId::for_directory(&self.work())
    }

    /// Writes a file of the working directory.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.work().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Reads a file of the working directory; empty when it is not there.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }
}

impl Drop for Place {
    /// A server that a command line started in the background does not outlive the test's place.
    fn drop(&mut self) {
        let Ok(Some(entry)) = gent_client::read_entry(&self.data()) else { return };
        let program = std::fs::read_link(format!("/proc/{}/exe", entry.pid));
        if program.is_ok_and(|program| program.ends_with("gent")) {
            let _gone = super::send_signal(entry.pid, super::Signal::KILL).is_err();
        }
    }
}

/// The program under test: `GENT_TEST_BINARY`, else `gent` in the directory of the test's own profile.
pub fn gent_binary() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("GENT_TEST_BINARY") {
        return Ok(binary.into());
    }
    let own = std::env::current_exe()?;
    let profile = own.ancestors().find(|directory| directory.join("deps").is_dir());
    let binary = profile.context("the test does not run from a target directory")?.join("gent");
    if !binary.is_file() {
        bail!("{} is not there: build it with `cargo build -p gent-server`", binary.display());
    }
    Ok(binary)
}
