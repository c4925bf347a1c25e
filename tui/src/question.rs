//! Owns how a question to a person reads as plain text, and what a typed line answers to it.
//! Pure: never talks to a server, reads a file or writes to a terminal. Tested in `question/tests.rs`.

use gent_protocol::{InteractionRequestId, OpenQuestion, QuestionDecision};
use serde::Deserialize;

use crate::sanitize::{one_line, visible};

#[cfg(test)]
mod tests;

/// The most characters of a line that is shown on its own.
const LINE_CHARS: usize = 500;
/// The most lines of a text: a command or a plan that is longer is read in full where it is made. What is left out is
/// counted.
const TEXT_LINES: usize = 60;
/// The most choices that are shown; a number beyond them still chooses.
const CHOICES: usize = 50;

const YES_OR_NO: &str = "answer y or n, with notes after it if you like";
const REVIEW: &str =
    "answer y or n, with notes after it if you like, or /edit FILE to hand back the file's text";
const NOBODY_ALLOWS: &str =
    "nobody can be asked in this run: start it with --approve-all to allow such calls";
const NOBODY_ANSWERS: &str = "nobody can be asked in this run: decide it yourself and say how you did";

/// A question that is being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    request_id: InteractionRequestId,
    form: Form,
    /// Answers to the parts before the one that is asked now.
    given: Vec<Vec<String>>,
}

