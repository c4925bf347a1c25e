//! Owns the look at everything a person needs gent to have: one line each, with one sentence of repair where it fails.
//! Never changes anything, never shows a key, never takes longer than a few seconds. Tested below.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gent_client::{Attach, find_server};
use gent_storage::OpenError;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::entry::Ownership;
use crate::{Config, Environment, Paths, wiring};

/// Ports on which local model servers usually listen.
const LOCAL_PORTS: [u16; 3] = [11434, 1234, 8080];
/// How long each of them is asked.
const LOCAL_WAIT: Duration = Duration::from_millis(300);
/// Variables that name keys and places of providers.
const PROVIDER_VARIABLES: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"];

/// What helps against a database of a newer program.
const UPDATE: &str = "update gent, or set GENT_DATA_DIR to another place";

/// What was found about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorLine {
    /// Which thing.
    pub name: &'static str,
    /// Whether it is as it must be.
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// What to do, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
}

impl DoctorLine {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, ok: true, detail: detail.into(), repair: None }
    }

    fn bad(name: &'static str, detail: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { name, ok: false, detail: detail.into(), repair: Some(repair.into()) }
    }
}

/// Looks at everything, in a fixed order.
pub async fn doctor(paths: &Paths, environment: &Environment) -> Vec<DoctorLine> {
    let (server, local_ports) = tokio::join!(look_at_server(paths), find_local_models());
    vec![
        look_at_data_dir(paths.data_dir()),
        look_at_database(paths, environment),
        look_at_lock(paths),
        server,
        look_at_config(paths),
        look_at_keys(environment, !local_ports.is_empty()),
        tell_local_models(&local_ports),
        look_at_terminal(environment),
        look_for_git(environment),
    ]
}

fn look_at_data_dir(data_dir: &Path) -> DoctorLine {
    const NAME: &str = "data directory";
    let shown = data_dir.display();
    let facts = match std::fs::metadata(data_dir) {
        Ok(facts) => facts,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return look_at_place_of_data_dir(data_dir);
        }
        Err(error) => {
            return DoctorLine::bad(NAME, format!("{shown}: {error}"), "make it readable for yourself");
        }
    };
    if !facts.is_dir() {
        return DoctorLine::bad(
            NAME,
            format!("{shown} is no directory"),
            "move it away, or set GENT_DATA_DIR",
        );
    }
    let probe = data_dir.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::File::create(&probe).and_then(|mut file| file.write_all(b"x"));
    // What was not made need not go.
    let _absent = std::fs::remove_file(&probe).is_err();
    if let Err(error) = written {
        let repair = "free space or make it writable for yourself, or set GENT_DATA_DIR";
        return DoctorLine::bad(NAME, format!("{shown} cannot be written: {error}"), repair);
    }
    let mode = facts.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let repair = format!("run `chmod 700 {shown}`");
        return DoctorLine::bad(NAME, format!("{shown} is open to others (mode {mode:o})"), repair);
    }
    DoctorLine::good(NAME, format!("{shown}, private and writable"))
}

/// Whether the directory can be made: tried with another one, which is taken away again, in the nearest place there is.
fn look_at_place_of_data_dir(data_dir: &Path) -> DoctorLine {
    const NAME: &str = "data directory";
    let shown = data_dir.display();
    let place = data_dir.ancestors().skip(1).find(|place| place.exists()).unwrap_or(data_dir);
    let probe = place.join(format!(".gent-doctor-{}", std::process::id()));
    match std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)) {
        Ok(()) => DoctorLine::good(NAME, format!("{shown} does not exist yet; the first start makes it")),
        Err(error) => DoctorLine::bad(
            NAME,
            format!("{shown} does not exist and cannot be made in {}: {error}", place.display()),
            format!("make {} writable for yourself, or set GENT_DATA_DIR", place.display()),
        ),
    }
}

