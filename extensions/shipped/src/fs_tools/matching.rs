//! Owns where in a file the text to be replaced stands: exactly, with escapes taken literally undone, or alike
//! but for what models and editors mix up. Works on bytes of UTF-8 that need not all be valid, and gives ranges
//! of those bytes. Never changes them: `edit` does. Tested below.

use std::borrow::Cow;
use std::ops::Range;

/// How closely the text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closeness {
    /// As it was given, line breaks of either kind being one.
    Exact,
    /// After `\n`, `\t` and `\\` in it had been undone.
    Unescaped,
    /// Without trailing blanks, typographic quotes, dashes and hard spaces.
    Loose,
}

/// Where the text stands: at least once, in order, without overlap.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Each place, with the bytes that are to go.
    pub(super) ranges: Vec<Range<usize>>,
    /// How closely.
    pub(super) closeness: Closeness,
}

/// Finds `wanted` in `file`, as closely as possible.
pub(super) fn find(file: &[u8], wanted: &str) -> Option<Found> {
    let wanted = wanted.replace("\r\n", "\n");
    let view = View::with_one_line_break(file);
    let found = |ranges: Vec<_>, closeness| (!ranges.is_empty()).then_some(Found { ranges, closeness });
    found(view.ranges_of(&wanted, false), Closeness::Exact)
        .or_else(|| {
            let unescaped = unescape(&wanted)?;
            found(view.ranges_of(&unescaped, false), Closeness::Unescaped)
        })
        .or_else(|| {
            let loose_wanted = View::loose(wanted.as_bytes());
            let ends_trimmed = loose_wanted.ends_trimmed;
            let wanted = loose_wanted.text;
            found(View::loose(file).ranges_of(&wanted, ends_trimmed), Closeness::Loose)
        })
}

/// `text` with `\n`, `\t` and `\\` undone; nothing when it holds none.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut unescaped = String::with_capacity(text.len());
    let mut has_changed = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let meant = match (character, characters.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('\\')) => '\\',
            _ => {
                unescaped.push(character);
                continue;
            }
        };
        characters.next();
        unescaped.push(meant);
        has_changed = true;
    }
    has_changed.then_some(unescaped)
}

/// A text made from a file, and the way back from places in it to places in the file.
#[derive(Debug)]
struct View<'a> {
    text: Cow<'a, str>,
    /// In order, without gaps in the text. None at all: text and file are the same.
    segments: Vec<Segment>,
    ends_trimmed: bool,
}

/// A run of the text. With the same length on both sides it was copied byte by byte, else it stands for its
/// source as a whole.
#[derive(Debug, Clone, Copy)]
struct Segment {
    at: usize,
    length: usize,
    source: usize,
    source_length: usize,
}

/// In a view, a byte that is no text: no text a model can send is equal to it.
const NO_TEXT: &str = "\u{FFFF}";

impl<'a> View<'a> {
    /// The file with `\n` for each `\r\n`.
    fn with_one_line_break(file: &'a [u8]) -> Self {
        if !file.contains(&b'\r')
            && let Ok(text) = std::str::from_utf8(file)
        {
            return Self { text: Cow::Borrowed(text), segments: Vec::new(), ends_trimmed: false };
        }
        let mut builder = ViewBuilder::default();
        for_each_unit(file, |unit| match unit {
            Unit::Text { source, text } => builder.copy(source, text),
            Unit::LineBreak { source } => builder.put(source, "\n"),
            Unit::NoText { source } => builder.put(source, NO_TEXT),
        });
        builder.into_view(false)
    }

