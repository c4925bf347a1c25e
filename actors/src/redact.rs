//! Owns the secrets the server knows and how they are taken out of text and of JSON.
//! Never logs, shows or returns one. Tested below and in `redact/`.
//!
//! A secret is looked for as it is and in the forms programs print it in: escaped for JSON, percent-encoded,
//! base64 at every alignment. All forms are searched in one pass, and matches that overlap are one.

mod forms;
mod stream;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use gent_extension_api::Redactor;
use serde_json::{Map, Value};

pub use stream::StreamRedactor;

/// What stands where a secret was.
pub const REDACTED: &str = "[REDACTED]";

/// Shorter strings are no secrets: taking them out would shred ordinary text.
pub const SECRET_MIN_BYTES: usize = 6;

/// Secrets kept. Beyond it the one known longest is forgotten.
pub const SECRETS_MAX: usize = 512;

/// The secrets the server knows; one value for the whole server, shared by all who write.
#[derive(Default)]
pub struct SecretSet {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// Oldest first.
    secrets: VecDeque<String>,
    /// `None` while there is nothing to look for.
    searcher: Option<Arc<Searcher>>,
}

/// Every form of every secret, ready to be searched.
#[derive(Debug)]
struct Searcher {
    automaton: AhoCorasick,
    forms: Vec<String>,
    longest: usize,
}

impl SecretSet {
    /// A set of these.
    pub fn of<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let set = Self::default();
        set.add(secrets);
        set
    }

    /// Adds secrets, for as long as the server lives: a key that was replaced is still a secret. White space
    /// around them and strings under [`SECRET_MIN_BYTES`] are ignored.
    pub fn add<S: AsRef<str>>(&self, secrets: impl IntoIterator<Item = S>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let n_before = known.secrets.len();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            let is_new = !known.secrets.iter().any(|other| other == secret);
            if secret.len() >= SECRET_MIN_BYTES && !REDACTED.contains(secret) && is_new {
                known.secrets.push_back(secret.to_owned());
            }
        }
        if known.secrets.len() == n_before {
            return;
        }
        while known.secrets.len() > SECRETS_MAX {
            known.secrets.pop_front();
            tracing::warn!(limit = SECRETS_MAX, "secrets.forgot_oldest");
        }
        known.searcher = Searcher::new(known.secrets.iter().map(String::as_str)).map(Arc::new);
    }

    /// Whether a known secret, in any form, is in the text.
    pub fn is_found_in(&self, text: &str) -> bool {
        self.searcher().is_some_and(|searcher| searcher.automaton.is_match(text))
    }

    /// Bytes of the longest form of a secret; 0 when there is none.
    pub fn longest_form(&self) -> usize {
        self.searcher().map_or(0, |searcher| searcher.longest)
    }

    /// The last place at or before `at` where a cut goes through no secret.
    pub(crate) fn cut_before(&self, bytes: &[u8], at: usize) -> usize {
        self.range_around(bytes, at).map_or(at, |range| range.start)
    }

    /// The first place at or after `at` where a cut goes through no secret.
    pub(crate) fn cut_after(&self, bytes: &[u8], at: usize) -> usize {
        self.range_around(bytes, at).map_or(at, |range| range.end)
    }

    fn range_around(&self, bytes: &[u8], at: usize) -> Option<Range<usize>> {
        let ranges = self.searcher()?.ranges(bytes);
        ranges.into_iter().find(|range| range.start < at && at < range.end)
    }

    /// Takes every known secret out of every string and every key of a value. Keys that become equal are
    /// numbered, so that nothing is lost.
    pub fn redact_value(&self, value: &mut Value) {
        if let Some(searcher) = self.searcher() {
            searcher.redact_value(value);
        }
    }

    /// A redactor for text that arrives in pieces. It knows the secrets of now.
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self.searcher())
    }

    fn searcher(&self) -> Option<Arc<Searcher>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).searcher.clone()
    }
}

impl Redactor for SecretSet {
    fn redact(&self, text: &str) -> String {
        match self.searcher().and_then(|searcher| searcher.redact(text)) {
            Some(redacted) => redacted,
            None => text.to_owned(),
        }
    }
}

impl std::fmt::Debug for SecretSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n_secrets = self.known.read().unwrap_or_else(PoisonError::into_inner).secrets.len();
        f.debug_struct("SecretSet").field("n_secrets", &n_secrets).finish()
    }
}

