//! Owns running the program's command line in a test's place, with a clean environment.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use super::{Place, gent_binary, within};

/// A command line to run.
pub struct Cli {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    cwd: PathBuf,
    input: String,
    program: Option<PathBuf>,
}

/// What a command line left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliOutput {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Cli {
    /// `gent` with these arguments, in the place's working directory.
    pub fn new(place: &Place, arguments: &[&str]) -> Self {
        let set = |name: &str, value: String| (name.to_owned(), value);
        let environment = vec![
            set("GENT_DATA_DIR", place.data().display().to_string()),
            set("HOME", place.home().display().to_string()),
            set("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ];
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { arguments, environment, cwd: place.work(), input: String::new(), program: None }
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs this program instead of the one beside the test.
    pub fn program(mut self, program: Option<PathBuf>) -> Self {
        self.program = program;
        self
    }

    /// Runs in another directory.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = directory.into();
        self
    }

    /// Gives it this on standard input.
    pub fn input(mut self, text: &str) -> Self {
        text.clone_into(&mut self.input);
        self
    }

    /// Starts it. It is killed with the value.
    pub async fn start(self) -> Result<Child> {
        #[expect(clippy::disallowed_methods, reason = "the harness starts the program under test")]
        let mut command = Command::new(self.program.map_or_else(gent_binary, Ok)?);
        command.args(&self.arguments).env_clear().envs(self.environment).current_dir(&self.cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().context("no standard input")?;
        // A program that does not read its input may be gone before it is written.
        let _unread = stdin.write_all(self.input.as_bytes()).await.is_err();
        Ok(child)
    }

    /// Runs it to its end.
    pub async fn run(self) -> Result<CliOutput> {
        let what = format!("`gent {}`", self.arguments.join(" "));
        within(&what, async {
            let output = self.start().await?.wait_with_output().await?;
            Ok(CliOutput {
                code: output.status.code(),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            })
        })
        .await
    }
}
