//! Owns the lines on standard error beside an answer: tools, notices, retries, the model.
//! Every line is one line and free of control characters. Pure. Tested below.

use gent_protocol::Millis;

use crate::sanitize::one_line;

/// The most characters of a line's text.
const LINE_CHARS: usize = 400;
/// What a tool says of a call that nobody allowed.
const BLOCKED: &str = "blocked";
/// The most characters of a command.
const COMMAND_CHARS: usize = 80;

/// One line for a person.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Line {
    /// The model that answers.
    Model { id: String, reason: String },
    /// A tool has run. `command` is what it was told to run, where it runs commands.
    ToolDone { name: String, command: Option<String>, summary: Option<String> },
    /// A tool failed or did not run.
    ToolFailed { name: String, command: Option<String>, summary: Option<String> },
    /// A request is tried again.
    Retrying { attempt: u32, max_attempts: u32, delay: Millis, error: String },
    /// Worth knowing; the turn goes on.
    Notice(String),
    /// Something went wrong.
    Error(String),
}

impl Line {
    /// Says on the line of a blocked call how such calls are allowed; false on every other line.
    pub(crate) fn name_approval(&mut self) -> bool {
        match self {
            Self::ToolDone { summary: Some(summary), .. }
            | Self::ToolFailed { summary: Some(summary), .. }
                if summary.as_str() == BLOCKED =>
            {
                summary.push_str(" (--approve-all allows it)");
                true
            }
            _ => false,
        }
    }

    /// The line, without its newline; quiet ones dimmed where the terminal may be coloured.
    pub(crate) fn render(&self, dim: bool) -> String {
        let text = match self {
            Self::Model { id, reason } => format!("· model {id}: {}", clean(reason)),
            Self::ToolDone { name, command, summary } => {
                format!("· {}", tool(name, command.as_deref(), summary.as_deref().unwrap_or("done")))
            }
            Self::ToolFailed { name, command, summary } => {
                format!("✗ {}", tool(name, command.as_deref(), summary.as_deref().unwrap_or("failed")))
            }
            Self::Retrying { attempt, max_attempts, delay, error } => {
                let seconds = delay.0 as f64 / 1000.0;
                let error = clean(error);
                format!("· attempt {attempt} of {max_attempts} failed, next in {seconds:.1} s: {error}")
            }
            Self::Notice(text) => format!("· {}", clean(text)),
            Self::Error(text) => return format!("error: {}", clean(text)),
        };
        if dim { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text }
    }
}

fn tool(name: &str, command: Option<&str>, summary: &str) -> String {
    let (name, summary) = (clean(name), clean(summary));
    match command {
        Some(command) => format!("{name} `{}`: {summary}", one_line(command, COMMAND_CHARS)),
        // Many a tool names itself.
        None if summary.split(' ').next() == Some(name.as_str()) => summary,
        None => format!("{name} {summary}"),
    }
}

fn clean(text: &str) -> String {
    one_line(text, LINE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_as_documented() {
        let name = || "read".to_owned();
        let table = [
            (
                Line::Model { id: "demo/demo".into(), reason: "asked for".into() },
                "· model demo/demo: asked for",
            ),
            (
                Line::ToolDone { name: name(), command: None, summary: Some("read a.rs (12 lines)".into()) },
                "· read a.rs (12 lines)",
            ),
            (
                Line::ToolDone { name: name(), command: None, summary: Some("a.rs · 12 lines".into()) },
                "· read a.rs · 12 lines",
            ),
            (
                Line::ToolDone {
                    name: "bash".into(),
                    command: Some("ls\n-l".into()),
                    summary: Some("exit 0 · 3 lines".into()),
                },
                "· bash `ls -l`: exit 0 · 3 lines",
            ),
            (Line::ToolDone { name: name(), command: None, summary: None }, "· read done"),
            (Line::ToolFailed { name: name(), command: None, summary: None }, "✗ read failed"),
            (
                Line::Retrying {
                    attempt: 1,
                    max_attempts: 3,
                    delay: Millis(1500),
                    error: "overloaded".into(),
                },
                "· attempt 1 of 3 failed, next in 1.5 s: overloaded",
            ),
            (Line::Error("no\nmodel".into()), "error: no model"),
        ];
        for (line, expected) in table {
            assert_eq!(line.render(false), expected);
        }
    }

    #[test]
    fn a_tool_cannot_steer_the_terminal_through_its_summary() {
        let line = Line::ToolDone {
            name: "x".into(),
            command: None,
            summary: Some("a\u{1b}]0;t\u{7}\u{1b}[2Jb\nc".into()),
        };
        assert_eq!(line.render(false), "· x ab c");
        assert_eq!(line.render(true), "\u{1b}[2m· x ab c\u{1b}[0m");
    }
}
