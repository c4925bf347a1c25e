//! Owns the life of a serving process: the order of its start, the reasons to stop, the order of its end.
//! Never builds a part itself: `wiring` does. Tested in `server/tests` and end to end.

mod end;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use gent_actors::process::{CHILDREN_END_LIMIT, ChildrenRemain, wait_for_children};
use gent_actors::{EngineError, Env};
use gent_client::{Entry, NoDataDirectory, token_path};
use gent_protocol::PROTOCOL;
use gent_storage::OpenError;

use crate::background::Readiness;
use crate::config::LiveConfig;
use crate::entry::{Ownership, Written, make_private_dir, write_token};
use crate::http::access::Hosts;
use crate::http::connections::Connections;
use crate::http::{self, Door};
use crate::lifecycle::{Lifecycle, Stop};
use crate::logging::{self, LogFormat, LogGuard};
use crate::rpc::EngineDispatch;
use crate::rpc::detached::Detached;
use crate::wiring;
use crate::{EntryError, Environment, Paths};

/// Minutes without need after which a server ends, where nobody says otherwise.
const IDLE_EXIT_MINUTES: u32 = 30;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The host to listen on; loopback unless said otherwise. It is also a name the server answers to.
    pub host: String,
    /// The port; 0 takes any.
    pub port: u16,
    /// The data directory, where another than the usual one.
    pub data_dir: Option<PathBuf>,
    /// In the background: a session of its own, no log on standard error, failures told on standard output.
    pub detached: bool,
    /// Minutes without need after which it ends; 0 is never. Else the configuration's, else 30.
    pub idle_exit: Option<u32>,
    /// The form of the log on standard error.
    pub log_format: LogFormat,
    /// Private: ends with its standard input and removes its data directory. Failures are told on standard output.
    pub isolate: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            data_dir: None,
            detached: false,
            idle_exit: None,
            log_format: LogFormat::Text,
            isolate: false,
        }
    }
}

