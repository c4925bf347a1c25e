//! Owns the reasons of a server to stop and the order of its end.
//! Never ends the process itself, except at a second signal. Tested in `server/tests`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use gent_actors::Engine;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::entry::Written;
use crate::http::connections::Connections;
use crate::lifecycle::{Lifecycle, Phase, Stop};
use crate::rpc::detached::Detached;

/// How long sockets have to answer their close, and the calls they leave behind to be done.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// How soon an idle server that is busy with work nobody follows looks again.
const BUSY_LOOK: Duration = Duration::from_secs(60);

/// A server that serves.
pub(crate) struct Serving {
    /// The engine.
    pub(crate) engine: Engine,
    /// The phase.
    pub(crate) lifecycle: Arc<Lifecycle>,
    /// The sockets.
    pub(crate) connections: Arc<Connections>,
    /// The calls that outlive their connections.
    pub(crate) detached: Arc<Detached>,
    /// The entry.
    pub(crate) written: Written,
    /// Stops the listener.
    pub(crate) handle: ServerHandle,
}

impl Serving {
    /// Returns when nobody has needed the server for `minutes`, asked for whenever the last client has left; never
    /// for 0.
    pub(crate) async fn idle(&self, minutes: impl Fn() -> u32) -> Stop {
        let is_busy = async || self.engine.health().await.busy;
        wait_for_idleness(minutes, &self.connections, is_busy, &self.written).await;
        Stop::Idle
    }

    /// Ends in order: no new turns, steps to a safe point, sockets closed, nothing accepted, engine stopped. The
    /// store and the lock follow in the caller.
    pub(crate) async fn end(self, stop: Stop) {
        tracing::info!(reason = stop.name(), "server.draining");
        self.lifecycle.enter(Phase::Draining);
        self.engine.drain(stop.drain()).await;
        self.lifecycle.enter(Phase::Going);
        self.written.remove();
        // A client that does not answer its close is cut with the listener.
        let is_closed = wait_for_sockets(&self.connections, &self.detached).await;
        self.handle.stop(is_closed).await;
        self.engine.stop().await;
        tracing::info!(reason = stop.name(), "server.stopped");
    }
}

/// Waits for the sockets to close and then for the calls that go on without them; true when all sockets have closed.
async fn wait_for_sockets(connections: &Connections, detached: &Detached) -> bool {
    let deadline = Instant::now() + CLOSE_WAIT;
    let is_closed = timeout_at(deadline, connections.open_until(|open| open == 0)).await.is_ok();
    if timeout_at(deadline, detached.none()).await.is_err() {
        // Prompts whose turn was put aside and who wait for it; what was stored of them is stored.
        tracing::info!("server.calls_left");
    }
    is_closed
}

/// Returns when nobody has needed the server for `minutes`; never for 0. They are asked for whenever the last client
/// has left. No timer runs while a client is there. The entry is gone then.
async fn wait_for_idleness(
    minutes: impl Fn() -> u32,
    connections: &Connections,
    is_busy: impl AsyncFn() -> bool,
    written: &Written,
) {
    loop {
        connections.open_until(|open| open == 0).await;
        let wait = Duration::from_secs(u64::from(minutes()) * 60);
        if wait.is_zero() {
            connections.open_until(|open| open > 0).await;
            continue;
        }
        let came = timeout(wait, connections.open_until(|open| open > 0)).await;
        if came.is_ok() {
            continue;
        }
        while connections.open() == 0 && is_busy().await {
            sleep(BUSY_LOOK.min(wait)).await;
        }
        if connections.open() > 0 {
            continue;
        }
        // A client that found the entry is on its way: count again without it.
        written.remove();
        tokio::task::yield_now().await;
        if connections.open() == 0 && !is_busy().await {
            return;
        }
        if let Err(error) = written.restore() {
            tracing::error!(error = %error, "entry.lost");
            return;
        }
    }
}

/// The task that waits for signals; dropping it ends it.
pub(crate) struct Signals(JoinHandle<()>);

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The first signal asks for an orderly end, the second ends at once. A server in the background does not go with
/// the terminal it was started from.
pub(crate) fn listen_to_signals(is_detached: bool, lifecycle: &Arc<Lifecycle>) -> io::Result<Signals> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let lifecycle = Arc::clone(lifecycle);
    Ok(Signals(actix_web::rt::spawn(async move {
        let mut n_signals = 0;
        loop {
            let code = tokio::select! {
                got = next(&mut terminate) => got.then_some(143),
                got = next(&mut interrupt) => got.then_some(130),
                got = next(&mut hang_up) => if is_detached { None } else { got.then_some(129) },
            };
            let Some(code) = code else { continue };
            n_signals += 1;
            if n_signals > 1 {
                tracing::warn!(code, "server.cut_short");
                std::process::exit(code);
            }
            lifecycle.request(Stop::Signal);
        }
    })))
}

