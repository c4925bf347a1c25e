//! Owns what can be written on the command line and what `-h` says of it.
//! Never looks at the environment or the disk. Tested below.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gent_client::ServerUrl;
use gent_protocol::{AgentName, BranchId, ModelId, SessionId};
use gent_server::{COMMIT, LogFormat, VERSION};

/// Talk to coding agents that outlive their terminal.
///
/// gent keeps sessions in a server that it starts in the background. Closing the terminal stops nothing.
#[derive(Debug, Parser)]
#[command(
    name = "gent",
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Begin with `gent demo`: no account and no network needed. Then set OPENAI_API_KEY, OPENAI_BASE_URL or \
                  ANTHROPIC_API_KEY, or start a local model server, and `gent run \"What does this project do?\"`.\n\n\
                  Files are in ~/.gent, or where GENT_DATA_DIR says."
)]
pub(crate) struct Arguments {
    /// Show what lies behind an error.
    #[arg(short, long, global = true, display_order = 1000)]
    pub(crate) verbose: bool,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give an agent one prompt and show its answer.
    Run(RunOptions),
    /// Follow a session live, speak into it and answer what it asks, in plain text.
    Attach(AttachOptions),
    /// Show what an agent does, with a model that is made of rules: no account, no network.
    Demo(DemoOptions),
    /// Serve in the foreground.
    Serve(ServeArguments),
    /// Look at the server in the background, or stop it.
    Server(ServerArguments),
    /// List the sessions of this directory.
    Sessions(SessionsOptions),
    /// List the branch actors of the server.
    Actors(ListOptions),
    /// Check the installation; one line each, with what to do about what fails.
    Doctor(ListOptions),
}

/// How an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The answer on standard output, tools and notices on standard error.
    Text,
    /// One JSON object at the end.
    Json,
    /// Each event of the turn as a line of JSON, then the object.
    StreamJson,
}

/// Options of `gent run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gent run \"Why does the build fail?\"
  git diff | gent run -                     the prompt comes from standard input
  gent run --continue \"And on Windows?\"     goes on in the newest session of this directory
  gent run --output-format json \"…\" | jq -r .text

Exit code: 0 answered, 1 not answered, 2 wrong usage, 130 after Ctrl-C, 143 after SIGTERM.
What must be allowed is asked at a terminal; elsewhere it is refused unless --approve-all is given.
Ctrl-C cancels the turn and waits for its end; a second one leaves at once.")]
pub(crate) struct RunOptions {
    /// The prompt. Without it, or with `-`, it is read from standard input.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// The model; with an existing session it becomes the session's setting.
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<ModelId>,
    /// Go on in this session of the directory.
    #[arg(long, value_name = "ID", conflicts_with_all = ["continue_newest", "isolate"])]
    pub(crate) session: Option<SessionId>,
    /// Go on in the newest session of the directory.
    #[arg(long = "continue", conflicts_with = "isolate")]
    pub(crate) continue_newest: bool,
    /// The agent of a new session; it is fixed from then on.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "continue_newest"])]
    pub(crate) agent: Option<AgentName>,
    /// Let every command of the agent run without asking: only where nothing can be lost. A new session keeps this for
    /// its later turns.
    #[arg(long)]
    pub(crate) approve_all: bool,
    /// What both ways of running have.
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// Options of `gent attach`.
#[derive(Debug, Args)]
#[command(
    after_help = "A typed line is a prompt; while a question is open it answers it (y or n, with notes after it).
`!now TEXT` speaks into the running turn. Ctrl-C stops the turn; within 2 s again it leaves, as does
/quit. What is left goes on in the server. Lines of a pipe each wait for the turn before.

Examples:
  gent attach 01a2…                      ids are in `gent sessions`
  ssh -t build-host gent attach 01a2…
  printf 'fix it\\ntest it\\n' | gent attach 01a2…

Exit code: 0 left, 1 failed (of a pipe: a prompt was not answered), 2 wrong usage, 130 after Ctrl-C,
143 after SIGTERM."
)]
pub(crate) struct AttachOptions {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: SessionId,
    /// The branch; else the one the session shows first.
    #[arg(long, value_name = "ID")]
    pub(crate) branch: Option<BranchId>,
    /// The directory of the session; else the current one.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Talk to the server at this address, with the token in GENT_TOKEN.
    #[arg(long, value_name = "URL")]
    pub(crate) connect: Option<ServerUrl>,
}

