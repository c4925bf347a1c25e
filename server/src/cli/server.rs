//! Owns `gent server status` and `gent server stop`. Never starts a server. Tested below and end to end.

use gent_client::{Attach, Attached, Client, connect, find_server};
use gent_protocol::{Millis, ServerStatus, Status};
use gent_server::{Environment, Paths, Stopped, nonce, stop_server};
use serde::Serialize;

use super::arguments::ListOptions;
use super::failure::{EXIT_NO_SERVER, Failure, say, say_json};
use super::runtime::block_on;

#[derive(Serialize)]
struct Running<'a> {
    running: bool,
    url: String,
    #[serde(flatten)]
    status: &'a ServerStatus,
}

#[derive(Serialize)]
struct NotRunning {
    running: bool,
}

#[derive(Serialize)]
struct StopReply {
    stopped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

/// The server of the data directory, if one runs and is ours.
pub(crate) async fn find(paths: &Paths) -> Result<Option<(Attached, Client)>, Failure> {
    let attached = match find_server(paths.data_dir(), &nonce()).await? {
        Attach::Attached(attached) => *attached,
        Attach::NoServer | Attach::Silent { .. } => return Ok(None),
        Attach::Stuck { entry } => {
            let (pid, url) = (entry.pid, entry.url);
            return Err(Failure::of(&Unusable(format!(
                "the server (pid {pid}) at {url} does not answer: end it with `kill {pid}`"
            ))));
        }
        Attach::WrongProof { entry } => {
            let (url, data_dir) = (entry.url, paths.data_dir().display());
            return Err(Failure::of(&Unusable(format!(
                "what answers at {url} is not the server of {data_dir}: remove its server.json if none runs"
            ))));
        }
        Attach::OtherMajor { entry, major, .. } => {
            let pid = entry.pid;
            return Err(Failure::of(&Unusable(format!(
                "the server (pid {pid}) is of another version (protocol {major}): end it with `gent server stop`"
            ))));
        }
    };
    let client = connect(&attached.url, &attached.token).await?;
    Ok(Some((attached, client)))
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unusable(String);

/// The sentence for there being none.
pub(crate) fn none_runs(paths: &Paths) -> String {
    format!("no server runs for {}", paths.data_dir().display())
}

/// `gent server status`.
pub(crate) fn status(options: &ListOptions, environment: &Environment) -> Result<u8, Failure> {
    let paths = Paths::find(environment, None)?;
    let found = block_on(async {
        let Some((attached, client)) = find(&paths).await? else { return Ok(None) };
        let status = client.call(Status {}).await?;
        Ok(Some((attached, status)))
    })?;
    match found {
        None if options.json => {
            say_json(&NotRunning { running: false })?;
            Ok(EXIT_NO_SERVER)
        }
        None => {
            say(&format!("{}\n", none_runs(&paths)))?;
            Ok(EXIT_NO_SERVER)
        }
        Some((attached, status)) => {
            let url = attached.url.to_string();
            if options.json {
                say_json(&Running { running: true, url, status: &status })?;
            } else {
                say(&render(&url, &status))?;
            }
            Ok(0)
        }
    }
}

/// `gent server stop`.
pub(crate) fn stop(options: &ListOptions, environment: &Environment) -> Result<u8, Failure> {
    let paths = Paths::find(environment, None)?;
    let stopped = block_on(async { Ok(stop_server(&paths).await?) })?;
    match (stopped, options.json) {
        (Stopped::Stopped { pid }, true) => say_json(&StopReply { stopped: true, pid: Some(pid) })?,
        (Stopped::NotRunning, true) => say_json(&StopReply { stopped: false, pid: None })?,
        (Stopped::Stopped { pid }, false) => say(&format!("stopped the server (pid {pid})\n"))?,
        (Stopped::NotRunning, false) => say(&format!("{}\n", none_runs(&paths)))?,
    }
    Ok(0)
}

fn render(url: &str, status: &ServerStatus) -> String {
    let branches = status.branches;
    let database = status.database.path.as_deref().unwrap_or("PostgreSQL");
    let draining = if status.draining { ", draining: it takes no new turns" } else { "" };
    format!(
        "gent {} (protocol {}.{}), pid {}, up {}{draining}\n\
         url          {url}\n\
         data         {}\n\
         database     {database} (synchronous {})\n\
         connections  {}\n\
         branches     {} resident, {} running, {} waiting, {} faulted\n\
         dead letters {}\n\
         writer       {} queued, last group {:.1} ms\n",
        status.version,
        status.protocol.major,
        status.protocol.minor,
        status.pid,
        uptime(status.uptime_ms),
        status.data_dir,
        status.database.synchronous,
        status.connections,
        branches.resident,
        branches.running,
        branches.waiting,
        branches.faulted,
        status.dead_letters,
        status.writer.queued,
        status.writer.group_ms,
    )
}

fn uptime(uptime: Millis) -> String {
    let seconds = uptime.0.max(0) / 1000;
    format!("{}h {:02}m {:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use gent_protocol::{BranchCounts, DatabaseKind, DatabaseStatus, PROTOCOL, WriterStatus};

    use super::*;

    #[test]
    fn a_status_reads_as_lines() {
        let status = ServerStatus {
            version: "0.1.0".into(),
            protocol: PROTOCOL,
            pid: 7,
            uptime_ms: Millis(3_723_000),
            data_dir: "/d".into(),
            database: DatabaseStatus {
                kind: DatabaseKind::Sqlite,
                path: Some("/d/data.db".into()),
                synchronous: "normal".into(),
            },
            connections: 1,
            branches: BranchCounts { resident: 2, running: 1, waiting: 0, faulted: 0 },
            dead_letters: 0,
            writer: WriterStatus { queued: 0, group_ms: 0.25 },
            draining: false,
        };
        let expected = "\
gent 0.1.0 (protocol 1.0), pid 7, up 1h 02m 03s
url          http://127.0.0.1:9
data         /d
database     /d/data.db (synchronous normal)
connections  1
branches     2 resident, 1 running, 0 waiting, 0 faulted
dead letters 0
writer       0 queued, last group 0.2 ms
";
        assert_eq!(render("http://127.0.0.1:9", &status), expected);
        let json = serde_json::to_value(Running { running: true, url: "u".into(), status: &status }).unwrap();
        assert_eq!((&json["running"], &json["pid"]), (&true.into(), &7.into()));
    }
}
