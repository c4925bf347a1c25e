//! Owns what the demo model has learned so far and what it does next, out of the conversation alone.
//! Never asks for a tool twice for the same thing, so a turn always ends. Tested in `tests/it/providers_demo.rs`.

use gent_extension_api::HostMessage;
use gent_extension_api::protocol::{Message, Role, ToolOutcome};
use serde_json::{Value, json};

use super::listing::{LIST_COMMAND, Listing, ReportFile};
use super::{DEMO_PROMPT, REPORT_FILE, report};

/// What the demo model does next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Asks for a tool.
    Call { words: &'static str, name: &'static str, params: Value },
    /// Ends the turn.
    Answer { text: String },
}

/// A line that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub file: String,
    pub line: u64,
    pub content: String,
}

/// What was learned since the last prompt.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// What the user asked for, where it was not the demo's own prompt.
    pub task: Option<String>,
    /// The listing, or why there is none.
    pub listing: Option<Result<Listing, String>>,
    pub n_searches: usize,
    pub found: Option<Match>,
    has_read: bool,
    /// The file that was read, and its first line that is not blank.
    pub opening: Option<(String, String)>,
    /// What came of writing the report.
    pub written: Option<Result<(), String>>,
}

/// How a search for a telling line looks in the languages people meet most: extension, pattern.
const TELLING: [(&str, &str); 13] = [
    ("rs", r"fn main|pub fn \w+"),
    ("py", r"^(def|class) \w+"),
    ("ts", r"export|function \w+"),
    ("tsx", r"export|function \w+"),
    ("js", r"export|function \w+|require"),
    ("go", r"^func \w+"),
    ("java", r"class \w+"),
    ("kt", r"fun \w+"),
    ("c", r"main|#include"),
    ("h", r"#include|struct \w+"),
    ("cpp", r"main|#include"),
    ("rb", r"def \w+|class \w+"),
    ("sh", r"^\w+\(\)|^#!"),
];

/// A heading: where there is text but no program.
const HEADING: (&str, &str) = ("md", r"^# \S");

/// Any line with a word.
const ANY_WORD: &str = "[A-Za-z]{3}";

/// The most characters of a found line in a report.
const MAX_LINE_CHARS: usize = 160;

impl Survey {
    /// What the messages since the last prompt tell.
    pub(super) fn of(messages: &[HostMessage]) -> Self {
        let is_prompt =
            |message: &Message| message.role == Role::User && !message.is_runtime() && !message.is_hidden();
        let start = messages.iter().rposition(|message| is_prompt(message)).unwrap_or(0);
        let mut survey = Self::default();
        for message in messages.iter().skip(start) {
            if is_prompt(message) {
                let task = message.text().trim().to_owned();
                survey.task = (!task.is_empty() && task != DEMO_PROMPT).then_some(task);
            }
            let calls: Vec<_> =
                messages.iter().skip(start).flat_map(|message| message.tool_calls()).collect();
            for outcome in message.tool_outcomes() {
                let params = calls.iter().find(|call| call.id == outcome.id).map(|call| &call.params);
                survey.take(outcome, params);
            }
        }
        survey
    }

    fn take(&mut self, outcome: &ToolOutcome, params: Option<&Value>) {
        let result = &outcome.result;
        let text = |field: &str| result.get(field).and_then(Value::as_str).unwrap_or_default();
        let why = || {
            let said = [text("error"), text("reason")].into_iter().find(|said| !said.is_empty());
            first_words(said.unwrap_or("the tool failed without a reason"))
        };
        match outcome.name.as_str() {
            "bash" => {
                self.listing = Some(match Listing::parse(text("stdout")) {
                    Some(listing) if !outcome.is_failure => Ok(listing),
                    Some(_) | None if outcome.is_failure => Err(why()),
                    Some(_) | None => Err("the listing came back incomplete".to_owned()),
                });
            }
            "grep" => {
                self.n_searches += 1;
                let matches = result.get("matches").and_then(Value::as_array);
                // The report of an earlier demo is no find.
                let is_foreign =
                    self.known_listing().is_some_and(|listing| listing.report_file == ReportFile::Foreign);
                let is_find = |found: &Match| match found.file.strip_suffix(REPORT_FILE) {
                    Some("") => is_foreign,
                    Some(place) => !place.ends_with('/'),
                    None => true,
                };
                let find = || matches?.iter().filter_map(read_match).find(is_find);
                self.found = self.found.take().or_else(find);
            }
            "read" => {
                self.has_read = true;
                let path = params.and_then(|params| params.get("path")).and_then(Value::as_str);
                let line = text("content").lines().map(without_number).find(|line| !line.is_empty());
                if let (Some(path), Some(line), false) = (path, line, outcome.is_failure) {
                    self.opening = Some((path.to_owned(), first_words(line)));
                }
            }
            "write" => self.written = Some(if outcome.is_failure { Err(why()) } else { Ok(()) }),
            _ => {}
        }
    }

