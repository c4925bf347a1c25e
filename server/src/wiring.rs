//! Owns the choice of every concrete part: which database, which store, which extensions, which clock.
//! Nothing else builds one. Never serves a request. Tested below and end to end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gent_actors::{Engine, EngineConfig, Env, Hub, ProcessPlace, Settings, StandingApproval};
use gent_extension_api::{ApprovalRequest, Extension};
use gent_extensions::{
    Agents, ExecTools, FsTools, InteractionTools, ProviderSettings, StreamIdle, is_demo_command,
    provider_extensions,
};
use gent_protocol::{ModelId, Secret, StoreIncarnation};
use gent_storage::{Location, Mode, Store, StoreConfig, Synchronous};

use crate::config::LiveConfig;
use crate::serve::ServeError;
use crate::{Config, Environment, Paths};

/// Threads that read the database: one for what people wait for, one for what is long.
const READERS: usize = 2;
/// Threads for branches, at most: they only move messages.
const ARBITERS: usize = 2;
/// Threads for model streams and tools, at most.
const IO_THREADS: usize = 4;
/// How long a branch that nothing holds stays in memory.
const BRANCH_IDLE: Duration = Duration::from_secs(60);

/// An opened store.
pub(crate) struct Opened {
    /// The store.
    pub(crate) store: Store,
    /// Where its envelopes go.
    hub: Hub,
}

/// Where the database is: `GENT_DATABASE_URL`, else in the data directory. A relative file is taken from `cwd`.
pub(crate) fn location(paths: &Paths, cwd: &Path) -> Result<Location, ServeError> {
    match paths.database_url() {
        None => Ok(Location::Sqlite(paths.database())),
        Some(url) if is_postgres(url) => postgres(url),
        Some(file) => Ok(Location::Sqlite(cwd.join(file.strip_prefix("sqlite:").unwrap_or(file)))),
    }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

#[cfg(feature = "postgres")]
#[expect(clippy::unnecessary_wraps, reason = "the other build refuses")]
fn postgres(url: &str) -> Result<Location, ServeError> {
    Ok(Location::Postgres(url.to_owned()))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_url: &str) -> Result<Location, ServeError> {
    Err(ServeError::Database {
        message: "this gent was built without PostgreSQL: unset GENT_DATABASE_URL, or build with --features postgres"
            .to_owned(),
    })
}

/// The lock of a database file that lies outside the data directory: two data directories may name one file.
pub(crate) fn lock_of_database(paths: &Paths, cwd: &Path) -> Option<PathBuf> {
    match location(paths, cwd) {
        Ok(Location::Sqlite(file)) if file != paths.database() => {
            let mut lock = file.into_os_string();
            lock.push(".lock");
            Some(lock.into())
        }
        _ => None,
    }
}

/// Opens the store, migrating it where needed.
pub(crate) fn open_store(
    paths: &Paths,
    environment: &Environment,
    config: &Config,
    env: &Env,
) -> Result<Opened, ServeError> {
    arm_failpoints(environment)?;
    let incarnation = StoreIncarnation::parse(env.new_id())
        .map_err(|error| ServeError::Database { message: error.to_string() })?;
    let synchronous =
        if config.is_fully_synchronous.unwrap_or(false) { Synchronous::Full } else { Synchronous::Normal };
    let hub = Hub::default();
    let store = Store::open(
        StoreConfig {
            location: location(paths, environment.cwd())?,
            synchronous,
            readers: READERS,
            mode: Mode::Threaded,
            new_incarnation: incarnation,
            boot_id: boot_id(),
            backups: Some(paths.backups()),
            now: env.now(),
        },
        Arc::new(hub.clone()),
    )?;
    Ok(Opened { store, hub })
}

/// Names this boot of the machine, where the system does.
fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(debug_assertions)]
fn arm_failpoints(environment: &Environment) -> Result<(), ServeError> {
    match environment.var("GENT_FAILPOINTS").map(gent_storage::failpoint::arm) {
        Some(Err(message)) => Err(ServeError::Database { message: format!("GENT_FAILPOINTS: {message}") }),
        Some(Ok(())) | None => Ok(()),
    }
}

