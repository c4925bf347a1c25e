//! Owns what every process test stands on: a directory, a lock, a host, and a pipe with a name that tells when
//! the last process that holds it is gone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gent_actors::process::{ProcessExec, ProcessHost, ProcessScope, wait_for_children};
use gent_actors::redact::SecretSet;
use gent_extension_api::{CappedOutput, Exec, ExecError, ProcessOutcome, SpawnPurpose, SpawnRequest};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One test's world.
pub(crate) struct Bed {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) host: Arc<ProcessHost>,
    pub(crate) secrets: Arc<SecretSet>,
    pub(crate) cancelled: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// The reading end of a named pipe.
pub(crate) struct Witness {
    lines: BufReader<File>,
}

impl Bed {
    pub(crate) fn new(runtime: Handle) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("children.lock");
        let host = ProcessHost::new(std::env::current_exe().unwrap(), lock, runtime);
        let (secrets, cancelled, tasks) = (Arc::default(), CancellationToken::new(), TaskTracker::new());
        Self { directory, host, secrets, cancelled, tasks }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn exec(&self) -> ProcessExec {
        self.exec_with([])
    }

    pub(crate) fn exec_with(&self, environment: impl IntoIterator<Item = (String, String)>) -> ProcessExec {
        let mut environment: BTreeMap<String, String> = environment.into_iter().collect();
        environment.entry("PATH".into()).or_insert("/usr/local/bin:/usr/bin:/bin".into());
        let scope = ProcessScope {
            environment,
            time_zone: None,
            secrets: self.secrets.clone(),
            cancelled: self.cancelled.clone(),
            tasks: self.tasks.clone(),
        };
        ProcessExec::new(self.host.clone(), scope)
    }

    /// A shell command in the bed's directory.
    pub(crate) fn shell(&self, command: &str) -> SpawnRequest {
        SpawnRequest {
            purpose: SpawnPurpose::Shell,
            program: "bash".into(),
            arguments: vec!["-c".into(), command.into()],
            cwd: self.directory.path().to_path_buf(),
            environment: BTreeMap::new(),
            timeout: None,
            keep_bytes: 64 * 1024,
        }
    }

    pub(crate) async fn run(&self, command: &str) -> ProcessOutcome {
        self.exec().run(self.shell(command)).await.unwrap()
    }

    /// Starts a command and goes on at once.
    pub(crate) fn spawn(&self, command: &str) -> JoinHandle<Result<ProcessOutcome, ExecError>> {
        let (exec, request) = (self.exec(), self.shell(command));
        tokio::spawn(async move { exec.run(request).await })
    }

    pub(crate) fn make_pipe(&self, name: &str) {
        let made = std::process::Command::new("mkfifo").arg(self.path(name)).status().unwrap();
        assert!(made.success());
    }

    /// Opens a named pipe for reading, which returns when a command has opened it for writing.
    pub(crate) async fn witness(&self, name: &str) -> Witness {
        let path = self.path(name);
        spawn_blocking(move || Witness { lines: BufReader::new(File::open(path).unwrap()) }).await.unwrap()
    }

    /// Lets a command go on that reads from a named pipe.
    pub(crate) async fn go(&self, name: &str) {
        let path = self.path(name);
        spawn_blocking(move || std::fs::write(path, "go\n").unwrap()).await.unwrap();
    }

    /// Waits until no helper is left, and so no process of any tree.
    pub(crate) async fn all_gone(&self) {
        wait_until_gone(self.path("children.lock")).await;
    }
}

impl Witness {
    /// The next line.
    pub(crate) async fn line(self) -> (String, Self) {
        spawn_blocking(move || {
            let (mut lines, mut line) = (self.lines, String::new());
            lines.read_line(&mut line).unwrap();
            (line.trim_end().to_owned(), Self { lines })
        })
        .await
        .unwrap()
    }

    /// Asserts that no process holds the other end any more, without waiting for it.
    pub(crate) fn has_ended(mut self) {
        let file = self.lines.get_ref();
        rustix::fs::fcntl_setfl(file, rustix::fs::OFlags::NONBLOCK).unwrap();
        // A pipe that somebody still holds would be an error here.
        self.lines.read_to_end(&mut Vec::new()).unwrap();
    }

    /// Waits until the last process that holds the other end is gone, and returns what they still wrote.
    pub(crate) async fn end(self) -> String {
        spawn_blocking(move || {
            let (mut lines, mut rest) = (self.lines, String::new());
            lines.read_to_string(&mut rest).unwrap();
            rest
        })
        .await
        .unwrap()
    }
}

pub(crate) async fn wait_until_gone(lock: PathBuf) {
    spawn_blocking(move || wait_for_children(&lock, Duration::from_secs(30)).unwrap()).await.unwrap();
}

pub(crate) fn text(output: &CappedOutput) -> String {
    output.to_text()
}

/// The server that is killed: runs one command and never ends by itself.
pub(crate) fn serve(lock: &Path, command: &str) -> i32 {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut bed = Bed::new(runtime.handle().clone());
    bed.host = ProcessHost::new(std::env::current_exe().unwrap(), lock.into(), runtime.handle().clone());
    let outcome = runtime.block_on(bed.run(command));
    println!("{}", text(&outcome.stdout));
    // Told by the answer that the command is over, the test kills this program while it waits here.
    runtime.block_on(std::future::pending())
}