/// Options of `gent demo`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gent demo
  gent demo --output-format json | jq .toolCalls

The demo lists files, searches, reads, and writes gent-demo-report.md. Its words are made by rules, not by a model.")]
pub(crate) struct DemoOptions {
    /// What to look for.
    #[arg(value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// What both ways of running have.
    #[command(flatten)]
    pub(crate) common: CommonOptions,
}

/// What `run` and `demo` share.
#[derive(Debug, Args)]
pub(crate) struct CommonOptions {
    /// How the answer is shown.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output_format: Format,
    /// The directory to work in; else the current one.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Talk to the server at this address, with the token in GENT_TOKEN.
    #[arg(long, value_name = "URL", conflicts_with = "isolate")]
    pub(crate) connect: Option<ServerUrl>,
    /// Use a private server and data directory that are gone afterwards.
    #[arg(long)]
    pub(crate) isolate: bool,
    /// Cancel the turn after this time.
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) timeout: Option<u64>,
}

/// The form of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl From<LogForm> for LogFormat {
    fn from(form: LogForm) -> Self {
        match form {
            LogForm::Text => Self::Text,
            LogForm::Json => Self::Json,
        }
    }
}

/// Options of `gent serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "The first line on standard output is one JSON object with `url` and `pid`; logs go to standard error.
A server that outlives the terminal is started by the other commands when they need one.

Examples:
  gent serve --port 4711 --idle-exit 0
  gent serve --data-dir /srv/gent --log-format json"
)]
pub(crate) struct ServeArguments {
    /// The address to listen on. Everybody who reaches it and has the token can run commands: keep it on loopback.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port; 0 takes any.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// The data directory; else GENT_DATA_DIR, else ~/.gent.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Run as a server in the background does: in a session of its own, without a log on standard error.
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// End after so many minutes without a client or a running turn; 0 is never.
    #[arg(long, value_name = "MINUTES")]
    pub(crate) idle_exit: Option<u32>,
    /// The form of the log on standard error.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) log_format: LogForm,
    /// Private to the client that holds standard input: ends with it and removes the data directory.
    #[arg(long, hide = true, requires = "data_dir")]
    pub(crate) isolate: bool,
}

/// `gent server …`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct ServerArguments {
    /// What to do with it.
    #[command(subcommand)]
    pub(crate) command: ServerCommand,
}

/// What to do with the server.
#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Show what it does; exit code 3 when none runs.
    Status(ListOptions),
    /// Stop it: turns that run come to a safe point and go on when a server starts again.
    Stop(ListOptions),
}

/// Options of `gent sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsOptions {
    /// The directory whose sessions are listed; else the current one.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The most sessions to list, newest first.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of what only prints.
#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads the command line.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Arguments, clap::Error> {
    use clap::{CommandFactory, FromArgMatches};
    let version: &'static str = match COMMIT {
        None => VERSION,
        // Once in the life of the process.
        Some(commit) => format!("{VERSION} ({commit})").leak(),
    };
    let matches = Arguments::command().version(version).try_get_matches_from(arguments).map_err(suggest)?;
    let parsed = Arguments::from_arg_matches(&matches)?;
    if let Command::Serve(serve) = &parsed.command
        && serve.host.parse::<IpAddr>().is_err()
        && serve.host != "localhost"
    {
        let message =
            format!("'{}' is no address to listen on: write an IP address or localhost\n", serve.host);
        return Err(Arguments::command().error(ErrorKind::ValueValidation, message));
    }
    Ok(parsed)
}

/// Names the nearest known word where the parser's own measure, which knows no swapped letters, finds none.
fn suggest(mut error: clap::Error) -> clap::Error {
    use clap::CommandFactory;
    use clap::error::{ContextKind, ContextValue};
    let (invalid, suggested) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(invalid) else { return error };
    if error.get(suggested).is_some() {
        return error;
    }
    let mut known = Vec::new();
    collect_words(&Arguments::command(), invalid == ContextKind::InvalidSubcommand, &mut known);
    let distance = |known: &String| strsim::damerau_levenshtein(word, known);
    let nearest = known.into_iter().filter(|known| distance(known) <= 2).min_by_key(distance);
    if let Some(nearest) = nearest {
        let value = if suggested == ContextKind::SuggestedArg {
            ContextValue::String(nearest)
        } else {
            ContextValue::Strings(vec![nearest])
        };
        error.insert(suggested, value);
    }
    error
}

