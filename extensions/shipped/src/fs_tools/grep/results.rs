//! Owns the matches of a search and when they are enough: by number and by what a result may hold.
//! Never searches. Tested in `tests`.

use super::super::result_size::RESULT_CHARS;
use super::{GrepMatch, GrepOutput};

/// JSON characters of a result besides its matches: field names, counts and the note.
const ENVELOPE_CHARS: usize = 400;

/// The matches so far.
#[derive(Debug)]
pub(super) struct Results {
    output: GrepOutput,
    limit: usize,
    used: usize,
    full: Option<&'static str>,
}

impl Results {
    /// No match yet, `limit` at most.
    pub(super) fn new(limit: usize) -> Self {
        Self { output: GrepOutput::default(), limit, used: 0, full: None }
    }

    /// Adds a match. False: it had no room, and no further one will have.
    pub(super) fn add(&mut self, mut found: GrepMatch) -> bool {
        if self.output.matches.len() >= self.limit {
            self.full = Some("there are more matches; raise `limit`, or narrow `pattern`, `path` or `glob`");
            return false;
        }
        let room = (RESULT_CHARS - ENVELOPE_CHARS).saturating_sub(self.used);
        let mut needed = cost(&found);
        if needed > room && self.output.matches.is_empty() {
            // The first match is always shown, if need be without what is around it.
            found.context = None;
            needed = cost(&found);
            self.full = Some(NO_ROOM);
        }
        if needed > room {
            self.full = Some(NO_ROOM);
            return false;
        }
        self.used += needed;
        self.output.matches.push(found);
        self.full.is_none()
    }

    /// Why no further match has room.
    pub(super) fn why_full(&self) -> Option<&'static str> {
        self.full
    }

    /// A file or directory could not be read.
    pub(super) fn count_unreadable(&mut self) {
        self.output.unreadable += 1;
    }

    /// A file is too long.
    pub(super) fn count_oversized(&mut self) {
        self.output.oversized += 1;
    }

    /// A file is no text.
    pub(super) fn count_binary(&mut self) {
        self.output.binary += 1;
    }

    /// The matches and counts.
    pub(super) fn into_output(self) -> GrepOutput {
        self.output
    }
}

const NO_ROOM: &str = "the result is full; narrow `pattern`, `path` or `glob`, or ask for less `context`";

/// JSON characters of a match and the comma behind it.
fn cost(found: &GrepMatch) -> usize {
    serde_json::to_string(found).map_or(usize::MAX, |encoded| encoded.chars().count() + 1)
}
