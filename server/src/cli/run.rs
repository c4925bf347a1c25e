//! Owns how `gent run` and `gent demo` become a request to the runner. Everything taken from the process is taken here.
//! Never shows an answer itself. Tested below and end to end.

use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use gent_actors::process::session_environment;
use gent_client::ServerUrl;
use gent_protocol::{ModelId, RequestId, Secret, WorkspaceId};
use gent_server::{Environment, Paths, nonce};
use gent_tui::{
    Console, Grant, Keyboard, OutputFormat, RunIds, RunRequest, ServerConnector, SessionChoice, Terminals,
    listen, provider_credentials,
};

use super::arguments::{CommonOptions, DemoOptions, Format, RunOptions};
use super::failure::Failure;
use super::prompt::read_prompt;
use super::runtime::block_on;
use super::starter::{PrivateServer, Starter};

/// The model of the demo.
const DEMO_MODEL: &str = "demo/demo";

/// What is to be run, before anything of the process is added.
struct Task {
    prompt: String,
    session: SessionChoice,
    model: Option<ModelId>,
    grant: Grant,
}

/// `gent run`.
pub(crate) fn run(options: RunOptions, environment: &Environment, is_verbose: bool) -> Result<u8, Failure> {
    let stdin = std::io::stdin();
    let is_terminal = stdin.is_terminal();
    let session = match (options.session, options.continue_newest) {
        (Some(session), _) => SessionChoice::Existing(session),
        (None, true) => SessionChoice::Newest,
        (None, false) => SessionChoice::New { agent: options.agent },
    };
    let task = Task {
        prompt: read_prompt(options.prompt, stdin.lock(), is_terminal)?,
        session,
        model: options.model,
        grant: if options.approve_all { Grant::Session } else { Grant::Nothing },
    };
    execute(task, options.common, environment, is_verbose)
}

/// `gent demo`: a run with the model that is made of rules. Only its own fixed commands may run.
pub(crate) fn demo(options: DemoOptions, environment: &Environment, is_verbose: bool) -> Result<u8, Failure> {
    let task = Task {
        prompt: read_prompt(
            Some(options.task.unwrap_or_else(|| gent_extensions::DEMO_PROMPT.to_owned())),
            std::io::empty(),
            true,
        )?,
        session: SessionChoice::New { agent: None },
        model: Some(ModelId::parse(DEMO_MODEL)?),
        // The engine's host knows the demo's own commands; nothing else is allowed.
        grant: Grant::Nothing,
    };
    execute(task, options.common, environment, is_verbose)
}

fn execute(
    task: Task,
    common: CommonOptions,
    environment: &Environment,
    is_verbose: bool,
) -> Result<u8, Failure> {
    let cwd = directory(environment, common.cwd.as_deref())?;
    // A server elsewhere may know others.
    if common.connect.is_none() {
        check_provider(task.model.as_ref())?;
    }
    let workspace = WorkspaceId::for_directory(Path::new(&cwd));
    let private = PrivateServer::default();
    let starter = starter(&common, environment, &private)?;
    let credentials = provider_credentials(environment.variables());
    let request = RunRequest {
        prompt: task.prompt,
        cwd,
        session: task.session,
        model: task.model,
        grant: task.grant,
        env: session_environment(environment.variables()),
        keeps_session: !common.isolate,
        format: match common.output_format {
            Format::Text => OutputFormat::Text,
            Format::Json => OutputFormat::Json,
            Format::StreamJson => OutputFormat::StreamJson,
        },
        timeout: common.timeout.map(Duration::from_secs),
        ids: RunIds {
            create: RequestId::parse(nonce())?,
            send: RequestId::parse(nonce())?,
            cancel: RequestId::parse(nonce())?,
        },
        terminals: Terminals {
            stdout: std::io::stdout().is_terminal(),
            dim_stderr: std::io::stderr().is_terminal() && environment.var_os("NO_COLOR").is_none(),
        },
        verbose: is_verbose,
    };
    // Whoever is asked sees the question and can type.
    let may_ask = request.format == OutputFormat::Text
        && std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal();
    block_on(async {
        let mut interrupts = listen()?;
        let connector = ServerConnector::new(starter, workspace, credentials);
        let mut keyboard = if may_ask { Keyboard::stdin(true) } else { Keyboard::nobody() };
        let outcome =
            gent_tui::run(connector, &request, &mut interrupts, &mut keyboard, &mut Console::new()).await;
        let isolated = private.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(isolated) = isolated {
            tokio::select! {
                () = isolated.end() => {}
                // Dropping it ends the server as well, and nobody waits for that.
                _ = interrupts.recv() => {}
            }
        }
        Ok(outcome.exit_code)
    })
}