    /// The file with typography made plain and without blanks at the ends of its lines.
    fn loose(file: &[u8]) -> View<'static> {
        let mut builder = ViewBuilder::default();
        // Blanks that may turn out to be at the end of a line.
        let mut blanks: Vec<(usize, char)> = Vec::new();
        for_each_unit(file, |unit| match unit {
            Unit::LineBreak { source } => {
                blanks.clear();
                builder.put(source, "\n");
            }
            Unit::NoText { source } => {
                builder.put_blanks(&mut blanks);
                builder.put(source, NO_TEXT);
            }
            Unit::Text { source, text } => {
                for (at, character) in text.char_indices() {
                    match plain(character) {
                        ' ' | '\t' => blanks.push((source + at, character)),
                        _ => {
                            builder.put_blanks(&mut blanks);
                            builder.put_plain(source + at, character);
                        }
                    }
                }
            }
        });
        builder.into_view(!blanks.is_empty())
    }

    /// Where `wanted` stands, as ranges of the file. With `at_line_end` only where a line ends behind it.
    fn ranges_of(&self, wanted: &str, at_line_end: bool) -> Vec<Range<usize>> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let ends_there =
            |end: usize| self.text.get(end..).is_some_and(|rest| rest.is_empty() || rest.starts_with('\n'));
        self.text
            .match_indices(wanted)
            .map(|(start, found)| (start, start + found.len()))
            .filter(|(_, end)| !at_line_end || ends_there(*end))
            .map(|(start, end)| self.source_start(start)..self.source_end(end))
            .collect()
    }

    /// The place in the file of the character that starts at `at`.
    fn source_start(&self, at: usize) -> usize {
        match self.segment_of(at) {
            Some(segment) if segment.is_copy() => segment.source + (at - segment.at),
            Some(segment) => segment.source,
            None => at,
        }
    }

    /// The place in the file behind the character that ends at `end`, which is not 0.
    fn source_end(&self, end: usize) -> usize {
        match self.segment_of(end.saturating_sub(1)) {
            Some(segment) if segment.is_copy() => segment.source + (end - segment.at),
            Some(segment) => segment.source + segment.source_length,
            None => end,
        }
    }

    fn segment_of(&self, at: usize) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.at <= at);
        self.segments.get(behind.checked_sub(1)?)
    }
}

impl Segment {
    fn is_copy(&self) -> bool {
        self.length == self.source_length
    }
}

#[derive(Debug, Default)]
struct ViewBuilder {
    text: String,
    segments: Vec<Segment>,
}

impl ViewBuilder {
    fn copy(&mut self, source: usize, text: &str) {
        let at = self.text.len();
        self.text.push_str(text);
        if let Some(last) = self.segments.last_mut()
            && last.is_copy()
            && last.source + last.source_length == source
        {
            last.length += text.len();
            last.source_length += text.len();
            return;
        }
        self.segments.push(Segment { at, length: text.len(), source, source_length: text.len() });
    }

    fn put(&mut self, source: Range<usize>, text: &str) {
        let at = self.text.len();
        self.text.push_str(text);
        self.segments.push(Segment {
            at,
            length: text.len(),
            source: source.start,
            source_length: source.len(),
        });
    }

    fn put_plain(&mut self, source: usize, character: char) {
        let plain = plain(character);
        let (mut buffer, length) = ([0; 4], character.len_utf8());
        let text = plain.encode_utf8(&mut buffer);
        if plain == character { self.copy(source, text) } else { self.put(source..source + length, text) }
    }

    fn put_blanks(&mut self, blanks: &mut Vec<(usize, char)>) {
        for (source, character) in blanks.drain(..) {
            self.put_plain(source, character);
        }
    }

    fn into_view(self, ends_trimmed: bool) -> View<'static> {
        View { text: Cow::Owned(self.text), segments: self.segments, ends_trimmed }
    }
}

/// A piece of a file.
enum Unit<'a> {
    /// Text without a line break.
    Text { source: usize, text: &'a str },
    /// `\n` or `\r\n`.
    LineBreak { source: Range<usize> },
    /// Bytes that are no text.
    NoText { source: Range<usize> },
}

