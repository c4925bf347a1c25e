//! Owns looking into one file: whether it is text, which lines match, and how a line is cut around its match.
//! Never decides which files are searched. Tested in `tests`.

use std::io::Read;
use std::path::Path;

use gent_extension_api::ToolError;
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};

use super::super::text_encoding::{Encoding, decode_utf16};
use super::results::Results;
use super::stop::Stop;
use super::{GrepMatch, Surroundings, tell_pattern};
use crate::regular_file::open_regular;

/// The longest file that is searched (spec A.5.4).
pub(super) const SEARCHED_BYTES: u64 = 10 * 1_000 * 1_000;

/// Where a NUL makes a file binary (spec A.5.4).
const BINARY_HEAD_BYTES: usize = 8 * 1_024;

/// Characters of a line that are shown (spec A.5.4).
const LINE_CHARS: usize = 500;

/// Of those, how many stand before a match that lies behind them.
const CHARS_BEFORE_MATCH: usize = 150;

/// The most a compiled pattern may take; a larger one is refused.
const PATTERN_BYTES: usize = 10 << 20;

/// A pattern, ready to be looked for.
#[derive(Debug)]
pub(super) struct Search {
    matcher: RegexMatcher,
    context: usize,
}

impl Search {
    /// Compiles a pattern; `context` lines are shown on each side of a match.
    pub(super) fn new(pattern: &str, is_case_sensitive: bool, context: usize) -> Result<Self, ToolError> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(!is_case_sensitive)
            .multi_line(true)
            .crlf(true)
            .size_limit(PATTERN_BYTES)
            .build(pattern)
            .map_err(|error| tell_pattern("pattern", pattern, &error.to_string()))?;
        Ok(Self { matcher, context })
    }

    /// Looks into a file, which is called `shown` in the results.
    pub(super) fn look_into(&self, path: &Path, shown: &str, stop: &Stop, results: &mut Results) {
        let Ok((file, metadata)) = open_regular(path) else { return results.count_unreadable() };
        if metadata.len() > SEARCHED_BYTES {
            return results.count_oversized();
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len() + 1).unwrap_or(0));
        // What comes is bounded, whatever the length said.
        if file.take(SEARCHED_BYTES + 1).read_to_end(&mut bytes).is_err() {
            return results.count_unreadable();
        }
        if u64::try_from(bytes.len()).is_ok_and(|length| length > SEARCHED_BYTES) {
            return results.count_oversized();
        }
        let encoding = Encoding::of(&bytes);
        let body = bytes.strip_prefix(encoding.mark()).unwrap_or(&bytes);
        if encoding.is_utf16() {
            let (text, _) = decode_utf16(encoding, body);
            return self.look_into_text(text.as_bytes(), shown, stop, results);
        }
        if body.iter().take(BINARY_HEAD_BYTES).any(|byte| *byte == 0) {
            return results.count_binary();
        }
        self.look_into_text(body, shown, stop, results);
    }

    fn look_into_text(&self, text: &[u8], shown: &str, stop: &Stop, results: &mut Results) {
        let mut searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .bom_sniffing(false)
            .binary_detection(BinaryDetection::none())
            .build();
        let mut sink = MatchSink { search: self, text, shown, stop, results };
        if searcher.search_slice(&self.matcher, text, &mut sink).is_err() {
            sink.results.count_unreadable();
        }
    }
}

/// Takes the matching lines of one file.
struct MatchSink<'a> {
    search: &'a Search,
    text: &'a [u8],
    shown: &'a str,
    stop: &'a Stop,
    results: &'a mut Results,
}

impl Sink for MatchSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.stop.is_set() {
            return Ok(false);
        }
        let line = without_line_break(found.bytes());
        let match_start = self.search.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let start = usize::try_from(found.absolute_byte_offset()).unwrap_or(usize::MAX);
        Ok(self.results.add(GrepMatch {
            file: self.shown.to_owned(),
            line: found.line_number().unwrap_or_default(),
            content: cut_line(line, match_start),
            context: self.surroundings(start, start.saturating_add(found.bytes().len())),
        }))
    }
}

impl MatchSink<'_> {
    /// The lines around the one from `start` to `end`; nothing where none was asked for.
    fn surroundings(&self, start: usize, end: usize) -> Option<Surroundings> {
        let n_lines = self.search.context;
        if n_lines == 0 {
            return None;
        }
        let show = |line: &[u8]| cut_line(without_line_break(line), 0);
        let before = self.text.get(..start).unwrap_or_default();
        let after = self.text.get(end..).unwrap_or_default();
        // Behind the last line break of what is before stands the line itself.
        let mut before: Vec<String> =
            before.rsplit(|byte| *byte == b'\n').skip(1).take(n_lines).map(show).collect();
        before.reverse();
        let after = after.split_inclusive(|byte| *byte == b'\n').take(n_lines).map(show).collect();
        Some(Surroundings { before, after })
    }
}

fn without_line_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The line, or the part of it around the byte `match_start`, as text.
fn cut_line(line: &[u8], match_start: usize) -> String {
    let text = String::from_utf8_lossy(line);
    let n_chars = text.chars().count();
    if n_chars <= LINE_CHARS {
        return text.into_owned();
    }
    let chars_before = String::from_utf8_lossy(line.get(..match_start).unwrap_or_default()).chars().count();
    let first = if chars_before < LINE_CHARS - CHARS_BEFORE_MATCH {
        0
    } else {
        (chars_before - CHARS_BEFORE_MATCH).min(n_chars - LINE_CHARS)
    };
    let part: String = text.chars().skip(first).take(LINE_CHARS).collect();
    let is_cut_before = if first > 0 { "…" } else { "" };
    let is_cut_behind = if first + LINE_CHARS < n_chars { "…" } else { "" };
    format!("{is_cut_before}{part}{is_cut_behind}")
}
