//! Owns how a command fails and how it writes: one sentence on standard error, causes on request, an exit code.
//! Tested below.

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Not what was asked for, or not now.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line cannot be meant like this.
pub(crate) const EXIT_USAGE: u8 = 2;
/// There is no server.
pub(crate) const EXIT_NO_SERVER: u8 = 3;

/// Why a command did not do what it was asked to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    message: String,
    causes: Vec<String>,
    exit_code: u8,
}

impl Failure {
    /// A failure with its causes.
    pub(crate) fn of(error: &dyn Error) -> Self {
        let mut failure = Self { message: error.to_string(), causes: Vec::new(), exit_code: EXIT_FAILED };
        let mut cause = error.source();
        while let Some(error) = cause {
            failure.causes.push(error.to_string());
            cause = error.source();
        }
        failure
    }

    /// A command line that cannot be meant like this.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), exit_code: EXIT_USAGE }
    }

    /// There is no server.
    pub(crate) fn no_server(message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new(), exit_code: EXIT_NO_SERVER }
    }

    fn lines(&self, is_verbose: bool) -> String {
        let mut lines = format!("error: {}\n", self.message);
        if is_verbose {
            for cause in &self.causes {
                lines.push_str(&format!("  because: {cause}\n"));
            }
        }
        lines
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(&error)
    }
}

/// Says why and gives the exit code.
pub(crate) fn fail(failure: &Failure, is_verbose: bool) -> ExitCode {
    // Nobody is left to tell when standard error is closed.
    let _closed = std::io::stderr().write_all(failure.lines(is_verbose).as_bytes());
    ExitCode::from(failure.exit_code)
}

/// Writes to standard output; a reader that has gone ends the command quietly.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure {
            message: "standard output could not be written: check what it is redirected to".into(),
            causes: vec![error.to_string()],
            exit_code: EXIT_FAILED,
        }),
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn say_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)?;
    say(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the data directory cannot be used")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn an_error_is_one_sentence_and_its_causes_come_on_request() {
        let failure = Failure::of(&Outer(std::io::Error::other("disk on fire")));
        assert_eq!(failure.lines(false), "error: the data directory cannot be used\n");
        let verbose = "error: the data directory cannot be used\n  because: disk on fire\n";
        assert_eq!(failure.lines(true), verbose);
    }
}