fn look_at_database(paths: &Paths, environment: &Environment) -> DoctorLine {
    const NAME: &str = "database";
    if paths.database_url().is_none() && !paths.database().exists() {
        return DoctorLine::good(NAME, "does not exist yet; the first start makes it");
    }
    let location = match wiring::location(paths, environment.cwd()) {
        Ok(location) => location,
        Err(error) => {
            return DoctorLine::bad(NAME, error.to_string(), "correct GENT_DATABASE_URL or unset it");
        }
    };
    let inspection = match gent_storage::inspect(&location) {
        Ok(inspection) => inspection,
        Err(error) => {
            return DoctorLine::bad(NAME, error.to_string(), repair_of_database(&error, &paths.backups()));
        }
    };
    if let Some(first) = inspection.damage.first().or(inspection.dangling.first()) {
        let n_found = inspection.damage.len().saturating_add(inspection.dangling.len());
        let repair = repair_of_damage(&paths.backups());
        return DoctorLine::bad(NAME, format!("{n_found} faults, the first: {first}"), repair);
    }
    let Some(schema) = inspection.schema else {
        return DoctorLine::good(NAME, "empty; the first start fills it");
    };
    if schema > inspection.known {
        let detail = format!("schema {schema} is newer than this program's {}", inspection.known);
        return DoctorLine::bad(NAME, detail, UPDATE);
    }
    DoctorLine::good(NAME, format!("whole, schema {schema}"))
}

fn repair_of_database(error: &OpenError, backups: &Path) -> String {
    match error {
        OpenError::Foreign { .. } => {
            let elsewhere = "set GENT_DATA_DIR or GENT_DATABASE_URL to another place";
            // Where copies were made, the file was ours before something wrote over it.
            newest_copy(backups).map_or_else(
                || elsewhere.to_owned(),
                |copy| format!("{elsewhere}, or put {} in its place", copy.display()),
            )
        }
        OpenError::Newer { .. } => UPDATE.to_owned(),
        OpenError::InUse { .. } => "stop the other server".to_owned(),
        OpenError::Unreachable { .. } => {
            "make it reachable and readable for yourself, or set GENT_DATABASE_URL to another place"
                .to_owned()
        }
        OpenError::Full { .. } => "free some space on its disk".to_owned(),
        OpenError::Migration { .. } | OpenError::Damaged { .. } | OpenError::Failed { .. } => {
            repair_of_damage(backups)
        }
    }
}

fn repair_of_damage(backups: &Path) -> String {
    match newest_copy(backups) {
        Some(copy) => format!("stop the server, move the file away and put {} in its place", copy.display()),
        None => "stop the server and move the file away: the next start makes a new one".to_owned(),
    }
}

/// The newest of the copies made before migrations: their names begin with schema and time.
fn newest_copy(backups: &Path) -> Option<PathBuf> {
    let paths = std::fs::read_dir(backups).ok()?.flatten().map(|file| file.path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == "db")).max()
}

fn look_at_lock(paths: &Paths) -> DoctorLine {
    const NAME: &str = "lock";
    if !paths.lock().exists() {
        return DoctorLine::good(NAME, "free");
    }
    match Ownership::take(paths.data_dir(), &paths.lock(), None) {
        Ok(_free) => DoctorLine::good(NAME, "free"),
        Err(crate::EntryError::Owned { pid: Some(pid), .. }) => {
            DoctorLine::good(NAME, format!("held by a server (pid {pid})"))
        }
        Err(crate::EntryError::Owned { pid: None, .. }) => {
            DoctorLine::bad(NAME, "held, and nobody has named itself", "wait a moment and look again")
        }
        Err(error @ crate::EntryError::File { .. }) => {
            DoctorLine::bad(NAME, error.to_string(), "make the data directory writable for yourself")
        }
    }
}

