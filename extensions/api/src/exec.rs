//! Owns how an extension starts a process. Every process goes through the host's spawn policy: a clean
//! environment, no terminal, no input, and an end of its whole tree when the call, the branch or the server ends.
//! Tested in `actors/src/process`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpawnPurpose {
    /// The shell tool.
    Shell,
    /// A helper of a tool, such as a listing of tracked files.
    Helper,
}

/// A process to start.
#[derive(Debug, Clone)]
pub struct SpawnRequest {
    /// What for.
    pub purpose: SpawnPurpose,
    /// The program: a path, or a name looked up in the `PATH` of the process.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Variables of this process alone: never filtered; `None` removes.
    pub environment: BTreeMap<String, Option<String>>,
    /// Wall clock; `None` is as long as the call.
    pub timeout: Option<Duration>,
    /// Bytes kept from the head of each stream, and as many from its tail.
    pub keep_bytes: usize,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// Its time was up; the tree is being ended.
    TimedOut,
    /// The call was stopped; the tree is being ended.
    Cancelled,
}

/// One stream of a process, cut in the middle where it was too long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CappedOutput {
    /// The head.
    pub head: Vec<u8>,
    /// Bytes left out between head and tail.
    pub omitted: u64,
    /// The tail; empty when nothing was left out.
    pub tail: Vec<u8>,
}

/// A process that outlived its shell. It ends with the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftRunning {
    /// Its id.
    pub pid: u32,
    /// Its name, where it could be read.
    pub name: String,
}

/// What a process left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// How it ended.
    pub end: ProcessEnd,
    /// Its standard output.
    pub stdout: CappedOutput,
    /// Its standard error.
    pub stderr: CappedOutput,
    /// What outlived it.
    pub left_running: Vec<LeftRunning>,
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such program.
    #[error("no such program: {program}")]
    NotFound {
        /// The program.
        program: String,
    },
    /// There is no such directory.
    #[error("no such directory: {}", cwd.display())]
    NoDirectory {
        /// The directory.
        cwd: PathBuf,
    },
    /// The policy or the system refused it.
    #[error("the process could not be started: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
}

/// Starting processes.
pub trait Exec: Send + Sync {
    /// Runs a process until it exits, its time is up or the call is stopped, and returns what it wrote.
    /// It returns within about 100 ms of the exit even when a child still holds the output open. Dropping the
    /// future ends the whole tree: TERM, then KILL after 3 s.
    fn run<'a>(&'a self, request: SpawnRequest) -> BoxFuture<'a, Result<ProcessOutcome, ExecError>>;
}

impl CappedOutput {
    /// The output as text, with a mark where bytes were left out. Bytes that are not UTF-8 are replaced.
    pub fn to_text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.omitted > 0 {
            text.push_str(&format!("\n[… {} bytes left out …]\n", self.omitted));
            text.push_str(&String::from_utf8_lossy(&self.tail));
        }
        text
    }
}