fn for_each_unit(file: &[u8], mut each: impl FnMut(Unit<'_>)) {
    let mut at = 0;
    for chunk in file.utf8_chunks() {
        for line in chunk.valid().split_inclusive('\n') {
            let (text, line_break) = match line.strip_suffix("\r\n") {
                Some(text) => (text, 2),
                None => line.strip_suffix('\n').map_or((line, 0), |text| (text, 1)),
            };
            if !text.is_empty() {
                each(Unit::Text { source: at, text });
            }
            at += line.len();
            if line_break > 0 {
                each(Unit::LineBreak { source: at - line_break..at });
            }
        }
        if !chunk.invalid().is_empty() {
            each(Unit::NoText { source: at..at + chunk.invalid().len() });
            at += chunk.invalid().len();
        }
    }
}

/// The plain character that a typographic one is taken for.
fn plain(character: char) -> char {
    match character {
        '\u{2018}'..='\u{201B}' => '\'',
        '\u{201C}'..='\u{201F}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{A0}' | '\u{2007}' | '\u{202F}' => ' ',
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &[u8], wanted: &str) -> Option<(Closeness, Vec<Vec<u8>>)> {
        let found = find(file, wanted)?;
        let bytes = found.ranges.iter().map(|range| file[range.clone()].to_vec()).collect();
        Some((found.closeness, bytes))
    }

    fn one(closeness: Closeness, bytes: &[u8]) -> Option<(Closeness, Vec<Vec<u8>>)> {
        Some((closeness, vec![bytes.to_vec()]))
    }

    #[test]
    fn a_line_break_of_either_kind_matches_either_kind() {
        assert_eq!(found(b"x\r\na\r\nb\r\n", "a\nb"), one(Closeness::Exact, b"a\r\nb"));
        assert_eq!(found(b"x\r\na\r\nb\r\n", "\na\n"), one(Closeness::Exact, b"\r\na\r\n"));
        assert_eq!(found(b"a\nb\n", "a\r\nb"), one(Closeness::Exact, b"a\nb"));
        assert_eq!(found(b"a\rb", "a\nb"), None);
    }

    #[test]
    fn escapes_are_undone_only_where_the_text_itself_is_not_there() {
        assert_eq!(found(b"a\n\tb\\", r"a\n\tb\\"), one(Closeness::Unescaped, b"a\n\tb\\"));
        assert_eq!(found(br"say(a\nb)", r"a\nb"), one(Closeness::Exact, br"a\nb"));
        assert_eq!(found(b"a\r\nb", r"a\nb"), one(Closeness::Unescaped, b"a\r\nb"));
    }

    #[test]
    fn typography_and_trailing_blanks_are_overlooked_and_the_original_span_is_given() {
        let file = "x = “a” –\u{A0}1;  \ny\n".as_bytes();
        assert_eq!(found(file, "= \"a\" - 1;\ny"), one(Closeness::Loose, "= “a” –\u{A0}1;  \ny".as_bytes()));
        assert_eq!(found(b"a  \r\nb\t\r\n", "a\nb"), one(Closeness::Loose, b"a  \r\nb"));
        assert_eq!(found(b"it's\n", "it’s"), one(Closeness::Loose, b"it's"));
    }

    #[test]
    fn a_blank_that_was_dropped_from_the_end_still_stands_for_the_end_of_a_line() {
        assert_eq!(found(b"x = 10\nx = 1\n", "x = 1 "), one(Closeness::Loose, b"x = 1"));
        assert_eq!(found(b"x = 10\n", "x = 1 "), None);
        assert_eq!(found(b"abc\n", "   "), None);
    }

    #[test]
    fn every_place_is_found_and_none_overlaps() {
        let (_, places) = found(b"aXaXaaa", "aa").unwrap();
        assert_eq!(places.len(), 1);
        assert_eq!(find(b"a\r\na\r\n", "a\n").unwrap().ranges, [0..3, 3..6]);
    }

    #[test]
    fn bytes_that_are_no_text_are_neither_matched_nor_in_the_way() {
        assert_eq!(found(b"\xFFa\xFE\r\nb", "a"), one(Closeness::Exact, b"a"));
        assert_eq!(found(b"\xFFa", "\u{FFFD}a"), None);
        assert_eq!(found("\u{FFFD}a".as_bytes(), "\u{FFFD}a"), one(Closeness::Exact, "\u{FFFD}a".as_bytes()));
    }
}
