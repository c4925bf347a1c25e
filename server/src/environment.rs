//! Owns what is true of the process that was started: variables, working directory, own program. Taken once at the
//! start and handed on; nothing below reads the environment again.
//! Never logs a value. Tested through `paths` and `background`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The environment of this process. `Debug` shows no values: keys of providers are among them.
#[derive(Clone)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    exe: PathBuf,
}

impl Environment {
    /// Looks at the running process. Fails where the working directory is gone or the program has no path.
    pub fn of_process() -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "this is where the working directory enters")]
        let cwd = std::env::current_dir().map_err(|error| {
            io::Error::new(error.kind(), "the working directory is gone; change to one that exists")
        })?;
        Ok(Self { variables: std::env::vars_os().collect(), cwd, exe: std::env::current_exe()? })
    }

    /// Made-up values, for tests and for a program that starts a server on another's behalf.
    pub fn of(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        cwd: impl Into<PathBuf>,
        exe: impl Into<PathBuf>,
    ) -> Self {
        Self { variables: variables.into_iter().collect(), cwd: cwd.into(), exe: exe.into() }
    }

    /// A variable that is set and not empty.
    pub fn var_os(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that is set, not empty, and text.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.var_os(name)?.to_str()
    }

    /// All variables that are text.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    /// The working directory, absolute.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The path of the running program.
    pub fn exe(&self) -> &Path {
        &self.exe
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.len())
            .field("cwd", &self.cwd)
            .field("exe", &self.exe)
            .finish()
    }
}