/// What a typed line came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The answer.
    Decided(QuestionDecision),
    /// There is another part: its text is to be shown.
    Next,
    /// The file whose text is the answer.
    Edited(String),
    /// It is no answer: what would be one.
    Unclear(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Yes or no to a text; also every question of an unknown kind.
    Plain { text: String },
    /// Yes or no to a command.
    Command { class: String, reason: String, command: String },
    /// Yes or no to a document, which may be handed back changed.
    Document { title: Option<String>, path: Option<String>, text: String, is_review: bool },
    /// Any number of questions with choices or free text.
    Parts(Vec<Part>),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Part {
    question: String,
    #[serde(default)]
    header: String,
    #[serde(default)]
    markdown: Option<String>,
    #[serde(default)]
    options: Vec<Choice>,
    #[serde(default)]
    multiple: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Choice {
    label: String,
    #[serde(default)]
    description: Option<String>,
}

/// The metadata that is drawn in its own way.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Facts {
    BashGuardrail { class: String, reason: String, command: String },
    AskUser { questions: Vec<Part> },
    Prompt { mode: Mode, title: Option<String>, path: Option<String> },
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Confirm,
    Review,
}

impl Asked {
    /// The question as it is asked. Metadata of another kind or form leaves its text.
    pub(crate) fn new(open: &OpenQuestion) -> Self {
        let text = open.question.text.clone();
        let facts = open.question.metadata.as_ref().map(Facts::deserialize);
        let form = match facts {
            Some(Ok(Facts::BashGuardrail { class, reason, command })) => {
                Form::Command { class, reason, command }
            }
            Some(Ok(Facts::AskUser { questions })) if !questions.is_empty() => Form::Parts(questions),
            Some(Ok(Facts::Prompt { mode, title, path })) => {
                Form::Document { title, path, text, is_review: mode == Mode::Review }
            }
            Some(Ok(Facts::AskUser { .. }) | Err(_)) | None => Form::Plain { text },
        };
        Self { request_id: open.request_id.clone(), form, given: Vec::new() }
    }

    pub(crate) fn request_id(&self) -> &InteractionRequestId {
        &self.request_id
    }

    /// What is asked now, line by line, harmless to a terminal.
    pub(crate) fn text(&self) -> String {
        let mut lines = Vec::new();
        match &self.form {
            Form::Plain { text } => {
                headline(&mut lines, text, "the agent asks");
                lines.push(format!("  {YES_OR_NO}"));
            }
            Form::Command { class, reason, command } => {
                let (class, reason) = (clean(class), clean(reason));
                lines.push(format!("? may this command run? it is {class}: {reason}"));
                block(&mut lines, command, visible);
                lines.push(format!("  {YES_OR_NO}"));
            }
            Form::Document { title, path, text, is_review } => {
                let title = title.as_deref().map_or_else(|| "is this right?".to_owned(), clean);
                let path = path.as_deref().map_or_else(String::new, |path| format!(" ({})", clean(path)));
                lines.push(format!("? {title}{path}"));
                block(&mut lines, text, one_line_kept);
                lines.push(format!("  {}", if *is_review { REVIEW } else { YES_OR_NO }));
            }
            Form::Parts(parts) => {
                if let Some(part) = parts.get(self.given.len()) {
                    let n_parts = parts.len();
                    let place = self.given.len() + 1;
                    part.draw(&mut lines, (n_parts > 1).then(|| format!("{place} of {n_parts}: ")));
                }
            }
        }
        lines.join("\n") + "\n"
    }

    /// Takes a typed line. After `Decided` the question begins anew.
    pub(crate) fn take(&mut self, line: &str) -> Reply {
        let line = line.trim();
        if line == "/cancel" {
            self.given.clear();
            return Reply::Decided(decision(false, None));
        }
        let usage = match &self.form {
            Form::Parts(parts) => {
                let Some(part) = parts.get(self.given.len()) else { return Reply::Next };
                let answer = match part.answer(line) {
                    Ok(answer) => answer,
                    Err(usage) => return Reply::Unclear(usage),
                };
                let n_parts = parts.len();
                self.given.push(answer);
                if self.given.len() < n_parts {
                    return Reply::Next;
                }
                let given = std::mem::take(&mut self.given);
                // Lists of texts always encode.
                let notes = serde_json::to_string(&given).unwrap_or_default();
                return Reply::Decided(decision(true, Some(notes)));
            }
            Form::Document { is_review: true, .. } => {
                if let Some(file) = line.strip_prefix("/edit ").map(str::trim)
                    && !file.is_empty()
                {
                    return Reply::Edited(file.to_owned());
                }
                REVIEW
            }
            Form::Plain { .. } | Form::Command { .. } | Form::Document { .. } => YES_OR_NO,
        };
        match yes_or_no(line) {
            Some((approved, notes)) => Reply::Decided(decision(approved, notes)),
            None => Reply::Unclear(usage.to_owned()),
        }
    }

    /// What is answered where nobody is there to ask.
    pub(crate) fn refusal(&self) -> QuestionDecision {
        let notes = match &self.form {
            Form::Plain { .. } | Form::Command { .. } => NOBODY_ALLOWS,
            Form::Document { .. } | Form::Parts(_) => NOBODY_ANSWERS,
        };
        decision(false, Some(notes.to_owned()))
    }

    /// The question in one line.
    pub(crate) fn summary(&self) -> String {
        match &self.form {
            Form::Plain { text } => clean(text),
            Form::Command { command, .. } => format!("may this command run: {}", clean(command)),
            Form::Document { title, text, .. } => clean(title.as_ref().unwrap_or(text)),
            Form::Parts(parts) => parts.first().map_or_else(String::new, |part| clean(&part.question)),
        }
    }
}

impl Part {
    fn draw(&self, lines: &mut Vec<String>, place: Option<String>) {
        let header =
            if self.header.is_empty() { String::new() } else { format!("[{}] ", clean(&self.header)) };
        lines.push(format!("? {}{header}{}", place.unwrap_or_default(), clean(&self.question)));
        if let Some(markdown) = &self.markdown {
            block(lines, markdown, one_line_kept);
        }
        for (choice, n) in self.options.iter().zip(1..=CHOICES) {
            let description =
                choice.description.as_deref().map_or_else(String::new, |text| format!(": {}", clean(text)));
            lines.push(format!("  {n} {}{description}", clean(&choice.label)));
        }
        if self.options.len() > CHOICES {
            lines.push(format!("  … {} more choices", self.options.len() - CHOICES));
        }
        lines.push(format!("  {}", self.usage()));
    }

    fn usage(&self) -> String {
        let how = match (self.options.len(), self.multiple) {
            (0, _) => "type your answer".to_owned(),
            (n, true) => format!("numbers from 1 to {n} with commas between them, or your own words"),
            (n, false) => format!("a number from 1 to {n}, or your own words"),
        };
        format!("{how}; an empty line gives no answer, /cancel answers nothing at all")
    }

    /// The answer of a line; how to answer where its numbers name nothing.
    fn answer(&self, line: &str) -> Result<Vec<String>, String> {
        if line.is_empty() {
            return Ok(Vec::new());
        }
        if self.options.is_empty() {
            return Ok(vec![line.to_owned()]);
        }
        let words = line.split([',', ' ']).filter(|word| !word.is_empty());
        let numbers: Result<Vec<usize>, _> = words.map(str::parse::<usize>).collect();
        let Ok(mut numbers) = numbers else { return Ok(vec![line.to_owned()]) };
        numbers.dedup();
        if numbers.len() > 1 && !self.multiple {
            return Err(self.usage());
        }
        let label = |n: usize| self.options.get(n.checked_sub(1)?).map(|choice| choice.label.clone());
        numbers.into_iter().map(label).collect::<Option<_>>().ok_or_else(|| self.usage())
    }
}

fn decision(approved: bool, notes: Option<String>) -> QuestionDecision {
    QuestionDecision { approved, notes, edited_content: None }
}

/// `y`, `yes`, `n` or `no`, and what is said after it.
fn yes_or_no(line: &str) -> Option<(bool, Option<String>)> {
    let word = line.split(|c: char| !c.is_alphanumeric()).next()?;
    let approved = match word.to_ascii_lowercase().as_str() {
        "y" | "yes" => true,
        "n" | "no" => false,
        _ => return None,
    };
    let rest = line.strip_prefix(word)?;
    let notes = rest.trim_start_matches([',', ';', ':', '.', '!', ' ', '\t']);
    // `no-op` and `y/n` are no answers.
    if !notes.is_empty() && notes.len() == rest.len() {
        return None;
    }
    Some((approved, (!notes.is_empty()).then(|| notes.to_owned())))
}

fn headline(lines: &mut Vec<String>, text: &str, otherwise: &str) {
    match text.trim().lines().collect::<Vec<_>>().as_slice() {
        [] => lines.push(format!("? {otherwise}")),
        [only] => lines.push(format!("? {}", clean(only))),
        _ => {
            lines.push(format!("? {otherwise}:"));
            block(lines, text, one_line_kept);
        }
    }
}

/// The lines of a text, indented; what is left out is counted.
fn block(lines: &mut Vec<String>, text: &str, show: fn(&str, usize) -> String) {
    let text = text.trim_end_matches('\n');
    for line in text.split('\n').take(TEXT_LINES) {
        lines.push(format!("    {}", show(line, LINE_CHARS)).trim_end().to_owned());
    }
    let n_more = text.split('\n').skip(TEXT_LINES).count();
    if n_more > 0 {
        lines.push(format!("    … {n_more} more lines, not shown"));
    }
}

/// A line with its indentation.
fn one_line_kept(line: &str, max: usize) -> String {
    let n_blanks = line.chars().take_while(|c| *c == ' ').take(max).count();
    " ".repeat(n_blanks) + &one_line(line, max)
}

fn clean(text: &str) -> String {
    one_line(text, LINE_CHARS)
}
