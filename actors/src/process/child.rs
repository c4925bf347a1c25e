//! Owns the helper: the process that starts one program for the server, keeps all that comes of it together,
//! and ends it when the server says so or is gone.
//! Never outlives what it started, never ends before it, and hands on nothing of its own environment.
//! Tested in `actors/tests/process`.
//!
//! It runs before anything else of the program is set up: no runtime, no logging, two small threads.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use super::descendants::{descendants_of, signal_process};
use super::wire::{LaunchOrder, Left, Report, encode, take_frame};

/// Between the program's exit and the report of what outlived it: time enough for the other end of a pipe to
/// finish, short enough not to be felt.
const SETTLE_GRACE: Duration = Duration::from_millis(100);

/// Between TERM and KILL.
const KILL_AFTER: Duration = Duration::from_secs(3);

/// Between two rounds of KILL, for what was forked during the first.
const KILL_AGAIN: Duration = Duration::from_millis(50);

/// Processes named in a report; the rest is left out of it.
const LEFT_NAMED_MAX: usize = 32;

/// Events that may wait for the loop. A full channel holds its sender back, which loses nothing.
const EVENTS_MAX: usize = 16;

/// Stack of each of the two threads: they read a socket and collect children.
const THREAD_STACK: usize = 64 * 1024;

/// Runs the helper to its end and returns its exit code. Standard input is its end of the server's socket;
/// standard output and error are those of the program. `children_lock` is held shared for as long as it runs.
pub fn child_main(children_lock: &Path) -> i32 {
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else { return 2 };
    if socket.local_addr().is_err() {
        // Not a socket: somebody tried it by hand.
        return 2;
    }
    match launch(&socket, children_lock) {
        Ok(Some(running)) => running.supervise(),
        Ok(None) => 0,
        Err(error) => {
            let not_found = error.kind() == io::ErrorKind::NotFound;
            tell(&socket, &Report::Failed { not_found, reason: error.to_string() });
            1
        }
    }
}

/// What the loop learns.
enum Event {
    /// A child ended and was collected.
    Reaped(Pid, Option<i32>, Option<i32>),
    /// There is no child any more.
    NoChildren,
    /// The server closed its end, to stop the tree or because it is gone.
    Closed,
}

enum Phase {
    /// The program runs.
    Running,
    /// It ended; what is still there at `until` outlives it.
    Settling { until: Instant },
    /// Only what outlived it runs.
    LeftRunning,
    /// TERM was sent.
    Ending { kill_at: Instant },
    /// KILL was sent.
    Killing { again_at: Instant },
}

struct Running {
    socket: UnixStream,
    /// Held shared until the last process is gone: a starting server waits for it.
    _lock: File,
    program: Pid,
    has_exited: bool,
    has_children: bool,
    phase: Phase,
}

/// Starts the program, unless the server is gone already.
fn launch(socket: &UnixStream, children_lock: &Path) -> io::Result<Option<Running>> {
    // No terminal from here on: nothing below can ask anybody anything.
    rustix::process::setsid()?;
    let lock = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(children_lock)
        .map_err(|error| io::Error::other(format!("{}: {error}", children_lock.display())))?;
    lock.lock_shared()?;
    let Some(order) = read_order(socket)? else { return Ok(None) };
    // The lock is held, so a server that starts from here on waits for us; one that started before has made
    // ours close its end. Without this look a command could start after the new server's resume pass.
    if is_closed(socket)? {
        return Ok(None);
    }
    become_subreaper()?;
    let program = spawn_program(&order)?;
    // So that no directory is kept busy by the helper alone.
    drop(std::env::set_current_dir("/"));
    let socket = match socket.try_clone() {
        Ok(socket) => socket,
        Err(error) => {
            signal_group(program, Signal::KILL);
            return Err(error);
        }
    };
    tell(&socket, &Report::Started { pid: program.as_raw_nonzero().get().unsigned_abs() });
    Ok(Some(Running {
        socket,
        _lock: lock,
        program,
        has_exited: false,
        has_children: true,
        phase: Phase::Running,
    }))
}

fn read_order(mut socket: &UnixStream) -> io::Result<Option<LaunchOrder>> {
    let mut buffer = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let n_read = match socket.read(&mut chunk) {
            Ok(0) => return Ok(None),
            Ok(n_read) => n_read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        buffer.extend_from_slice(chunk.get(..n_read).unwrap_or_default());
        if let Some(order) = take_frame(&mut buffer).map_err(io::Error::other)? {
            return Ok(Some(order));
        }
    }
}

fn is_closed(mut socket: &UnixStream) -> io::Result<bool> {
    socket.set_nonblocking(true)?;
    let looked = socket.read(&mut [0]);
    socket.set_nonblocking(false)?;
    match looked {
        Ok(n_read) => Ok(n_read == 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(target_os = "linux")]
fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() -> io::Result<()> {
    Ok(())
}

fn spawn_program(order: &LaunchOrder) -> io::Result<Pid> {
    // The helper must not keep the pipes open: their end of file is what tells the server that all was read.
    let stdout = take_stream(io::stdout().as_fd(), |null| rustix::stdio::dup2_stdout(null))?;
    let stderr = take_stream(io::stderr().as_fd(), |null| rustix::stdio::dup2_stderr(null))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the helper is where the spawn policy's outcome is started"
    )]
    let child = Command::new(&order.program)
        .args(&order.arguments)
        .env_clear()
        .envs(&order.environment)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the system gave the process an id it cannot have"))
}

