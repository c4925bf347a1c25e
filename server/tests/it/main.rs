//! Tests the life of serving processes with the real program: who owns a data directory, who attaches, what a stale or
//! foreign entry leads to, how a server ends. Also what builds the program for the harness of `gent-e2e`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "helpers of tests fail as tests do, and start the program itself"
)]

mod isolated;
mod ownership;
mod stopping;
mod takeover;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gent_server::{Environment, Paths};
use serde_json::Value;

/// A data directory of a test, and the environment of its clients. What still runs there at the end is stopped.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn environment(&self) -> Environment {
        let variables = [
            ("HOME", self.dir.path().to_path_buf()),
            ("GENT_DATA_DIR", self.data_dir()),
            ("TMPDIR", self.dir.path().to_path_buf()),
            ("PATH", PathBuf::from("/usr/bin:/bin")),
        ];
        Environment::of(variables.map(|(n, v)| (n.into(), v.into())), self.dir.path(), program())
    }

    fn paths(&self) -> Paths {
        Paths::find(&self.environment(), None).unwrap()
    }

    /// `gent serve` with further arguments.
    fn serve(&self, arguments: &[&str]) -> Serving {
        let mut command = Command::new(program());
        command.arg("serve").args(arguments).env_clear().env("HOME", self.dir.path());
        command.env("GENT_DATA_DIR", self.data_dir());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Serving { child: child.unwrap() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let paths = self.paths();
        let entry = gent_client::read_entry(paths.data_dir()).ok().flatten();
        if entry.is_none_or(|entry| entry.pid == std::process::id()) {
            return;
        }
        // On a thread of its own: the test may be inside a runtime.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                drop(runtime.block_on(gent_server::stop_server(&paths)));
            });
        });
    }
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_gent"))
}

/// A server in the foreground; killed when dropped.
struct Serving {
    child: Child,
}

impl Serving {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The first line on standard output.
    fn first_line(&mut self) -> Value {
        let mut line = String::new();
        let stdout = self.child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no line but {line:?}: {}", self.stderr()))
    }

    fn stderr(&mut self) -> String {
        std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
