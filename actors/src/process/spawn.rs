//! Owns the run of one process from the request to its outcome.
//! Never waits for what outlives the program, and never lets anything run on after its call without saying so.
//! Tested in `actors/tests/process`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{
    CappedOutput, Exec, ExecError, LeftRunning, ProcessEnd, ProcessOutcome, SpawnRequest,
};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::capped::Capped;
use super::environment::{SpawnPolicy, spawn_environment};
use super::host::{ProcessHost, Started};
use super::tree::Tree;
use super::wire::{LaunchOrder, Left, Report, encode};
use crate::redact::SecretSet;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// After the last process of a tree is gone its pipes are at their end; only a process outside the tree that
/// was handed one could keep it open for longer.
const PIPE_END_LIMIT: Duration = Duration::from_secs(1);

/// Bytes taken from a pipe that somebody still writes to, when the run is over: more than a pipe holds.
const LAST_READ_MAX: usize = 2 * 1024 * 1024;

/// Whose processes are started, and under what.
#[derive(Debug, Clone)]
pub struct ProcessScope {
    /// The session's variables.
    pub environment: BTreeMap<String, String>,
    /// The session's time zone, where it has one.
    pub time_zone: Option<String>,
    /// What must not reach a process through its environment.
    pub secrets: Arc<SecretSet>,
    /// Fires when the call, the turn or the branch is stopped.
    pub cancelled: CancellationToken,
    /// Holds a task for each tree until its last process is gone; trees that were left running on purpose go
    /// over to the [`ProcessHost`].
    pub tasks: TaskTracker,
}

/// Starting processes in one scope.
#[derive(Debug, Clone)]
pub struct ProcessExec {
    host: Arc<ProcessHost>,
    scope: ProcessScope,
}

impl ProcessExec {
    /// Processes of this scope.
    pub fn new(host: Arc<ProcessHost>, scope: ProcessScope) -> Self {
        Self { host, scope }
    }

    async fn run_process(self, request: SpawnRequest) -> Result<ProcessOutcome, ExecError> {
        let environment = spawn_environment(&SpawnPolicy {
            base: &self.scope.environment,
            secrets: &self.scope.secrets,
            explicit: &request.environment,
            time_zone: self.scope.time_zone.as_deref(),
        });
        let order =
            LaunchOrder { program: request.program.clone(), arguments: request.arguments, environment };
        let frame = encode(&order).map_err(|error| ExecError::Refused { reason: error.to_string() })?;
        let limit = async {
            match request.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(limit);
        let starting = self.host.start(request.cwd, self.scope.tasks.clone());
        let Started { mut tree, stdout, stderr } = tokio::select! {
            biased;
            () = self.scope.cancelled.cancelled() => return Ok(nothing_ran(ProcessEnd::Cancelled)),
            started = starting => started?,
            () = &mut limit => return Ok(nothing_ran(ProcessEnd::TimedOut)),
        };
        let mut run = Run {
            stdout: Stream::new(stdout, request.keep_bytes),
            stderr: Stream::new(stderr, request.keep_bytes),
            chunk: vec![0; READ_BYTES],
            exited: None,
        };
        let stopped = tokio::select! {
            biased;
            () = self.scope.cancelled.cancelled() => Some(ProcessEnd::Cancelled),
            () = &mut limit => Some(ProcessEnd::TimedOut),
            ended = run.until_settled(&mut tree, &frame, &request.program) => {
                let (end, left) = ended?;
                return Ok(run.finish(end, tree, left, &self.scope.secrets));
            }
        };
        // The program may have ended just now, with only its children to be waited for.
        let end = run.exited.or(stopped).unwrap_or(ProcessEnd::Cancelled);
        drop(tree);
        Ok(run.outcome(end, Vec::new(), &self.scope.secrets).0)
    }
}

impl Exec for ProcessExec {
    fn run<'a>(&'a self, request: SpawnRequest) -> BoxFuture<'a, Result<ProcessOutcome, ExecError>> {
        // On the host's own runtime, whoever asks: an actor's thread must not carry the reading of output.
        let running = self.scope.tasks.spawn_on(self.clone().run_process(request), self.host.runtime());
        async move {
            match AbortOnDropHandle::new(running).await {
                Ok(outcome) => outcome,
                Err(error) => Err(ExecError::Refused { reason: format!("its task ended: {error}") }),
            }
        }
        .boxed()
    }
}

/// A process under way.
struct Run {
    stdout: Stream,
    stderr: Stream,
    chunk: Vec<u8>,
    exited: Option<ProcessEnd>,
}