fn collect_words(command: &clap::Command, is_subcommand: bool, known: &mut Vec<String>) {
    if !is_subcommand {
        known.extend(command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))));
    }
    for sub in command.get_subcommands() {
        if is_subcommand {
            known.push(sub.get_name().to_owned());
        }
        collect_words(sub, is_subcommand, known);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse_line(line: &str) -> Result<Arguments, clap::Error> {
        parse(line.split(' ').map(OsString::from).collect())
    }

    fn refused(line: &str) -> (ErrorKind, String, i32) {
        let error = parse_line(line).unwrap_err();
        (error.kind(), error.to_string(), error.exit_code())
    }

    #[test]
    fn the_definitions_hold_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn gent_alone_shows_help_and_is_wrong_usage() {
        let (kind, text, exit_code) = refused("gent");
        assert_eq!((kind, exit_code), (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, 2));
        assert!(text.contains("gent demo"), "{text}");
    }

    #[test]
    fn an_unknown_word_names_the_nearest_known_one() {
        for (line, nearest) in [
            ("gent rnu x", "'run'"),
            ("gent run --cdw /d x", "'--cwd'"),
            ("gent sesions", "'sessions'"),
            ("gent run --modle a/b x", "--model"),
            ("gent server stats", "status"),
            ("gent run --output-format jsn x", "json"),
        ] {
            let (_, text, exit_code) = refused(line);
            assert_eq!(exit_code, 2, "{line}");
            assert!(text.contains(nearest), "{line}: {text}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_wrong_usage() {
        for line in [
            "gent run --session s --continue x",
            "gent run --session s --agent main x",
            "gent run --continue --agent main x",
            "gent run --connect http://h:1 --isolate x",
            "gent run --continue --isolate x",
            "gent run --session s --isolate x",
            "gent attach",
            "gent run --model nothing x",
            "gent run --timeout 0 x",
            "gent serve --host example.com",
            "gent serve --isolate",
        ] {
            assert_eq!(refused(line).2, 2, "{line}");
        }
    }

    #[test]
    fn every_option_of_a_run_is_read() {
        let line = "gent run --model demo/demo --session s --approve-all --cwd /d --timeout 5 --output-format stream-json \
                    --connect http://127.0.0.1:9 -v hello";
        let parsed = parse_line(line).unwrap();
        assert!(parsed.verbose);
        let Command::Run(run) = parsed.command else { panic!("run") };
        assert_eq!(run.prompt.as_deref(), Some("hello"));
        assert_eq!(run.common.output_format, Format::StreamJson);
        assert_eq!(run.common.timeout, Some(5));
        assert_eq!(run.common.connect, Some(ServerUrl::new("127.0.0.1", 9)));
        assert_eq!(run.session, Some(SessionId::parse("s").unwrap()));
    }

    #[test]
    fn every_option_of_an_attach_is_read() {
        let parsed = parse_line("gent attach s --branch b --cwd /d --connect http://127.0.0.1:9").unwrap();
        let Command::Attach(attach) = parsed.command else { panic!("attach") };
        assert_eq!((attach.session.as_str(), attach.branch.unwrap().as_str()), ("s", "b"));
        assert_eq!(attach.connect, Some(ServerUrl::new("127.0.0.1", 9)));
        assert_eq!(attach.cwd, Some(PathBuf::from("/d")));
    }

    #[test]
    fn help_and_version_are_no_failure() {
        for line in [
            "gent --help",
            "gent help",
            "gent help run",
            "gent --version",
            "gent run -h",
            "gent serve --help",
            "gent doctor -h",
        ] {
            assert_eq!(refused(line).2, 0, "{line}");
        }
        assert!(refused("gent --version").1.starts_with(&format!("gent {VERSION}")));
        assert!(refused("gent run -h").1.contains("Exit code: 0 answered"));
    }

    #[test]
    fn help_tells_what_a_choice_means_and_only_what_there_is() {
        let words = |line: &str| refused(line).1.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words("gent run -h").contains("A new session keeps this for its later turns"));
        let serve = words("gent serve -h");
        assert!(serve.contains("without a client or a running turn"), "{serve}");
        for hidden in ["alarm", "--detached", "--isolate"] {
            assert!(!serve.contains(hidden), "{hidden}: {serve}");
        }
    }
}