/// Why a server does not serve. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no place for the data directory.
    #[error(transparent)]
    NoDataDirectory(#[from] NoDataDirectory),
    /// The data directory cannot be used, or another server owns it.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The log cannot be written.
    #[error("the log {} cannot be written: check that it is a plain file on a disk that is writable and not full", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The database's address is of no use.
    #[error("{message}")]
    Database {
        /// One sentence.
        message: String,
    },
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Commands of an earlier server still run.
    #[error(transparent)]
    Children(#[from] ChildrenRemain),
    /// The port cannot be had.
    #[error("port {port} on {host} cannot be listened on: take another with --port, or 0 for any")]
    Port {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The engine cannot be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system refuses what every process needs.
    #[error("the system refuses what a server needs; its log says what")]
    System {
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Serves until told to stop. Blocks; the first line on standard output says where it is.
pub fn serve(options: ServeOptions, environment: &Environment) -> Result<(), ServeError> {
    let is_told = options.detached || options.isolate;
    let served = prepare(&options, environment).and_then(|(paths, log)| {
        let served = run_system(&options, &paths, environment);
        if let Err(error) = &served {
            tracing::error!(error = sentence(error), "server.failed");
        }
        drop(log);
        if options.isolate {
            crate::isolated::remove(paths.data_dir());
        }
        served
    });
    if let Err(error) = &served
        && is_told
    {
        let owned = matches!(error, ServeError::Entry(EntryError::Owned { .. }));
        // The client that started us may be gone: then nobody needs the line.
        let _unread = say(&Readiness::Failed { error: sentence(error), owned }).is_err();
    }
    served
}

/// The error with its causes: neither the log nor the line to a client has a place for a chain. A cause that has been
/// said is not said again.
fn sentence(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !said.contains(&words) {
            said.push_str(&format!(" (because: {words})"));
        }
        cause = error.source();
    }
    said
}

fn prepare(options: &ServeOptions, environment: &Environment) -> Result<(Paths, LogGuard), ServeError> {
    if options.detached {
        // Fails only for the leader of a process group. A client's child is none; a command typed into a shell is one
        // and stays in that terminal's session, of which it only ignores the hang-up.
        let _leader = rustix::process::setsid().is_err();
    }
    let mut paths = Paths::find(environment, options.data_dir.as_deref())?;
    if options.isolate {
        paths = paths.with_data_dir(paths.data_dir().to_path_buf());
    }
    make_private_dir(paths.data_dir())?;
    let path = paths.log();
    if let Some(logs) = path.parent() {
        make_private_dir(logs)?;
    }
    let stderr = (!options.detached).then_some(options.log_format);
    let log =
        logging::start(&path, stderr, environment).map_err(|source| ServeError::Log { path, source })?;
    Ok((paths, log))
}

fn run_system(options: &ServeOptions, paths: &Paths, environment: &Environment) -> Result<(), ServeError> {
    // The kernel decides who serves: before the lock is ours nothing of the database is touched.
    let other_lock = wiring::lock_of_database(paths, environment.cwd());
    let ownership = Ownership::take(paths.data_dir(), &paths.lock(), other_lock.as_deref())?;
    let env = Env::real();
    let live = Arc::new(LiveConfig::new(paths.config()));
    let config = live.now();
    for complaint in &config.complaints {
        tracing::warn!(complaint, "config.unusable");
    }
    let store = wiring::open_store(paths, environment, &config, &env)?;
    wait_for_children(&paths.children_lock(), CHILDREN_END_LIMIT)?;
    let system = actix_web::rt::System::new();
    let served = system.block_on(run(options, paths, environment, &live, &env, &store));
    store.store.close();
    drop(ownership);
    served
}

async fn run(
    options: &ServeOptions,
    paths: &Paths,
    environment: &Environment,
    config: &Arc<LiveConfig>,
    env: &Env,
    store: &wiring::Opened,
) -> Result<(), ServeError> {
    let taken = http::take_port(&options.host, options.port);
    let (listener, address) = taken.map_err(|source| ServeError::Port {
        host: options.host.clone(),
        port: options.port,
        source,
    })?;
    let token = write_token(paths.data_dir())?;
    let engine = wiring::start_engine(paths, environment, config, env, store, &token)?;
    let lifecycle = Arc::new(Lifecycle::new());
    let connections = Arc::new(Connections::new());
    let detached = Arc::new(Detached::new());
    let data_dir = paths.data_dir().display().to_string();
    let dispatch = EngineDispatch {
        engine: engine.clone(),
        store: store.store.clone(),
        env: env.clone(),
        data_dir: data_dir.clone(),
        connections: Arc::clone(&connections),
        lifecycle: Arc::clone(&lifecycle),
    };
    let door = Arc::new(Door {
        dispatch: Arc::new(dispatch),
        detached: Arc::clone(&detached),
        token,
        hosts: Hosts::new(&options.host, address.port()),
        port: address.port(),
        data_dir,
        connections: Arc::clone(&connections),
        lifecycle: Arc::clone(&lifecycle),
    });
    let listening = http::listen(listener, door).map_err(|source| ServeError::System { source })?;
    // It runs while it is awaited; `handle` stops it.
    let http = actix_web::rt::spawn(listening.server);
    let signals = end::listen_to_signals(options.detached, &lifecycle)
        .map_err(|source| ServeError::System { source })?;

    let url = format!("http://{}", dialled(&options.host, address));
    let written = Written::write(
        paths.data_dir(),
        Entry {
            url: url.clone(),
            pid: std::process::id(),
            protocol: PROTOCOL,
            build: crate::build(),
            started: env.now(),
            token_file: token_path(paths.data_dir()),
        },
    )?;
    tracing::info!(url, version = crate::VERSION, "server.started");
    say(&Readiness::Ready { url, pid: std::process::id() })
        .map_err(|source| ServeError::System { source })?;
    engine.resume(config.now().resume.unwrap_or(true));

    let minutes =
        || options.idle_exit.or_else(|| config.now().idle_exit_minutes).unwrap_or(IDLE_EXIT_MINUTES);
    let serving =
        end::Serving { engine, lifecycle, connections, detached, written, handle: listening.handle };
    if options.isolate {
        end::stop_with_input(&serving.lifecycle).map_err(|source| ServeError::System { source })?;
    }
    let stop = tokio::select! {
        stop = serving.lifecycle.stop_requested() => stop,
        stop = serving.idle(minutes) => stop,
        ended = http => {
            tracing::error!(failed = ended.is_err(), "listener.ended");
            Stop::Signal
        }
    };
    serving.end(stop).await;
    drop(signals);
    Ok(())
}

/// The address a client on this machine dials.
fn dialled(host: &str, address: std::net::SocketAddr) -> String {
    if address.ip().is_unspecified() {
        return match address {
            std::net::SocketAddr::V4(_) => format!("127.0.0.1:{}", address.port()),
            std::net::SocketAddr::V6(_) => format!("[::1]:{}", address.port()),
        };
    }
    if address.ip().is_loopback() { address.to_string() } else { format!("{host}:{}", address.port()) }
}

fn say(readiness: &Readiness) -> io::Result<()> {
    let mut line = serde_json::to_string(readiness).map_err(io::Error::other)?;
    line.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_with_each_of_its_causes_once() {
        let error =
            |message: &str, source| gent_storage::StoreError::Failed { message: message.into(), source };
        let io = std::sync::Arc::new(io::Error::other("no room"));
        let cause = std::sync::Arc::new(error("it broke: no room", Some(io)));
        assert_eq!(sentence(&error("try again", Some(cause))), "try again (because: it broke: no room)");
    }

    #[test]
    fn the_entry_names_an_address_that_can_be_dialled() {
        for (host, address, expected) in [
            ("127.0.0.1", "127.0.0.1:7", "127.0.0.1:7"),
            ("localhost", "[::1]:7", "[::1]:7"),
            ("0.0.0.0", "0.0.0.0:7", "127.0.0.1:7"),
            ("::", "[::]:7", "[::1]:7"),
            ("devbox", "10.0.0.7:7", "devbox:7"),
        ] {
            assert_eq!(dialled(host, address.parse().unwrap()), expected);
        }
    }
}
