//! Owns the redaction of text that arrives in pieces: a secret cut over two or more of them never gets out.
//! Never holds back more than the longest form of a secret. Tested below.

use std::sync::Arc;

use super::{REDACTED, Searcher};

/// Takes secrets out of text that arrives in pieces.
#[derive(Debug)]
pub struct StreamRedactor {
    searcher: Option<Arc<Searcher>>,
    held: String,
    /// Bytes at the start of `held` that belong to a secret whose mark is out already.
    covered: usize,
}

impl StreamRedactor {
    pub(super) fn new(searcher: Option<Arc<Searcher>>) -> Self {
        Self { searcher, held: String::new(), covered: 0 }
    }

    /// Takes a piece and returns what is safe to show: everything but an end that may be the beginning of a
    /// secret.
    pub fn push(&mut self, piece: &str) -> String {
        let Some(searcher) = self.searcher.clone() else { return piece.to_owned() };
        self.held.push_str(piece);
        let until = searcher.beginning_of_secret(&self.held);
        self.take(&searcher, until)
    }

    /// Returns the rest: what was held back turned out to be no secret.
    pub fn finish(mut self) -> String {
        match self.searcher.take() {
            Some(searcher) => self.take(&searcher, self.held.len()),
            None => String::new(),
        }
    }

    /// Releases what lies before `until`.
    fn take(&mut self, searcher: &Searcher, until: usize) -> String {
        let mut out = String::new();
        let mut done = 0;
        let mut covered = 0;
        let mut ranges = searcher.ranges(&self.held);
        let continued = self.covered > 0;
        if continued {
            // What overlaps with the secret that is under way belongs to it.
            let mut end = self.covered;
            ranges.retain(|range| {
                let joins = range.start < end;
                if joins {
                    end = end.max(range.end);
                }
                !joins
            });
            ranges.insert(0, 0..end);
            covered = end.saturating_sub(until);
        }
        for (idx, range) in ranges.into_iter().enumerate() {
            if range.start >= until {
                break;
            }
            out.push_str(self.held.get(done..range.start).unwrap_or_default());
            if !(continued && idx == 0) {
                out.push_str(REDACTED);
            }
            done = range.end.min(until);
            covered = range.end.saturating_sub(until);
        }
        out.push_str(self.held.get(done..until).unwrap_or_default());
        self.held.drain(..until);
        self.covered = covered;
        out
    }
}

impl Searcher {
    /// Where the longest end of `text` starts that is the beginning of a form; the end of `text` if none is.
    fn beginning_of_secret(&self, text: &str) -> usize {
        let longest = text.len().min(self.longest.saturating_sub(1));
        let earliest = text.len() - longest;
        text.char_indices()
            .rev()
            .map(|(start, _)| start)
            .take_while(|start| *start >= earliest)
            .filter(|start| {
                let end = text.get(*start..).unwrap_or_default();
                self.forms.iter().any(|form| form.len() > end.len() && form.starts_with(end))
            })
            .last()
            .unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use gent_extension_api::Redactor as _;

    use super::super::SecretSet;
    use super::*;

    fn in_pieces(secrets: &SecretSet, pieces: &[&str]) -> (String, Vec<String>) {
        let mut stream = secrets.stream();
        let mut shown: Vec<String> = pieces.iter().map(|piece| stream.push(piece)).collect();
        shown.push(stream.finish());
        (shown.concat(), shown)
    }

    #[test]
    fn a_secret_never_gets_out_however_the_text_is_cut() {
        let secrets = SecretSet::of(["sk-test-123", "st-123-more", "123456", "ключ-секрет"]);
        let text = "a sk-test-123-more b 123456 c ключ-секрет d sk-test-12 st-123 123456123456 sk-test-123";
        let whole = secrets.redact(text);
        for size in 1..text.len() {
            let pieces: Vec<String> = {
                let letters: Vec<char> = text.chars().collect();
                letters.chunks(size).map(|piece| piece.iter().collect()).collect()
            };
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(in_pieces(&secrets, &pieces).0, whole, "pieces of {size}");
        }
    }

    #[test]
    fn only_an_end_that_may_begin_a_secret_is_held_back() {
        let secrets = SecretSet::of(["secret-word"]);
        let (_, shown) = in_pieces(&secrets, &["plain text", " and sec", "ond thought"]);
        assert_eq!(shown, ["plain text", " and ", "second thought", ""]);
    }

    #[test]
    fn secrets_that_run_into_each_other_without_end_do_not_fill_the_memory() {
        let secrets = SecretSet::of(["aaaaaa"]);
        let mut stream = secrets.stream();
        let mut shown = String::new();
        for _ in 0..1_000 {
            shown.push_str(&stream.push("aaa"));
            assert!(stream.held.len() < 16);
        }
        shown.push_str(&stream.finish());
        assert_eq!(shown, REDACTED);
    }

    #[test]
    fn without_secrets_every_piece_goes_straight_through() {
        let (_, shown) = in_pieces(&SecretSet::default(), &["a", "b"]);
        assert_eq!(shown, ["a", "b", ""]);
    }
}