async fn next(signal: &mut Signal) -> bool {
    match signal.recv().await {
        Some(()) => true,
        // No signal can come any more.
        None => std::future::pending().await,
    }
}

/// Asks for an end when standard input ends: the client of a private server is gone.
pub(crate) fn stop_with_input(lifecycle: &Arc<Lifecycle>) -> io::Result<()> {
    // A pipe is read by the runtime; reading it on a thread would leave a thread that cannot be ended.
    let input = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    let mut input = tokio::net::unix::pipe::Receiver::from_owned_fd(input)?;
    let lifecycle = Arc::clone(lifecycle);
    actix_web::rt::spawn(async move {
        let mut skipped = [0; 64];
        while matches!(input.read(&mut skipped).await, Ok(n) if n > 0) {}
        lifecycle.request(Stop::InputEnded);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use gent_client::{Entry, read_entry, token_path};
    use gent_protocol::{Millis, PROTOCOL};

    fn written(data_dir: &Path) -> Written {
        let entry = Entry {
            url: "http://127.0.0.1:7".into(),
            pid: 1,
            protocol: PROTOCOL,
            build: "b".into(),
            started: Millis(1),
            token_file: token_path(data_dir),
        };
        Written::write(data_dir, entry).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_ends_waits_for_calls_that_go_on_without_their_connection() {
        let set = tokio::task::LocalSet::new();
        set.run_until(async {
            let (connections, detached) = (Connections::new(), Arc::new(Detached::new()));
            let began = Instant::now();
            detached.keep(tokio::task::spawn_local(sleep(Duration::from_secs(1))), 1);
            assert!(wait_for_sockets(&connections, &detached).await);
            assert_eq!(began.elapsed(), Duration::from_secs(1));
            detached.keep(tokio::task::spawn_local(std::future::pending()), 1);
            assert!(wait_for_sockets(&connections, &detached).await);
            assert_eq!(began.elapsed(), Duration::from_secs(1) + CLOSE_WAIT);
        })
        .await;
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_server_that_nobody_needs_leaves_after_its_minutes_with_its_entry_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (written, connections) = (written(dir.path()), Connections::new());
        let began = Instant::now();
        wait_for_idleness(|| 30, &connections, async || false, &written).await;
        assert_eq!(began.elapsed(), 30 * MINUTE);
        assert!(read_entry(dir.path()).unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_comes_and_goes_starts_the_time_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (written, connections) = (written(dir.path()), Connections::new());
        let began = Instant::now();
        tokio::join!(wait_for_idleness(|| 30, &connections, async || false, &written), async {
            sleep(20 * MINUTE).await;
            connections.set_open(1);
            sleep(100 * MINUTE).await;
            connections.set_open(0);
        });
        assert_eq!(began.elapsed(), 150 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_turn_keeps_a_server_without_clients() {
        let dir = tempfile::tempdir().unwrap();
        let (written, connections) = (written(dir.path()), Connections::new());
        let began = Instant::now();
        let is_busy = async || began.elapsed() < 45 * MINUTE;
        wait_for_idleness(|| 30, &connections, is_busy, &written).await;
        assert_eq!(began.elapsed(), 45 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_comes_in_the_last_moment_gets_the_entry_back() {
        let dir = tempfile::tempdir().unwrap();
        let (written, connections) = (written(dir.path()), Connections::new());
        let asked = Cell::new(0);
        // The second look is the one without the entry: work has come meanwhile.
        let is_busy = async || {
            asked.set(asked.get() + 1);
            asked.get() == 2
        };
        let began = Instant::now();
        let idle = wait_for_idleness(|| 30, &connections, is_busy, &written);
        let mut idle = std::pin::pin!(idle);
        assert!(timeout(31 * MINUTE, &mut idle).await.is_err());
        assert!(read_entry(dir.path()).unwrap().is_some());
        idle.await;
        assert_eq!(began.elapsed(), 60 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_minutes_are_those_that_hold_when_the_last_client_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let (written, connections) = (written(dir.path()), Connections::new());
        let minutes = Cell::new(0);
        let began = Instant::now();
        let idle = wait_for_idleness(|| minutes.get(), &connections, async || false, &written);
        let (left, ()) = tokio::join!(timeout(10_000 * MINUTE, idle), async {
            sleep(100 * MINUTE).await;
            connections.set_open(1);
            minutes.set(5);
            sleep(MINUTE).await;
            connections.set_open(0);
        });
        assert_eq!(left, Ok(()));
        assert_eq!(began.elapsed(), 106 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn zero_minutes_are_never() {
        let dir = tempfile::tempdir().unwrap();
        let (written, connections) = (written(dir.path()), Connections::new());
        let idle = wait_for_idleness(|| 0, &connections, async || false, &written);
        assert!(timeout(10_000 * MINUTE, idle).await.is_err());
    }
}
