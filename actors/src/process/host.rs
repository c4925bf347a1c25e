//! Owns what all processes of one server share: how a helper is started, and the trees that outlived their
//! call. Never decides what a process may see. Tested in `actors/tests/process`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use gent_extension_api::ExecError;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::tree::{Helper, Tree};

/// The hidden command that is the helper.
const CHILD_COMMAND: &str = "__child";

/// Trees that may outlive their call at one time. Each costs a helper; one more is ended instead of kept.
const TREES_LEFT_MAX: usize = 128;

/// Between two reads of the output nobody wants any more: a tree that writes without end is slowed down.
const DISCARD_PAUSE: Duration = Duration::from_millis(10);

/// What all processes of one server share.
#[derive(Debug)]
pub struct ProcessHost {
    child_program: PathBuf,
    children_lock: PathBuf,
    runtime: Handle,
    left: TaskTracker,
    closing: CancellationToken,
    slots: Arc<Semaphore>,
}

/// A helper that waits for its order, and the two streams of the program it will start.
pub(super) struct Started {
    pub(super) tree: Tree,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

impl ProcessHost {
    /// `child_program` is the program whose `__child` command is [`child_main`](super::child_main);
    /// `children_lock` the file its helpers hold; `runtime` a runtime with I/O and time, for all waiting.
    pub fn new(child_program: PathBuf, children_lock: PathBuf, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            child_program,
            children_lock,
            runtime,
            left: TaskTracker::new(),
            closing: CancellationToken::new(),
            slots: Arc::new(Semaphore::new(TREES_LEFT_MAX)),
        })
    }

    /// The trees that outlived their call and are still there.
    pub fn n_trees_left(&self) -> usize {
        self.left.len()
    }

    /// Ends every tree that outlived its call and waits until all are gone, which takes little more than the
    /// 3 s between TERM and KILL. To be called when the server stops; later trees are not kept.
    pub async fn close(&self) {
        self.closing.cancel();
        self.left.close();
        self.left.wait().await;
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Starts a helper in `cwd`. The program's order is not sent yet, so dropping what is returned leaves
    /// nothing behind.
    pub(super) async fn start(
        self: &Arc<Self>,
        cwd: PathBuf,
        tasks: TaskTracker,
    ) -> Result<Started, ExecError> {
        let host = self.clone();
        // A look at a directory and a fork may both take their time.
        let starting = self.runtime.spawn_blocking(move || {
            if !cwd.is_dir() {
                return Err(ExecError::NoDirectory { cwd });
            }
            host.start_in(&cwd, tasks)
                .map_err(|error| ExecError::Refused { reason: format!("the helper did not start: {error}") })
        });
        match starting.await {
            Ok(started) => started,
            Err(error) => Err(ExecError::Refused { reason: format!("the helper did not start: {error}") }),
        }
    }

    fn start_in(self: &Arc<Self>, cwd: &std::path::Path, tasks: TaskTracker) -> io::Result<Started> {
        // All of these are close-on-exec: no other process of this server can keep them open.
        let (ours, theirs) = UnixStream::pair()?;
        let (stdout, stdout_writer) = io::pipe()?;
        let (stderr, stderr_writer) = io::pipe()?;
        ours.set_nonblocking(true)?;
        #[expect(clippy::disallowed_methods, reason = "this is where every helper is started")]
        let mut command = Command::new(&self.child_program);
        let helper = command
            .arg0("gent")
            .arg(CHILD_COMMAND)
            .arg(&self.children_lock)
            .current_dir(cwd)
            // Its environment can be read by what it starts.
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(stdout_writer))
            .stderr(Stdio::from(stderr_writer))
            .spawn()?;
        // The command still holds the other ends.
        drop(command);
        let helper = Helper::new(helper, tokio::net::UnixStream::from_std(ours)?);
        Ok(Started {
            tree: Tree::new(self.clone(), tasks, helper),
            stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
        })
    }

    /// Keeps a tree that outlived its call until its last process is gone or the server closes. What it still
    /// writes is thrown away, so that a program in the background does not die of a closed pipe.
    pub(super) fn keep(&self, mut helper: Helper, streams: [Option<pipe::Receiver>; 2]) {
        let slot = self.slots.clone().try_acquire_owned().ok();
        if slot.is_none() {
            tracing::warn!(limit = TREES_LEFT_MAX, "process.left_tree_ended");
        }
        let closing = self.closing.clone();
        let keeping = async move {
            let [stdout, stderr] = streams;
            if slot.is_some() {
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = helper.gone() => {}
                    () = async { tokio::join!(discard(stdout), discard(stderr)); std::future::pending().await } => {}
                }
            }
            helper.end().await;
            drop(slot);
        };
        drop(self.left.spawn_on(keeping, &self.runtime));
    }
}

async fn discard(stream: Option<pipe::Receiver>) {
    let Some(stream) = stream else { return };
    while stream.readable().await.is_ok() {
        // Made anew each time: a silent tree costs no buffer.
        match stream.try_read(&mut [0; 4096]) {
            Ok(0) => return,
            Ok(_) => tokio::time::sleep(DISCARD_PAUSE).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