/// Refuses a model that no driver serves, before there is a session for it. Which names a provider knows is its own
/// affair.
fn check_provider(model: Option<&ModelId>) -> Result<(), Failure> {
    let Some(model) = model else { return Ok(()) };
    let provider = model.as_str().split('/').next().unwrap_or_default();
    if gent_extensions::PROVIDERS.contains(&provider) {
        return Ok(());
    }
    let known = gent_extensions::PROVIDERS.join(", ");
    Err(Failure::usage(format!("no provider {provider} for the model {model}: the providers are {known}")))
}

fn starter(
    common: &CommonOptions,
    environment: &Environment,
    private: &PrivateServer,
) -> Result<Starter, Failure> {
    if let Some(url) = &common.connect {
        return given(url, environment);
    }
    let paths = Paths::find(environment, None)?;
    let environment = environment.clone();
    Ok(if common.isolate {
        Starter::Private { paths, environment, server: private.clone() }
    } else {
        Starter::Shared { paths, environment }
    })
}

/// The server at an address.
pub(crate) fn given(url: &ServerUrl, environment: &Environment) -> Result<Starter, Failure> {
    let Some(token) = environment.var("GENT_TOKEN") else {
        return Err(Failure::usage("--connect needs the server's token: set GENT_TOKEN"));
    };
    Ok(Starter::Given { url: url.clone(), token: Secret::new(token) })
}

/// The directory to work in: absolute, `.` and `..` resolved without looking at links, and there.
pub(crate) fn directory(environment: &Environment, named: Option<&Path>) -> Result<String, Failure> {
    let joined = match named {
        Some(named) => environment.cwd().join(named),
        None => environment.cwd().to_path_buf(),
    };
    let resolved = resolve(&joined);
    if !resolved.is_dir() {
        return Err(Failure::usage(format!("there is no directory {}", resolved.display())));
    }
    match resolved.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::usage(format!(
            "the path {} is no UTF-8 text: reach the directory through a link that is",
            resolved.display()
        ))),
    }
}

fn resolve(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => resolved.push(component),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(cwd: &Path) -> Environment {
        Environment::of([], cwd, "/bin/gent")
    }

    #[test]
    fn the_directory_is_absolute_and_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        let here = environment(dir.path());
        let whole = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(directory(&here, Some(Path::new("./a/../a"))), Ok(whole("a")));
        assert_eq!(directory(&here, None), Ok(dir.path().to_str().unwrap().to_owned()));
        assert!(directory(&here, Some(Path::new("missing"))).is_err());
    }

    #[test]
    fn a_model_of_a_provider_that_there_is_not_is_refused_before_there_is_a_session() {
        let check = |id: &str| check_provider(ModelId::parse(id).ok().as_ref());
        for id in ["anthropic/x", "openai/a/b", "local/new", "demo/demo"] {
            assert_eq!(check(id), Ok(()), "{id}");
        }
        assert_eq!(check_provider(None), Ok(()));
        let refused =
            "no provider nosuch for the model nosuch/x: the providers are anthropic, openai, local, demo";
        assert_eq!(check("nosuch/x"), Err(Failure::usage(refused)));
    }

    #[test]
    fn a_given_server_needs_its_token() {
        let common = CommonOptions {
            output_format: Format::Text,
            cwd: None,
            connect: Some(gent_client::ServerUrl::new("127.0.0.1", 9)),
            isolate: false,
            timeout: None,
        };
        let bare = environment(Path::new("/"));
        assert!(starter(&common, &bare, &PrivateServer::default()).is_err());
        let with_token = Environment::of([("GENT_TOKEN".into(), "t".into())], "/", "/bin/gent");
        let starter = starter(&common, &with_token, &PrivateServer::default());
        assert!(matches!(starter, Ok(Starter::Given { .. })));
    }
}