async fn look_at_server(paths: &Paths) -> DoctorLine {
    const NAME: &str = "server";
    match find_server(paths.data_dir(), &crate::nonce()).await {
        Ok(Attach::Attached(attached)) => {
            DoctorLine::good(NAME, format!("runs at {} (build {})", attached.url, attached.identity.build))
        }
        Ok(Attach::NoServer) => DoctorLine::good(NAME, "none runs; the first command starts one"),
        Ok(Attach::Silent { .. }) => {
            DoctorLine::good(NAME, "none runs; the entry of an earlier one is replaced")
        }
        Ok(Attach::Stuck { entry }) => DoctorLine::bad(
            NAME,
            format!("pid {} at {} does not answer", entry.pid, entry.url),
            format!("end it with `kill {}`", entry.pid),
        ),
        Ok(Attach::WrongProof { entry }) => DoctorLine::bad(
            NAME,
            format!("what answers at {} is not the server of this directory", entry.url),
            "start one with `gent serve`: it takes over when the directory is free",
        ),
        Ok(Attach::OtherMajor { entry, major, .. }) => DoctorLine::bad(
            NAME,
            format!("pid {} speaks protocol {major}", entry.pid),
            "end it with `gent server stop`",
        ),
        Err(error) => {
            DoctorLine::bad(NAME, error.to_string(), "make the data directory readable for yourself")
        }
    }
}

fn look_at_config(paths: &Paths) -> DoctorLine {
    const NAME: &str = "configuration";
    let config = Config::read(paths.config().as_deref());
    match config.complaints.first() {
        None => DoctorLine::good(NAME, "nothing is wrong with it"),
        Some(_) => DoctorLine::bad(NAME, config.complaints.join("; "), "correct the named keys"),
    }
}

fn look_at_keys(environment: &Environment, has_local_models: bool) -> DoctorLine {
    let set: Vec<_> =
        PROVIDER_VARIABLES.into_iter().filter(|name| environment.var_os(name).is_some()).collect();
    let detail = match (set.is_empty(), has_local_models) {
        (false, _) => format!("set: {}", set.join(", ")),
        (true, true) => "no provider variable is set; local models need none".to_owned(),
        (true, false) => format!(
            "no model can be found: no local server answers and none of {} is set; `gent demo` needs none",
            PROVIDER_VARIABLES.join(", ")
        ),
    };
    DoctorLine::good("keys", detail)
}

/// The ports on which a local model server answers.
async fn find_local_models() -> Vec<u16> {
    let [a, b, c] = LOCAL_PORTS.map(answers_models);
    let (a, b, c) = tokio::join!(a, b, c);
    LOCAL_PORTS.into_iter().zip([a, b, c]).filter_map(|(port, is_found)| is_found.then_some(port)).collect()
}

fn tell_local_models(found: &[u16]) -> DoctorLine {
    let list = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let detail = if found.is_empty() {
        format!("none on {}", list(&LOCAL_PORTS))
    } else {
        format!("found on {}", list(found))
    };
    DoctorLine::good("local models", detail)
}

/// Whether something on a loopback port lists models.
async fn answers_models(port: u16) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request =
            format!("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut start = [0; 12];
        stream.read_exact(&mut start).await?;
        Ok::<_, std::io::Error>(start.starts_with(b"HTTP/1.") && start.ends_with(b" 200"))
    };
    matches!(timeout(LOCAL_WAIT, asked).await, Ok(Ok(true)))
}

fn look_at_terminal(environment: &Environment) -> DoctorLine {
    let kind = environment.var("TERM").unwrap_or("unknown");
    let detail = if std::io::stdout().is_terminal() {
        format!("{kind}, answers stream as they come")
    } else {
        format!("{kind}, standard output is no terminal: answers are printed whole")
    };
    DoctorLine::good("terminal", detail)
}