impl Searcher {
    fn new<'a>(secrets: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut forms: Vec<String> = secrets.flat_map(forms::forms_of).collect();
        forms.sort_unstable();
        forms.dedup();
        let longest = forms.iter().map(String::len).max()?;
        // `Standard` is the one kind that reports overlapping matches.
        let built = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&forms);
        match built {
            Ok(automaton) => Some(Self { automaton, forms, longest }),
            Err(error) => {
                // Only more than 2^31 states end here, far beyond what `SECRETS_MAX` sane keys make.
                tracing::error!(error = %error, "secrets.search_not_built");
                None
            }
        }
    }

    /// Where the text holds secrets, in order; what overlaps is one range.
    fn ranges(&self, text: impl AsRef<[u8]>) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> =
            self.automaton.find_overlapping_iter(text.as_ref()).map(|found| found.range()).collect();
        found.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    /// The text without secrets; `None` when it holds none.
    fn redact(&self, text: &str) -> Option<String> {
        let ranges = self.ranges(text);
        if ranges.is_empty() {
            return None;
        }
        let mut redacted = String::with_capacity(text.len());
        let mut done = 0;
        for range in ranges {
            redacted.push_str(text.get(done..range.start).unwrap_or_default());
            redacted.push_str(REDACTED);
            done = range.end;
        }
        redacted.push_str(text.get(done..).unwrap_or_default());
        Some(redacted)
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(redacted) = self.redact(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.redact_value(field));
                if fields.keys().any(|key| self.automaton.is_match(key.as_str())) {
                    *fields = self.redact_keys(std::mem::take(fields));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn redact_keys(&self, fields: Map<String, Value>) -> Map<String, Value> {
        let mut renamed = Map::with_capacity(fields.len());
        for (key, value) in fields {
            let key = self.redact(&key).unwrap_or(key);
            let mut free = key.clone();
            let mut n_tried = 1;
            while renamed.contains_key(&free) {
                n_tried += 1;
                free = format!("{key} {n_tried}");
            }
            renamed.insert(free, value);
        }
        renamed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_taken_out_in_every_form_programs_print_it_in() {
        let secret = "s3cr3t/Key+\"with\" odd=ends\\";
        let secrets = SecretSet::of([secret]);
        for (form, text) in [
            ("plain", secret.to_owned()),
            ("json", r#"s3cr3t/Key+\"with\" odd=ends\\"#.to_owned()),
            ("percent", "s3cr3t%2FKey%2B%22with%22%20odd%3Dends%5C".to_owned()),
            ("percent, small letters", "s3cr3t%2fKey%2b%22with%22%20odd%3dends%5c".to_owned()),
            ("form", "s3cr3t%2FKey%2B%22with%22+odd%3Dends%5C".to_owned()),
            ("path", "s3cr3t/Key+%22with%22%20odd=ends%5C".to_owned()),
            ("base64", "czNjcjN0L0tleSsid2l0aCIgb2RkPWVuZHNc".to_owned()),
        ] {
            let redacted = secrets.redact(&format!("before {text} after"));
            assert_eq!(redacted, "before [REDACTED] after", "{form}");
        }
    }

    #[test]
    fn base64_of_text_around_a_secret_gives_away_no_more_than_its_edges() {
        use base64::Engine as _;
        let secret = "sk-test-1234567890";
        let secrets = SecretSet::of([secret]);
        for before in ["", "u", "us", "user:", "user:x"] {
            for engine in
                [base64::engine::general_purpose::STANDARD, base64::engine::general_purpose::URL_SAFE]
            {
                let encoded = engine.encode(format!("{before}{secret}:after"));
                let redacted = secrets.redact(&encoded);
                assert!(redacted.contains(REDACTED), "{before}: {redacted}");
                assert!(
                    redacted.len() <= encoded.len() - secret.len() * 4 / 3 + 3 + REDACTED.len(),
                    "{redacted}"
                );
            }
        }
    }

    #[test]
    fn of_two_secrets_the_longer_goes_whole_and_overlapping_ones_go_together() {
        let secrets = SecretSet::of(["abcdef", "abcdefgh", "fghijkl"]);
        assert_eq!(secrets.redact("xabcdefghx"), "x[REDACTED]x");
        assert_eq!(secrets.redact("xabcdefghijklx"), "x[REDACTED]x");
        assert_eq!(secrets.redact("xabcdefabcdefx"), "x[REDACTED][REDACTED]x");
    }

    #[test]
    fn short_strings_and_the_mark_itself_are_no_secrets() {
        let secrets = SecretSet::of(["", "12345", "  \n", "REDACTED"]);
        assert_eq!(secrets.longest_form(), 0);
        assert_eq!(secrets.redact("12345 REDACTED"), "12345 REDACTED");
    }

    #[test]
    fn every_string_and_every_key_of_a_value_is_walked_and_nothing_is_lost() {
        let secrets = SecretSet::of(["sk-test-123"]);
        let mut value = json!({
            "stdout": "KEY=sk-test-123\n",
            "sk-test-123": 1,
            "[REDACTED]": 2,
            "deep": [{ "a": ["sk-test-123", 7, null, true] }],
        });
        secrets.redact_value(&mut value);
        assert_eq!(
            value,
            json!({
                "stdout": "KEY=[REDACTED]\n",
                "[REDACTED]": 1,
                "[REDACTED] 2": 2,
                "deep": [{ "a": ["[REDACTED]", 7, null, true] }],
            })
        );
    }

    #[test]
    fn taking_out_twice_changes_nothing_more() {
        let secrets = SecretSet::of(["sk-test-123", "another one"]);
        let once = secrets.redact("sk-test-123 another one");
        assert_eq!(secrets.redact(&once), once);
    }

    #[test]
    fn a_secret_that_comes_later_counts_from_then_on_and_the_oldest_goes_beyond_the_limit() {
        let secrets = SecretSet::default();
        assert_eq!(secrets.redact("secret-00000"), "secret-00000");
        secrets.add((0..=SECRETS_MAX).map(|number| format!("secret-{number:05}")));
        assert_eq!(secrets.redact("secret-00000"), "secret-00000");
        assert_eq!(secrets.redact("secret-00001"), "[REDACTED]");
    }

    #[test]
    fn a_secret_set_does_not_show_what_it_knows() {
        assert_eq!(format!("{:?}", SecretSet::of(["sk-test-123"])), "SecretSet { n_secrets: 1 }");
    }
}