#[cfg(not(debug_assertions))]
#[expect(clippy::unnecessary_wraps, reason = "the debug build refuses a wrong list")]
fn arm_failpoints(_environment: &Environment) -> Result<(), ServeError> {
    Ok(())
}

/// Starts the engine on the running system. Nothing of what it is told may show in a tool's result: neither the
/// server's token nor the address of a database server.
pub(crate) fn start_engine(
    paths: &Paths,
    environment: &Environment,
    config: &Arc<LiveConfig>,
    env: &Env,
    opened: &Opened,
    token: &str,
) -> Result<Engine, ServeError> {
    let secrets = [Some(token), paths.database_url().filter(|url| is_postgres(url))];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let engine_config = EngineConfig {
        node_start: env.new_id(),
        branch_idle: branch_idle(environment.var("GENT_BRANCH_IDLE_SECS")),
        process: ProcessPlace {
            child_program: own_program(environment),
            children_lock: paths.children_lock(),
        },
        home: paths.home().map(Path::to_path_buf),
        gent_home: paths.gent_home(),
        platform: platform(),
        shell: environment.var("SHELL").map(str::to_owned),
        settings: Arc::new(UserSettings(Arc::clone(config))),
        standing_approval: Arc::new(DemoCommands),
        secrets: secrets.into_iter().flatten().map(Secret::new).collect(),
        arbiters: cores.min(ARBITERS),
        io_threads: cores.clamp(2, IO_THREADS),
    };
    let (store, hub) = (opened.store.clone(), opened.hub.clone());
    Ok(Engine::start(engine_config, store, hub, extensions(config), env.clone())?)
}

/// The shipped extensions; drivers come last, so that tools and agents are there when one is asked.
fn extensions(config: &Arc<LiveConfig>) -> Vec<Arc<dyn Extension>> {
    let mut extensions: Vec<Arc<dyn Extension>> =
        vec![Arc::new(Agents), Arc::new(FsTools::default()), Arc::new(ExecTools), Arc::new(InteractionTools)];
    extensions.extend(provider_extensions(&provider_settings(config)));
    extensions
}

/// What the drivers are built with; how long a stream may be silent is asked for at each stream.
fn provider_settings(config: &Arc<LiveConfig>) -> ProviderSettings {
    let (settings, config) = (ProviderSettings::default(), Arc::clone(config));
    let usual = settings.stream_idle.now();
    let stream_idle = StreamIdle::asked(move || {
        config.now().stream_idle_seconds.map_or(usual, |seconds| Duration::from_secs(u64::from(seconds)))
    });
    ProviderSettings { stream_idle, ..settings }
}

/// The program that understands `__child`. On Linux the link of the running process: it stays right when the file is
/// replaced by a newer one.
fn own_program(environment: &Environment) -> PathBuf {
    let link = Path::new("/proc/self/exe");
    if link.exists() { link.to_path_buf() } else { environment.exe().to_path_buf() }
}

fn branch_idle(seconds: Option<&str>) -> Duration {
    match seconds.map(str::parse::<u64>) {
        None => BRANCH_IDLE,
        Some(Ok(seconds)) => Duration::from_secs(seconds.max(1)),
        Some(Err(_)) => {
            tracing::warn!("environment.branch_idle_unusable");
            BRANCH_IDLE
        }
    }
}

/// The operating system and its release, for the model to read.
fn platform() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim()).trim_end().to_owned()
}

/// The user's configuration, as it is at each look.
struct UserSettings(Arc<LiveConfig>);

impl Settings for UserSettings {
    fn model(&self) -> Option<ModelId> {
        self.0.now().model.clone()
    }

    fn notices(&self) -> Vec<String> {
        self.0.now().complaints.clone()
    }
}

