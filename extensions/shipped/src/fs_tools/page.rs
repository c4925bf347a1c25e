//! Owns the page of numbered lines that `read` shows: which lines, how each is cut, and when the page is full.
//! Is fed bytes of UTF-8 piece by piece and keeps no more of a file than its page. Tested below.

use super::result_size::{cut_to_json_chars, json_chars};

/// Characters of a line that are shown (spec A.5.1).
const LINE_CHARS: usize = 2_000;

/// Bytes of a line that are kept while it is read: enough for the shown characters, whatever they are.
const LINE_BYTES: usize = LINE_CHARS * 4;

/// JSON characters left free for the mark of a cut line.
const MARK_CHARS: usize = 48;

/// A page that is being filled.
#[derive(Debug)]
pub(super) struct Page {
    first: u64,
    limit: u64,
    budget: usize,
    text: String,
    used: usize,
    shown: u64,
    full: bool,
    cut_off: bool,
    lossy: bool,
    ended_lines: u64,
    line_is_open: bool,
    line: Vec<u8>,
    line_beyond: usize,
}

impl Page {
    /// An empty page for at most `limit` lines from line `first` on (from 1), with at most `budget` JSON characters.
    pub(super) fn new(first: u64, limit: u64, budget: usize) -> Self {
        Self {
            first,
            limit,
            budget,
            text: String::new(),
            used: 0,
            shown: 0,
            full: false,
            cut_off: false,
            lossy: false,
            ended_lines: 0,
            line_is_open: false,
            line: Vec::new(),
            line_beyond: 0,
        }
    }

