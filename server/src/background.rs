//! Owns the start of a server by a client: attach to the one there is, take over from an older one, else start one that
//! outlives the terminal and learn from itself, over a pipe, that it listens or why it does not.
//! Never signals a process and never takes over what did not prove itself. Tested in `server/tests`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use gent_client::{Attach, Attached, Entry, find_server};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::allocator;
use crate::entry::make_private_dir;
use crate::retire::retire;
use crate::{EntryError, Environment, Paths};

/// How long finding and starting may take together, migrations included.
const START: Duration = Duration::from_secs(60);
/// How long another start of the same moment may take to name itself.
const OTHER_START: Duration = Duration::from_secs(20);
/// How often the entry of that other start is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of the line in which a server says that it is ready.
const LINE_BYTES: u64 = 16 * 1024;

/// Variables a server may have beside those of a session: its own settings and the ways out that a session has not.
/// No key of a provider is among them: clients offer those.
const SERVER_VARIABLES: &[&str] = &[
    "GENT_LOG_LEVEL",
    "GENT_BRANCH_IDLE_SECS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// The first line a server writes to standard output: where it is, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Readiness {
    /// It listens.
    Ready {
        /// Where.
        url: String,
        /// Its process.
        pid: u32,
    },
    /// It does not; only a server in the background says so here.
    Failed {
        /// One sentence.
        error: String,
        /// Another server owns the data directory.
        owned: bool,
    },
}

/// Why there is no server to attach to.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] EntryError),
    /// The entry cannot be used.
    #[error(transparent)]
    Entry(#[from] gent_client::EntryError),
    /// The server said why it did not start.
    #[error("{message}")]
    Refused {
        /// Its sentence.
        message: String,
    },
    /// The server ended without a word.
    #[error("the server ended while it started ({how}): its log is {}", log.display())]
    Died {
        /// Its exit.
        how: String,
        /// Its log.
        log: PathBuf,
    },
    /// The server did not become ready.
    #[error("no server became ready within {} s: its log is {}", after.as_secs(), log.display())]
    Late {
        /// How long was waited.
        after: Duration,
        /// Its log.
        log: PathBuf,
    },
    /// The program could not be started.
    #[error("{} could not be started as a server", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// What answers is not the server of this data directory, whose lock is held all the same.
    #[error("what answers at {} is not the server of {}: end the process that holds its gent.lock", entry.url, data_dir.display())]
    NotOurs {
        /// The entry.
        entry: Box<Entry>,
        /// The data directory.
        data_dir: PathBuf,
    },
    /// The server does not answer.
    #[error("the server (pid {}) at {} does not answer: end it with `kill {}`", entry.pid, entry.url, entry.pid)]
    Stuck {
        /// The entry.
        entry: Box<Entry>,
    },
    /// The server is newer than this program.
    #[error("the server (pid {}) at {} is newer than this gent (protocol {major}): update gent, or end the server with `gent server stop`", entry.pid, entry.url)]
    Newer {
        /// The entry.
        entry: Box<Entry>,
        /// Its protocol.
        major: u32,
    },
    /// The server is older than this program and did not hand over.
    #[error("the server (pid {}) at {} is older than this gent (protocol {major}) and did not hand over, {why}: end it with `gent server stop`", entry.pid, entry.url)]
    NotRetired {
        /// The entry.
        entry: Box<Entry>,
        /// Its protocol.
        major: u32,
        /// Why not, as a part of a sentence.
        why: String,
    },
}

/// Attaches to the server of a data directory; starts one in the background where none runs. Dropping the future
/// leaves a server that was started alone: it ends by itself when nobody comes.
pub async fn ensure_server(paths: &Paths, environment: &Environment) -> Result<Attached, StartError> {
    let mut deadline = Instant::now() + START;
    let mut other_start: Option<Instant> = None;
    loop {
        let foreign = match find_server(paths.data_dir(), &crate::nonce()).await? {
            Attach::Attached(attached) => return Ok(*attached),
            Attach::Stuck { entry } => return Err(StartError::Stuck { entry: Box::new(entry) }),
            Attach::OtherMajor { entry, url, token, major } => {
                retire(paths, entry, &url, &token, major).await?;
                deadline = Instant::now() + START;
                None
            }
            Attach::NoServer | Attach::Silent { .. } => None,
            // The lock decides: free means that the entry is a dead server's.
            Attach::WrongProof { entry } => Some(Box::new(entry)),
        };
        match start(paths, environment, deadline).await? {
            Readiness::Ready { .. } => other_start = None,
            Readiness::Failed { error, owned: false } => return Err(StartError::Refused { message: error }),
            Readiness::Failed { error, owned: true } => {
                if let Some(entry) = foreign {
                    return Err(StartError::NotOurs { entry, data_dir: paths.data_dir().to_path_buf() });
                }
                let since = *other_start.get_or_insert_with(Instant::now);
                if since.elapsed() >= OTHER_START {
                    return Err(StartError::Refused { message: error });
                }
                wait_for_entry(paths).await?;
            }
        }
        if Instant::now() >= deadline {
            return Err(StartError::Late { after: START, log: paths.log() });
        }
    }
}