/// The demo may run exactly its own command, and nothing else may run without being asked for.
struct DemoCommands;

impl StandingApproval for DemoCommands {
    fn allows(&self, model: &ModelId, request: &ApprovalRequest) -> bool {
        let Some(facts) = &request.metadata else { return false };
        let text = |name: &str| facts.get(name).and_then(serde_json::Value::as_str);
        model.as_str() == "demo/demo"
            && text("type") == Some("bash-guardrail")
            && text("command").is_some_and(is_demo_command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(url: Option<&str>) -> Paths {
        let mut variables = vec![("HOME", "/h")];
        variables.extend(url.map(|url| ("GENT_DATABASE_URL", url)));
        let environment =
            Environment::of(variables.into_iter().map(|(n, v)| (n.into(), v.into())), "/w", "/gent");
        Paths::find(&environment, None).unwrap()
    }

    fn file(url: Option<&str>) -> PathBuf {
        match location(&paths(url), Path::new("/w")).unwrap() {
            Location::Sqlite(file) if file.is_absolute() => file,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_database_is_in_the_data_directory_unless_it_is_named() {
        assert_eq!(file(None), Path::new("/h/.gent/data.db"));
        assert_eq!(file(Some("/x/y.db")), Path::new("/x/y.db"));
        assert_eq!(file(Some("sqlite:y.db")), Path::new("/w/y.db"));
        assert_eq!(lock_of_database(&paths(None), Path::new("/w")), None);
        assert_eq!(lock_of_database(&paths(Some("y.db")), Path::new("/w")), Some("/w/y.db.lock".into()));
    }

    #[test]
    fn the_demo_may_run_its_own_command_and_no_other_model_and_no_other_command_may() {
        let asked = |command: &str, kind: &str| ApprovalRequest {
            text: String::new(),
            metadata: Some(serde_json::json!({"type": kind, "command": command})),
        };
        let model = |id: &str| ModelId::parse(id).unwrap();
        assert!(!DemoCommands.allows(&model("demo/demo"), &asked("rm -rf /", "bash")));
        assert!(
            !DemoCommands
                .allows(&model("demo/demo"), &ApprovalRequest { text: String::new(), metadata: None })
        );
        assert!(!DemoCommands.allows(&model("openai/demo"), &asked("git ls-files", "bash")));
    }

    #[test]
    fn faults_of_the_configuration_are_read_afresh_at_each_look() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let settings = UserSettings(Arc::new(LiveConfig::new(Some(file.clone()))));
        assert_eq!(settings.notices(), Vec::<String>::new());
        std::fs::write(&file, r#"{"modell":"a/b"}"#).unwrap();
        assert!(matches!(settings.notices().as_slice(), [one] if one.contains("`modell`")));
    }

    #[test]
    fn how_long_a_stream_may_be_silent_is_read_afresh_for_each_stream() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let settings = provider_settings(&Arc::new(LiveConfig::new(Some(file.clone()))));
        assert_eq!(settings.stream_idle.now(), Duration::from_secs(300));
        std::fs::write(&file, r#"{"streamIdleSeconds":7}"#).unwrap();
        assert_eq!(settings.stream_idle.now(), Duration::from_secs(7));
    }

    #[test]
    fn the_idle_time_of_a_branch_is_a_number_of_seconds_of_at_least_one() {
        assert_eq!(branch_idle(None), BRANCH_IDLE);
        assert_eq!(branch_idle(Some("7")), Duration::from_secs(7));
        assert_eq!(branch_idle(Some("0")), Duration::from_secs(1));
        assert_eq!(branch_idle(Some("soon")), BRANCH_IDLE);
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn a_build_without_postgresql_says_so_and_shows_no_password() {
        let refused =
            location(&paths(Some("postgres://u:secret@h/d")), Path::new("/w")).unwrap_err().to_string();
        assert!(refused.contains("without PostgreSQL") && !refused.contains("secret"), "{refused}");
    }
}