    /// Takes the next bytes of the file.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (body, has_ended) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece, false),
            };
            self.line_is_open = true;
            if self.is_wanted() {
                let room = LINE_BYTES.saturating_sub(self.line.len()).min(body.len());
                let (kept, beyond) = body.split_at(room);
                self.line.extend_from_slice(kept);
                self.line_beyond += beyond.iter().filter(|byte| !is_continuation(**byte)).count();
            }
            if has_ended {
                self.end_line(true);
            }
        }
    }

    /// Ends the file: what is behind the last line break is a line too, unless it is nothing.
    pub(super) fn finish(&mut self) {
        if self.line_is_open {
            self.end_line(false);
        }
    }

    /// Ends the page although the file goes on: what there is of the open line is shown, and that it goes on.
    pub(super) fn cut_off(&mut self) {
        self.cut_off = true;
        self.finish();
    }

    /// True when the file goes on where reading it was given up.
    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// True when no further line will be shown.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Lines met so far, also those before and behind the page.
    pub(super) fn line_count(&self) -> u64 {
        self.ended_lines + u64::from(self.line_is_open)
    }

    /// True when something that is shown was no valid text.
    pub(super) fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// Something of the file was no text already in its own encoding.
    pub(super) fn mark_lossy(&mut self) {
        self.lossy = true;
    }

    /// The line to go on with, when lines were met behind the page.
    pub(super) fn next_line(&self) -> Option<u64> {
        let next = self.first.saturating_add(self.shown);
        (self.line_count() >= next).then_some(next)
    }

    /// The numbered lines.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn is_wanted(&self) -> bool {
        !self.full && self.ended_lines + 1 >= self.first
    }

    fn end_line(&mut self, by_line_break: bool) {
        if self.is_wanted() {
            if by_line_break && self.line_beyond == 0 && self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            self.show_line();
        }
        self.ended_lines += 1;
        self.line_is_open = false;
        self.line.clear();
        self.line_beyond = 0;
    }

    fn show_line(&mut self) {
        let number = format!("{:>5}\t", self.ended_lines + 1);
        let line = String::from_utf8_lossy(&self.line);
        let is_replaced = matches!(line, std::borrow::Cow::Owned(_));
        let n_chars = line.chars().count() + self.line_beyond;
        let mut head = match line.char_indices().nth(LINE_CHARS) {
            Some((at, _)) => line.get(..at).unwrap_or_default(),
            None => &*line,
        };
        let line_break = if self.shown == 0 { 0 } else { 2 };
        let number_chars = json_chars(&number);
        let room = self.budget.saturating_sub(self.used + line_break + number_chars);
        let needed = json_chars(head) + if n_chars > LINE_CHARS || self.cut_off { MARK_CHARS } else { 0 };
        if needed > room {
            self.full = true;
            if self.shown > 0 {
                return;
            }
            // One line alone is more than a page. A page without a line would never get a reader further.
            head = cut_to_json_chars(head, room.saturating_sub(MARK_CHARS));
        }
        self.lossy |= is_replaced && head.contains(char::REPLACEMENT_CHARACTER);
        let n_cut = n_chars - head.chars().count();
        let mark = match n_cut {
            // Only the line that is open at the cut is shown after it.
            _ if self.cut_off => " [… the line was not read to its end]".to_owned(),
            0 => String::new(),
            _ => format!(" [… {n_cut} characters cut]"),
        };
        if self.shown > 0 {
            self.text.push('\n');
        }
        self.used += line_break + number_chars + json_chars(head) + json_chars(&mark);
        for part in [&number, head, &mark] {
            self.text.push_str(part);
        }
        self.shown += 1;
        self.full |= self.shown >= self.limit;
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(file: &[u8], first: u64, limit: u64, budget: usize, piece: usize) -> Page {
        let mut page = Page::new(first, limit, budget);
        file.chunks(piece).for_each(|piece| page.feed(piece));
        page.finish();
        page
    }

    #[test]
    fn lines_are_numbered_and_line_breaks_of_both_kinds_are_one() {
        let page = page_of(b"a\r\n\nb\rc", 1, 10, 1_000, 1);
        assert_eq!((page.line_count(), page.next_line(), page.is_lossy()), (3, None, false));
        assert_eq!(page.into_text(), "    1\ta\n    2\t\n    3\tb\rc");
    }

    #[test]
    fn a_file_of_nothing_has_no_line() {
        let page = page_of(b"", 1, 10, 1_000, 1);
        assert_eq!((page.line_count(), page.next_line()), (0, None));
    }

    #[test]
    fn a_page_stops_at_its_limit_and_says_where_to_go_on() {
        let page = page_of(b"a\nb\nc\nd\n", 2, 2, 1_000, 3);
        assert_eq!((page.line_count(), page.next_line()), (4, Some(4)));
        assert_eq!(page.into_text(), "    2\tb\n    3\tc");
        assert_eq!(page_of(b"a\nb\nc\n", 2, 2, 1_000, 3).next_line(), None);
    }

    #[test]
    fn a_page_stays_within_its_budget_of_encoded_characters() {
        let file = "\"\u{1}\\\n".repeat(100);
        let page = page_of(file.as_bytes(), 1, 1_000, 200, 7);
        let next = page.next_line().unwrap();
        let text = page.into_text();
        assert!(json_chars(&text) <= 200, "{}", json_chars(&text));
        assert_eq!(next, 1 + u64::try_from(text.lines().count()).unwrap());
        assert!(next > 5, "the budget is used: {next}");
    }

    #[test]
    fn a_long_line_is_cut_and_says_by_how_much() {
        let file = format!("{}\nb", "é".repeat(5_000));
        for piece in [1, 3, 4_096, 100_000] {
            let text = page_of(file.as_bytes(), 1, 10, 8_000, piece).into_text();
            let expected = format!("    1\t{} [… 3000 characters cut]\n    2\tb", "é".repeat(LINE_CHARS));
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_line_that_is_more_than_a_page_is_cut_to_the_page_and_passed() {
        let file = format!("{}\nb", "\u{1}".repeat(1_500));
        let page = page_of(file.as_bytes(), 1, 10, 1_000, 64);
        assert_eq!(page.next_line(), Some(2));
        let text = page.into_text();
        assert!(json_chars(&text) <= 1_000);
        assert!(text.ends_with("characters cut]"), "{text}");
    }

    #[test]
    fn a_page_that_is_cut_off_says_that_its_last_line_goes_on() {
        let mut page = Page::new(1, 10, 1_000);
        page.feed(b"a\nbc");
        page.cut_off();
        assert_eq!((page.line_count(), page.next_line(), page.is_cut_off()), (2, None, true));
        assert_eq!(page.into_text(), "    1\ta\n    2\tbc [… the line was not read to its end]");
    }

    #[test]
    fn only_what_is_shown_makes_a_page_lossy() {
        assert!(page_of(b"a\xFFb\nc", 1, 1, 1_000, 9).is_lossy());
        assert!(!page_of(b"a\xFFb\nc", 2, 1, 1_000, 9).is_lossy());
        assert!(!page_of("\u{FFFD}".as_bytes(), 1, 1, 1_000, 9).is_lossy());
    }
}