/// Gives the other start half a second to name itself before ours is tried again: it may have died meanwhile.
async fn wait_for_entry(paths: &Paths) -> Result<(), StartError> {
    let deadline = Instant::now() + LOOK * 25;
    while Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
        if gent_client::read_entry(paths.data_dir())?.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

async fn start(paths: &Paths, environment: &Environment, deadline: Instant) -> Result<Readiness, StartError> {
    make_private_dir(paths.data_dir())?;
    let mut child = spawn(paths, environment, &["--detached"], Stdio::null())?;
    read_readiness(&mut child, paths, deadline).await
}

/// Starts this program as a server with standard output as the pipe of its readiness.
pub(crate) fn spawn(
    paths: &Paths,
    environment: &Environment,
    options: &[&str],
    stdin: Stdio,
) -> Result<Child, StartError> {
    let program = environment.exe().to_path_buf();
    #[expect(
        clippy::disallowed_methods,
        reason = "the server itself is started here, not on behalf of an agent"
    )]
    let mut command = Command::new(&program);
    command
        .arg("serve")
        .args(options)
        .arg("--data-dir")
        .arg(paths.data_dir())
        .current_dir(paths.data_dir())
        .env_clear()
        .envs(server_variables(environment))
        .envs(allocator::SETTINGS)
        .envs(paths.database_url().map(|url| ("GENT_DATABASE_URL", url)))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().map_err(|source| StartError::Spawn { program, source })
}

/// Reads the first line of a starting server.
pub(crate) async fn read_readiness(
    child: &mut Child,
    paths: &Paths,
    deadline: Instant,
) -> Result<Readiness, StartError> {
    let log = paths.log();
    let Some(stdout) = child.stdout.take() else {
        return Err(StartError::Died { how: "without a pipe".into(), log });
    };
    let mut line = String::new();
    let mut reader = BufReader::new(stdout.take(LINE_BYTES));
    let wait = deadline.saturating_duration_since(Instant::now());
    // A line that could not be read is as good as none.
    if timeout(wait, reader.read_line(&mut line)).await.is_err() {
        return Err(StartError::Late { after: START, log });
    }
    match serde_json::from_str(&line) {
        Ok(readiness) => Ok(readiness),
        Err(_no_line) => {
            let how = match timeout(Duration::from_secs(1), child.wait()).await {
                Ok(Ok(status)) => status.to_string(),
                Ok(Err(_)) | Err(_) => "no line".to_owned(),
            };
            Err(StartError::Died { how, log })
        }
    }
}

/// The minimal environment of a server in the background.
fn server_variables(environment: &Environment) -> BTreeMap<OsString, OsString> {
    let session = gent_actors::process::session_environment(environment.variables());
    let mut variables: BTreeMap<OsString, OsString> =
        session.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let failpoints: &[&str] = if cfg!(debug_assertions) { &["GENT_FAILPOINTS"] } else { &[] };
    for name in SERVER_VARIABLES.iter().chain(failpoints) {
        if let Some(value) = environment.var_os(name) {
            variables.insert(name.into(), value.to_owned());
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_no_key_of_a_provider_and_its_own_settings() {
        let given = [
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("OPENAI_API_KEY", "k"),
            ("ANTHROPIC_API_KEY", "k"),
            ("GENT_TOKEN", "t"),
            ("GENT_LOG_LEVEL", "debug"),
            ("HTTPS_PROXY", "http://p"),
            ("RANDOM", "1"),
        ];
        let environment = Environment::of(given.map(|(n, v)| (n.into(), v.into())), "/", "/bin/gent");
        let names: Vec<_> = server_variables(&environment).into_keys().collect();
        assert_eq!(names, ["GENT_LOG_LEVEL", "HOME", "HTTPS_PROXY", "PATH"]);
    }

    #[test]
    fn the_first_line_tells_ready_from_failed() {
        let ready: Readiness = serde_json::from_str(r#"{"url":"http://127.0.0.1:1","pid":7}"#).unwrap();
        assert_eq!(ready, Readiness::Ready { url: "http://127.0.0.1:1".into(), pid: 7 });
        let failed = Readiness::Failed { error: "why".into(), owned: true };
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(serde_json::from_str::<Readiness>(&text).unwrap(), failed);
    }
}