    /// The next step; `may_call` says which tools there are.
    pub(super) fn next_step(&self, may_call: &dyn Fn(&str) -> bool) -> Step {
        if self.listing.is_none() && may_call("bash") {
            return Step::Call {
                words: "I begin with a list of the files. ",
                name: "bash",
                params: json!({ "command": LIST_COMMAND }),
            };
        }
        if let (true, Some(params)) = (may_call("grep"), self.next_search()) {
            return Step::Call { words: "Next I search for a telling line. ", name: "grep", params };
        }
        if let (true, false, Some(path)) = (may_call("read"), self.has_read, self.worth_reading()) {
            return Step::Call {
                words: "I read how one of them begins. ",
                name: "read",
                params: json!({ "path": path, "limit": 20 }),
            };
        }
        if self.written.is_none() && self.may_write() && may_call("write") {
            return Step::Call {
                words: "Now I write down what I found. ",
                name: "write",
                params: json!({ "path": REPORT_FILE, "content": report::file(self) }),
            };
        }
        Step::Answer { text: report::answer(self) }
    }

    /// The listing, where there is one.
    pub(super) fn known_listing(&self) -> Option<&Listing> {
        self.listing.as_ref().and_then(|listing| listing.as_ref().ok())
    }

    /// Whether the report may be written: only where the listing saw that nothing foreign is in its place.
    pub(super) fn may_write(&self) -> bool {
        self.known_listing().is_some_and(|listing| listing.report_file == ReportFile::Writable)
    }

    /// A search by language first; where that finds nothing, or no language is known, one for any word.
    fn next_search(&self) -> Option<Value> {
        let listing = self.known_listing();
        if self.found.is_some() || listing.is_some_and(|listing| listing.samples.is_empty()) {
            return None;
        }
        match (self.n_searches, listing.and_then(telling)) {
            (0, Some((extension, pattern))) => {
                return Some(json!({ "pattern": pattern, "glob": format!("*.{extension}"), "limit": 20 }));
            }
            (0, None) | (1, Some(_)) => {}
            _ => return None,
        }
        // In one file that is worth reading: everywhere, the report of an earlier demo could fill the result.
        Some(match self.worth_reading() {
            Some(path) => json!({ "pattern": ANY_WORD, "path": path, "limit": 5 }),
            None => json!({ "pattern": ANY_WORD, "limit": 20 }),
        })
    }

    /// A readme, else the first small file.
    fn worth_reading(&self) -> Option<String> {
        let samples = &self.known_listing()?.samples;
        let is_readme = |path: &str| path.to_ascii_uppercase().starts_with("README");
        let readme = samples.iter().find(|sample| is_readme(&sample.path) && sample.bytes > 0);
        let small = || samples.iter().find(|sample| (1..200_000).contains(&sample.bytes));
        readme.or_else(small).map(|sample| sample.path.clone())
    }
}

fn telling(listing: &Listing) -> Option<(&'static str, &'static str)> {
    let of = |extension: &str| TELLING.iter().find(|(known, _)| *known == extension).copied();
    let has_headings = listing.extensions.iter().any(|(extension, _)| extension == HEADING.0);
    let program = listing.extensions.iter().find_map(|(extension, _)| of(extension));
    program.or(has_headings.then_some(HEADING))
}

fn read_match(found: &Value) -> Option<Match> {
    let file = found.get("file")?.as_str()?.trim_start_matches("./").to_owned();
    let content = first_words(found.get("content")?.as_str()?);
    (!content.is_empty()).then_some(Match { file, line: found.get("line")?.as_u64()?, content })
}

/// A line of a file without the number that `read` puts before it.
fn without_number(line: &str) -> &str {
    match line.split_once('\t') {
        Some((number, rest)) if number.trim_start().parse::<u64>().is_ok() => rest.trim(),
        _ => line.trim(),
    }
}

/// The first line, cut to a length that fits into a report.
fn first_words(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}
