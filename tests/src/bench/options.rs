//! Owns the arguments of the measuring programs.

use std::path::PathBuf;

/// What is measured, with what, where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program; the built one beside the benchmark when absent.
    pub gent: Option<PathBuf>,
    /// Base URL of the model server, with `/v1`; the scripted server when absent.
    pub model_url: Option<String>,
    /// Log of that server, JSON lines with `sid`, `round`, `t_body`, `t_end`; without it no overhead is measured.
    pub model_log: Option<PathBuf>,
    /// Parent of the data directories: must be on a real disk.
    pub data_dir: PathBuf,
    /// The one measurement to take; all when absent.
    pub only: Option<String>,
    /// How often each figure is taken.
    pub runs: usize,
    /// Seconds of idleness that are watched.
    pub idle_secs: u64,
    /// Sessions of the memory measurement.
    pub sessions: usize,
}

/// The arguments cannot be used.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Options {
    /// The flags, for people.
    pub const HELP: &str = "  --gent PATH        the program to measure (default: the one beside this one)\n  \
        --model-url URL    a model server with /v1, or `own` (default: own)\n  \
        --model-log FILE   the log of that server, for the overhead\n  \
        --data-dir DIR     parent of the data directories, on a real disk (default: target/bench)\n  \
        --only NAME        one measurement\n  \
        --runs N           how often each figure is taken (default: 20)\n  \
        --idle-secs N      how long idleness is watched (default: 30)\n  \
        --sessions N       sessions of the memory measurement (default: 1000)";

    /// Reads the arguments after the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, UsageError> {
        let data_dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
        let mut options = Self {
            gent: None,
            model_url: None,
            model_log: None,
            data_dir,
            only: None,
            runs: 20,
            idle_secs: 30,
            sessions: 1000,
        };
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| UsageError(format!("{flag} needs a value")))?;
            options.set(&flag, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: String) -> Result<(), UsageError> {
        let number =
            |value: &str| value.parse().map_err(|_unfit| UsageError(format!("{flag} needs a number")));
        match flag {
            "--gent" => {
                let absolute = std::path::absolute(&value);
                self.gent = Some(absolute.map_err(|_empty| UsageError("--gent needs a path".into()))?);
            }
            "--model-url" => self.model_url = Some(value).filter(|url| url != "own"),
            "--model-log" => self.model_log = Some(value.into()),
            "--data-dir" => self.data_dir = value.into(),
            "--only" => self.only = Some(value),
            "--runs" => self.runs = usize::try_from(number(&value)?).unwrap_or(usize::MAX),
            "--idle-secs" => self.idle_secs = number(&value)?,
            "--sessions" => self.sessions = usize::try_from(number(&value)?).unwrap_or(usize::MAX),
            _ => return Err(UsageError(format!("there is no flag {flag}; there are\n{}", Self::HELP))),
        }
        Ok(())
    }

    /// Whether this measurement is to be taken.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }
}