fn look_for_git(environment: &Environment) -> DoctorLine {
    let is_program = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let found = environment
        .var_os("PATH")
        .and_then(|path| std::env::split_paths(path).map(|dir| dir.join("git")).find(|git| is_program(git)));
    DoctorLine::good(
        "git",
        match found {
            Some(git) => git.display().to_string(),
            None => "not found on PATH; files are listed without it".to_owned(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn on_a_machine_where_nothing_was_started_nothing_fails_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("none");
        let variables = [("GENT_DATA_DIR", data_dir.to_str().unwrap()), ("OPENAI_API_KEY", "sk-secret")];
        let environment =
            Environment::of(variables.map(|(n, v)| (n.into(), v.into())), dir.path(), "/bin/gent");
        let lines = doctor(&Paths::find(&environment, None).unwrap(), &environment).await;
        assert!(lines.iter().all(|line| line.ok && line.repair.is_none()), "{lines:?}");
        let names: Vec<_> = lines.iter().map(|line| line.name).collect();
        assert_eq!(
            names,
            [
                "data directory",
                "database",
                "lock",
                "server",
                "configuration",
                "keys",
                "local models",
                "terminal",
                "git"
            ]
        );
        let text = serde_json::to_string(&lines).unwrap();
        assert!(text.contains("OPENAI_API_KEY") && !text.contains("sk-secret"));
        assert!(!data_dir.exists());
    }

    #[test]
    fn a_directory_that_others_may_read_fails_with_its_repair() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let line = look_at_data_dir(dir.path());
        assert!(!line.ok && line.repair.unwrap().starts_with("run `chmod 700 "));
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(look_at_data_dir(dir.path()).ok);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_can_be_made_is_well_and_one_that_cannot_fails_with_its_repair() {
        let dir = tempfile::tempdir().unwrap();
        assert!(look_at_data_dir(&dir.path().join("a/b")).ok);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        // Nobody makes a directory there, whatever their rights.
        if cfg!(target_os = "linux") {
            let line = look_at_data_dir(Path::new("/proc/gent/data"));
            assert!(!line.ok && line.detail.contains("cannot be made in /proc"), "{line:?}");
            assert!(line.repair.unwrap().contains("set GENT_DATA_DIR"));
        }
    }

    #[test]
    fn without_any_model_the_line_about_keys_says_so() {
        let detail = |variables: &[(&str, &str)], has_local_models| {
            let variables = variables.iter().map(|(n, v)| (n.into(), v.into()));
            look_at_keys(&Environment::of(variables, "/w", "/bin/gent"), has_local_models).detail
        };
        assert!(detail(&[], false).starts_with("no model can be found"));
        assert!(!detail(&[], true).contains("no model can be found"));
        assert_eq!(detail(&[("OPENAI_API_KEY", "sk-secret")], false), "set: OPENAI_API_KEY");
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_fails() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "").unwrap();
        assert!(!look_at_data_dir(&file).ok);
    }

    #[test]
    fn the_repair_of_a_database_fits_its_fault_and_names_a_copy_only_where_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::of([], dir.path(), "/bin/gent");
        let paths = Paths::find(&environment, Some(dir.path())).unwrap();
        let look = || look_at_database(&paths, &environment);
        std::fs::write(paths.database(), "").unwrap();
        assert!(look().ok, "{:?}", look());
        std::fs::write(paths.database(), "somebody else's file. ".repeat(100)).unwrap();
        let repair = look().repair.unwrap();
        assert!(repair.contains("to another place") && !repair.contains("backups"), "{repair}");
        assert!(!repair_of_damage(&paths.backups()).contains("backups"));

        std::fs::create_dir(paths.backups()).unwrap();
        for name in ["data-1-7.db", "data-2-5.db", "note.txt"] {
            std::fs::write(paths.backups().join(name), "").unwrap();
        }
        assert!(look().repair.unwrap().contains("backups/data-2-5.db"));
        assert!(repair_of_damage(&paths.backups()).contains("backups/data-2-5.db"));
        let (place, found, known) = ("p".to_owned(), "9".to_owned(), "1".to_owned());
        let newer = OpenError::Newer { place, found, known };
        assert!(repair_of_database(&newer, &paths.backups()).starts_with("update gent"));
    }
}