fn take_stream(
    stream: std::os::fd::BorrowedFd<'_>,
    replace: impl FnOnce(&File) -> rustix::io::Result<()>,
) -> io::Result<OwnedFd> {
    let taken = stream.try_clone_to_owned()?;
    replace(&File::options().read(true).write(true).open("/dev/null")?)?;
    Ok(taken)
}

/// Tells the server. It may be gone: then its end of file is on the way.
fn tell(mut socket: &UnixStream, report: &Report) {
    if let Ok(frame) = encode(report) {
        drop(socket.write_all(&frame));
    }
}

fn signal_group(leader: Pid, signal: Signal) {
    rustix::process::kill_process_group(leader, signal).ok();
}

#[expect(clippy::disallowed_methods, reason = "the helper has no `Env`: it is a program of its own")]
fn now() -> Instant {
    Instant::now()
}

impl Running {
    fn supervise(mut self) -> i32 {
        let (sender, events) = sync_channel(EVENTS_MAX);
        if self.watch(&sender).is_err() {
            // Without its threads the helper cannot keep its promise; better no program than a stray one.
            self.signal_all(Signal::KILL);
            return 1;
        }
        while self.has_children || self.has_unseen_group() {
            match self.next_event(&events) {
                Ok(Event::Reaped(pid, code, signal)) => self.reaped(pid, code, signal),
                Ok(Event::NoChildren) => self.has_children = false,
                Ok(Event::Closed) => self.end(),
                Err(_) => self.time_is_up(),
            }
        }
        self.settle(Vec::new());
        tell(&self.socket, &Report::Gone);
        0
    }

    fn watch(&self, sender: &SyncSender<Event>) -> io::Result<()> {
        let (closes, ends, socket) = (sender.clone(), sender.clone(), self.socket.try_clone()?);
        let thread = || std::thread::Builder::new().stack_size(THREAD_STACK);
        thread().spawn(move || wait_for_close(socket, &closes))?;
        thread().spawn(move || collect_children(&ends))?;
        Ok(())
    }

    fn next_event(&self, events: &Receiver<Event>) -> Result<Event, RecvTimeoutError> {
        let until = match self.phase {
            Phase::Settling { until } => until,
            Phase::Ending { kill_at } => kill_at,
            Phase::Killing { again_at } => again_at,
            // Where there is no subreaper nobody tells of the end of a group.
            Phase::Running | Phase::LeftRunning if !self.has_children => now() + KILL_AGAIN,
            Phase::Running | Phase::LeftRunning => {
                return events.recv().map_err(|_closed| RecvTimeoutError::Disconnected);
            }
        };
        events.recv_timeout(until.saturating_duration_since(now()))
    }

    fn reaped(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        if pid == self.program {
            self.has_exited = true;
            tell(&self.socket, &Report::Exited { code, signal });
            if matches!(self.phase, Phase::Running) {
                self.phase = Phase::Settling { until: now() + SETTLE_GRACE };
            }
        }
    }

    fn end(&mut self) {
        if !matches!(self.phase, Phase::Ending { .. } | Phase::Killing { .. }) {
            self.signal_all(Signal::TERM);
            // A stopped process takes TERM only once it goes on.
            self.signal_all(Signal::CONT);
            self.phase = Phase::Ending { kill_at: now() + KILL_AFTER };
        }
    }

    fn time_is_up(&mut self) {
        match self.phase {
            Phase::Settling { .. } => {
                let left = descendants_of(rustix::process::getpid().as_raw_nonzero().get())
                    .into_iter()
                    .filter(|process| !process.is_ended)
                    .map(|process| Left { pid: process.pid.unsigned_abs(), name: process.name })
                    .take(LEFT_NAMED_MAX)
                    .collect();
                self.settle(left);
            }
            Phase::Ending { .. } | Phase::Killing { .. } => {
                self.signal_all(Signal::KILL);
                self.phase = Phase::Killing { again_at: now() + KILL_AGAIN };
            }
            Phase::Running | Phase::LeftRunning => {}
        }
    }

    fn settle(&mut self, left: Vec<Left>) {
        if matches!(self.phase, Phase::Settling { .. }) {
            tell(&self.socket, &Report::Settled { left });
            self.phase = Phase::LeftRunning;
        }
    }

    /// Signals every process that came of the program.
    fn signal_all(&self, signal: Signal) {
        let found = descendants_of(rustix::process::getpid().as_raw_nonzero().get());
        let group = self.program.as_raw_nonzero().get();
        // At once for the whole group, so that it cannot fork away from under the walk. A group without
        // members may be somebody else's by now.
        if !self.has_exited || found.iter().any(|process| process.group == group) || self.has_unseen_group() {
            signal_group(self.program, signal);
        }
        for process in found.iter().filter(|process| process.group != group) {
            signal_process(process.pid, signal);
        }
    }

    /// Whether the group lives on in processes that are not ours to collect.
    fn has_unseen_group(&self) -> bool {
        cfg!(not(target_os = "linux")) && rustix::process::test_kill_process_group(self.program).is_ok()
    }
}

fn wait_for_close(mut socket: UnixStream, sender: &SyncSender<Event>) {
    loop {
        match socket.read(&mut [0; 64]) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    drop(sender.send(Event::Closed));
}

fn collect_children(sender: &SyncSender<Event>) {
    loop {
        let event = match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => Event::Reaped(pid, status.exit_status(), status.terminating_signal()),
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(_) => Event::NoChildren,
        };
        let is_last = matches!(event, Event::NoChildren);
        if sender.send(event).is_err() || is_last {
            return;
        }
    }
}