impl Run {
    /// Sends the order and reads until the program has ended and all it wrote is here, or what outlived it
    /// has been named.
    async fn until_settled(
        &mut self,
        tree: &mut Tree,
        order: &[u8],
        program: &str,
    ) -> Result<(ProcessEnd, Vec<Left>), ExecError> {
        // A helper that could not get ready says why, and does not read its order: that is found below.
        drop(tree.send(order).await);
        loop {
            let report = tokio::select! {
                report = tree.next_report() => report,
                () = self.stdout.readable() => {
                    self.stdout.read_some(&mut self.chunk);
                    // A program that writes without pause must not keep this thread to itself.
                    tokio::task::consume_budget().await;
                    continue;
                }
                () = self.stderr.readable() => {
                    self.stderr.read_some(&mut self.chunk);
                    tokio::task::consume_budget().await;
                    continue;
                }
            };
            match report {
                Ok(Some(Report::Started { .. })) => {}
                Ok(Some(Report::Failed { not_found: true, .. })) => {
                    return Err(ExecError::NotFound { program: program.to_owned() });
                }
                Ok(Some(Report::Failed { reason, .. })) => return Err(ExecError::Refused { reason }),
                Ok(Some(Report::Exited { code, signal })) => self.exited = Some(end_of(code, signal)),
                Ok(Some(Report::Settled { left })) => {
                    if left.is_empty() {
                        drop(tokio::time::timeout(PIPE_END_LIMIT, self.until_closed()).await);
                    }
                    return Ok((self.exited.unwrap_or(ProcessEnd::Exited(0)), left));
                }
                Ok(Some(Report::Gone)) | Ok(None) | Err(_) => {
                    return Err(ExecError::Refused {
                        reason: "what supervised it was killed, and it was killed too".into(),
                    });
                }
            }
        }
    }

    async fn until_closed(&mut self) {
        while self.stdout.is_open() || self.stderr.is_open() {
            tokio::select! {
                () = self.stdout.readable() => self.stdout.read_some(&mut self.chunk),
                () = self.stderr.readable() => self.stderr.read_some(&mut self.chunk),
            }
        }
    }

    fn finish(self, end: ProcessEnd, tree: Tree, left: Vec<Left>, secrets: &SecretSet) -> ProcessOutcome {
        let outlived = !left.is_empty();
        let (outcome, streams) = self.outcome(end, left, secrets);
        if outlived {
            tree.keep(streams);
        }
        outcome
    }

    /// What there is so far, with what still lies in the pipes, and the pipes.
    fn outcome(
        mut self,
        end: ProcessEnd,
        left: Vec<Left>,
        secrets: &SecretSet,
    ) -> (ProcessOutcome, [Option<pipe::Receiver>; 2]) {
        let (stdout, stdout_pipe) = self.stdout.finish(&mut self.chunk, secrets);
        let (stderr, stderr_pipe) = self.stderr.finish(&mut self.chunk, secrets);
        let left_running =
            left.into_iter().map(|left| LeftRunning { pid: left.pid, name: left.name }).collect();
        (ProcessOutcome { end, stdout, stderr, left_running }, [stdout_pipe, stderr_pipe])
    }
}

fn nothing_ran(end: ProcessEnd) -> ProcessOutcome {
    ProcessOutcome {
        end,
        stdout: CappedOutput::default(),
        stderr: CappedOutput::default(),
        left_running: Vec::new(),
    }
}

fn end_of(code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
    match (code, signal) {
        (Some(code), _) => ProcessEnd::Exited(code),
        (None, Some(signal)) => ProcessEnd::Signalled(signal),
        (None, None) => ProcessEnd::Exited(0),
    }
}

/// One stream of a process.
struct Stream {
    /// `None` after its end.
    pipe: Option<pipe::Receiver>,
    collected: Capped,
}

impl Stream {
    fn new(pipe: pipe::Receiver, keep_bytes: usize) -> Self {
        Self { pipe: Some(pipe), collected: Capped::new(keep_bytes) }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Waits for something to read; for ever after the end.
    async fn readable(&self) {
        match &self.pipe {
            // An error shows at the read.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }

    fn read_some(&mut self, chunk: &mut [u8]) {
        let Some(pipe) = &self.pipe else { return };
        match pipe.try_read(chunk) {
            Ok(0) => self.pipe = None,
            Ok(n_read) => self.collected.push(chunk.get(..n_read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
    }

    /// What was collected, with what the pipe holds at this moment. The pipe is asked itself: the runtime may
    /// not have been told yet of what was written last.
    fn finish(mut self, chunk: &mut [u8], secrets: &SecretSet) -> (CappedOutput, Option<pipe::Receiver>) {
        let pipe = self.pipe.take().and_then(|pipe| {
            let mut file = File::from(pipe.into_nonblocking_fd().ok()?);
            let mut n_taken = 0;
            while n_taken < LAST_READ_MAX {
                match file.read(chunk) {
                    Ok(0) => return None,
                    Ok(n_read) => {
                        self.collected.push(chunk.get(..n_read).unwrap_or_default());
                        n_taken += n_read;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            pipe::Receiver::from_owned_fd(file.into()).ok()
        });
        (self.collected.finish(secrets), pipe)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn what_lies_in_a_pipe_at_the_end_is_taken_even_if_nobody_told_of_it() {
        let finish = |keep_open: bool| {
            let (reader, mut writer) = io::pipe().unwrap();
            let stream = Stream::new(pipe::Receiver::from_owned_fd(reader.into()).unwrap(), 100);
            writer.write_all(b"last words").unwrap();
            let still_open = keep_open.then_some(writer);
            let (output, pipe) = stream.finish(&mut [0; 4], &SecretSet::default());
            drop(still_open);
            (output.to_text(), pipe.is_some())
        };
        assert_eq!(finish(true), ("last words".into(), true));
        assert_eq!(finish(false), ("last words".into(), false));
    }
}
