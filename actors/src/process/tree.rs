//! Owns one tree of processes as the server sees it: its helper, what the helper says, and its end.
//! Never lets a tree go unobserved: a dropped tree is ended. Tested in `actors/tests/process`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::descendants::{members_of_session, signal_process};
use super::host::ProcessHost;
use super::wire::{Report, take_frame};

/// How long the end of a tree is awaited. A process in an uninterruptible wait of the system can take longer;
/// its helper stays with it.
const END_LIMIT: Duration = Duration::from_secs(8);

/// A running helper and the server's end of its socket.
#[derive(Debug)]
pub(super) struct Helper {
    process: Child,
    pid: Option<i32>,
    socket: UnixStream,
    buffer: Vec<u8>,
    is_gone: bool,
}

impl Helper {
    pub(super) fn new(process: Child, socket: UnixStream) -> Self {
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok());
        Self { process, pid, socket, buffer: Vec::new(), is_gone: false }
    }

    pub(super) async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.socket.write_all(frame).await
    }

    /// The next report; `None` at the end of file. Dropping the future loses nothing.
    pub(super) async fn next_report(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(report) = take_frame(&mut self.buffer).map_err(io::Error::other)? {
                self.is_gone |= matches!(report, Report::Gone | Report::Failed { .. });
                return Ok(Some(report));
            }
            let mut chunk = [0; 1024];
            let n_read = self.socket.read(&mut chunk).await?;
            if n_read == 0 {
                return Ok(None);
            }
            self.buffer.extend_from_slice(chunk.get(..n_read).unwrap_or_default());
        }
    }

    /// Waits until there is nothing more to wait for: the tree is gone, or its helper is.
    pub(super) async fn gone(&mut self) {
        while !self.is_gone && matches!(self.next_report().await, Ok(Some(_))) {}
    }

    /// Ends the tree, and returns when its last process is gone.
    pub(super) async fn end(mut self) {
        // The order to end is the end of file, the same that the helper reads when the server is gone.
        drop(self.socket.shutdown().await);
        if timeout(END_LIMIT, self.gone()).await.is_err() {
            tracing::warn!(helper.pid = self.pid, "process.tree_does_not_end");
            return;
        }
        if !self.is_gone {
            self.kill_unsupervised().await;
        }
        // Collects it; nothing is running any more.
        drop(timeout(END_LIMIT, self.process.wait()).await);
    }

    /// Kills what a helper left behind that was itself killed. The helper is not collected yet, so neither its
    /// id nor its session can belong to anybody else.
    async fn kill_unsupervised(&self) {
        let Some(pid) = self.pid else { return };
        tracing::warn!(helper.pid = pid, "process.helper_killed");
        let killing = tokio::task::spawn_blocking(move || {
            for process in members_of_session(pid) {
                signal_process(process.pid, Signal::KILL);
            }
        });
        drop(killing.await);
    }
}

/// A tree that belongs to a call. Dropping it ends it, in the background, as a task of the call's scope.
#[derive(Debug)]
pub(super) struct Tree {
    host: Arc<ProcessHost>,
    tasks: TaskTracker,
    helper: Option<Helper>,
}

impl Tree {
    pub(super) fn new(host: Arc<ProcessHost>, tasks: TaskTracker, helper: Helper) -> Self {
        Self { host, tasks, helper: Some(helper) }
    }

    /// See [`Helper::send`].
    pub(super) async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match &mut self.helper {
            Some(helper) => helper.send(frame).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// See [`Helper::next_report`].
    pub(super) async fn next_report(&mut self) -> io::Result<Option<Report>> {
        match &mut self.helper {
            Some(helper) => helper.next_report().await,
            None => Ok(None),
        }
    }

    /// Lets the tree outlive its call.
    pub(super) fn keep(mut self, streams: [Option<pipe::Receiver>; 2]) {
        if let Some(helper) = self.helper.take() {
            self.host.keep(helper, streams);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(helper) = self.helper.take() {
            drop(self.tasks.spawn_on(helper.end(), self.host.runtime()));
        }
    }
}
