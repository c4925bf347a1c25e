//! Owns the tool `grep`: its input and output, its time budget, and the sentences around a search.
//! Never reads a file itself: `walk` finds them, `search` looks into them. Tested in `tests`.

mod glob;
mod results;
mod search;
mod stop;
#[cfg(test)]
mod tests;
mod walk;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use gent_extension_api::{Tool, ToolContext, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::declaration;
use super::path::{resolve, tell, tell_io, tell_open};
use crate::regular_file::check_kind;
use glob::Glob;
use results::Results;
use search::Search;
use stop::{StopReason, run_within};
use walk::Walked;

/// Wall clock of one search; after it the matches found so far are the result.
const TIME_BUDGET: Duration = Duration::from_secs(10);

/// Matches where the call names no number (spec A.5.4).
const DEFAULT_MATCHES: usize = 100;

/// Lines of context on each side that a call can ask for; more is what `read` is for.
const MAX_CONTEXT: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GrepInput {
    /// A regular expression in the syntax of Rust's regex crate: no look-around, no back-references. It is
    /// matched line by line.
    pattern: String,
    /// The file or directory to search. Default: the working directory.
    path: Option<String>,
    /// Only files of this form: without a slash it is held against the name (`*.rs`), with one against the path
    /// from the searched directory (`src/**/*.rs`).
    glob: Option<String>,
    /// Whether upper and lower case differ. Default: true.
    case_sensitive: Option<bool>,
    /// Lines to show before and after each match, at most 20. Default: 0.
    context: Option<usize>,
    /// How many matches to return at most. Default: 100.
    limit: Option<NonZeroUsize>,
}

/// A line that matched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct GrepMatch {
    file: String,
    line: u64,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Surroundings>,
}

/// The lines around a match, in the order of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Surroundings {
    before: Vec<String>,
    after: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct GrepOutput {
    matches: Vec<GrepMatch>,
    truncated: bool,
    /// Files and directories that could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    unreadable: u64,
    /// Files that are too long to be searched.
    #[serde(default, skip_serializing_if = "is_zero")]
    oversized: u64,
    /// Files that are no text.
    #[serde(default, skip_serializing_if = "is_zero")]
    binary: u64,
    /// What the caller should know about a partial result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The tool.
pub(super) fn tool() -> Arc<dyn Tool> {
    let mut declaration = declaration(
        "grep",
        "Searches text files for a regular expression, in the order of their paths. Files that git ignores, \
         `.git`, binary files and files over 10 MB are passed over; symbolic links are not followed. A result \
         holds at most 100 matches and 8,000 characters: when `truncated` is true, narrow `path`, `glob` or \
         `pattern`.",
        "Search files with a regular expression",
    );
    declaration.readonly = true;
    declaration.prompt_guidelines =
        vec!["Search with `grep`, not with `grep`, `rg` or `find` in `bash`.".to_owned()];
    tool_fn(declaration, Some(summarize), run)
}

fn summarize(input: &GrepInput, output: &GrepOutput) -> String {
    let count = output.matches.len();
    let matches = if count == 1 { "match" } else { "matches" };
    let cut = if output.truncated { " (truncated)" } else { "" };
    format!("{} · {count} {matches}{cut}", input.pattern)
}

async fn run(context: ToolContext, input: GrepInput) -> Result<GrepOutput, ToolError> {
    let path = resolve(&context, input.path.as_deref().unwrap_or("."))?;
    let glob = input.glob.as_deref().map(Glob::parse).transpose()?;
    let search = Search::new(&input.pattern, input.case_sensitive.unwrap_or(true), context_lines(&input))?;
    let limit = input.limit.map_or(DEFAULT_MATCHES, NonZeroUsize::get);
    let cwd = context.cwd().to_owned();
    run_within(TIME_BUDGET, context.cancelled(), move |stop| {
        let metadata = std::fs::metadata(&path).map_err(|error| tell_io("search", &path, &error))?;
        if !metadata.is_dir() {
            check_kind(&metadata).map_err(|error| tell_open("search", &path, &error))?;
        }
        let mut results = Results::new(limit);
        let walked = walk::walk(&cwd, &path, metadata.is_dir(), glob.as_ref(), stop, &mut results, &search)?;
        let mut output = make_output(results, walked, stop.reason());
        if !metadata.is_dir() && output.binary + output.oversized > 0 {
            output.note = Some("the file is binary or longer than 10 MB; look into it with bash".to_owned());
        }
        Ok(output)
    })
    .await
}

fn context_lines(input: &GrepInput) -> usize {
    input.context.unwrap_or(0).min(MAX_CONTEXT)
}

fn make_output(results: Results, walked: Walked, stopped: Option<StopReason>) -> GrepOutput {
    let why_full = results.why_full();
    let note = match (stopped, why_full, walked) {
        (_, Some(reason), _) => Some(reason.to_owned()),
        (Some(StopReason::TimeIsUp), None, _) => Some(
            "the time was up: these are the matches found so far; narrow `path` or `glob` to see the rest"
                .to_owned(),
        ),
        (Some(StopReason::Cancelled), None, _) => {
            Some("the call was stopped: these are the matches found so far".to_owned())
        }
        (None, None, Walked::TooMany) => Some(format!(
            "only the first {} files were searched; narrow `path` to see the rest",
            walk::MAX_FILES
        )),
        (None, None, Walked::All) => None,
    };
    let mut output = results.into_output();
    output.truncated = note.is_some();
    output.note = note;
    output
}

/// A failure that names the pattern's fault.
fn tell_pattern(what: &str, text: &str, fault: &str) -> ToolError {
    let shown = super::result_size::cut_to_json_chars(text, 200);
    let fault = super::result_size::cut_to_json_chars(fault, 1_000);
    tell(format!("the {what} {shown:?} is not valid: {fault}"))
}
