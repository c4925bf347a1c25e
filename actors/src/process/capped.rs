//! Owns the collecting of a stream whose length nobody knows: its head, its tail, and a count of the rest.
//! Never holds more than twice its limit. Tested below.

use std::collections::VecDeque;

use gent_extension_api::CappedOutput;

use crate::redact::SecretSet;

/// A stream as it comes in.
#[derive(Debug)]
pub(super) struct Capped {
    keep: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl Capped {
    /// Keeps `keep` bytes of the head, and as many of the tail.
    pub(super) fn new(keep: usize) -> Self {
        Self { keep, head: Vec::new(), tail: VecDeque::new(), omitted: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let for_head = bytes.len().min(self.keep.saturating_sub(self.head.len()));
        let (head, rest) = bytes.split_at_checked(for_head).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(head);
        let skipped = rest.len().saturating_sub(self.keep);
        let rest = rest.get(skipped..).unwrap_or_default();
        let pushed_out = (self.tail.len() + rest.len()).saturating_sub(self.keep).min(self.tail.len());
        self.tail.drain(..pushed_out);
        self.tail.extend(rest);
        self.omitted += to_u64(skipped + pushed_out);
    }

    /// What was kept. Where something was left out, the cut falls between characters, and never inside a
    /// secret, whose halves nobody would recognize.
    pub(super) fn finish(mut self, secrets: &SecretSet) -> CappedOutput {
        let mut tail = Vec::from(self.tail);
        if self.omitted == 0 {
            self.head.append(&mut tail);
            return CappedOutput { head: self.head, omitted: 0, tail };
        }
        let kept = self.head.len() + tail.len();
        // A secret that the cut itself has broken reaches at most this far into each part.
        let margin = secrets.longest_form().saturating_sub(1);
        let head_cut = secrets.cut_before(&self.head, self.head.len().saturating_sub(margin));
        self.head.truncate(head_end(&self.head, head_cut));
        let tail_cut = secrets.cut_after(&tail, margin.min(tail.len()));
        tail.drain(..tail_start(&tail, tail_cut));
        let cut_more = kept - self.head.len() - tail.len();
        CappedOutput { head: self.head, omitted: self.omitted + to_u64(cut_more), tail }
    }
}

/// The last place at or before `end` where no character is cut. Bytes that are no UTF-8 stay as they are.
fn head_end(bytes: &[u8], end: usize) -> usize {
    let before = bytes.get(..end).unwrap_or(bytes);
    let lead = before.iter().rev().take(4).position(|byte| !is_continuation(*byte));
    let Some((back, byte)) = lead.and_then(|back| Some((back, before.get(before.len() - 1 - back)?))) else {
        return before.len();
    };
    let width = match byte {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if back + 1 < width { before.len() - 1 - back } else { before.len() }
}

fn tail_start(bytes: &[u8], start: usize) -> usize {
    let after = bytes.get(start..).unwrap_or_default();
    start + after.iter().take(3).take_while(|byte| is_continuation(**byte)).count()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn to_u64(n_bytes: usize) -> u64 {
    u64::try_from(n_bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(keep: usize, chunks: &[&[u8]], secrets: &[&str]) -> CappedOutput {
        let mut capped = Capped::new(keep);
        chunks.iter().for_each(|chunk| capped.push(chunk));
        capped.finish(&SecretSet::of(secrets))
    }

    fn output(head: &str, omitted: u64, tail: &str) -> CappedOutput {
        CappedOutput { head: head.into(), omitted, tail: tail.into() }
    }

    #[test]
    fn what_fits_head_and_tail_together_is_whole() {
        assert_eq!(collect(4, &[b"ab", b"cde", b"fgh"], &[]), output("abcdefgh", 0, ""));
    }

    #[test]
    fn head_and_tail_stay_and_the_middle_is_counted_however_it_is_cut_into_chunks() {
        let bytes = b"abcdefghijklmnopqrstuvwxyz";
        for size in 1..=bytes.len() {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(collect(4, &chunks, &[]), output("abcd", 18, "wxyz"), "chunks of {size}");
        }
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let text = "aé€𝄞".repeat(10);
        for keep in 1..40 {
            let kept = collect(keep, &[text.as_bytes()], &[]);
            assert!(std::str::from_utf8(&kept.head).is_ok(), "head of {keep}");
            assert!(std::str::from_utf8(&kept.tail).is_ok(), "tail of {keep}");
            assert_eq!(kept.head.len() + kept.tail.len() + kept.omitted as usize, text.len());
        }
    }

    #[test]
    fn half_a_secret_at_the_cut_is_left_out_too() {
        let secret = "wx-secret-yz";
        let text = secret.repeat(100);
        for keep in 1..200 {
            let kept = collect(keep, &[text.as_bytes()], &[secret]);
            assert_eq!(kept.head.len() % secret.len(), 0, "head of {keep}");
            assert_eq!(kept.tail.len() % secret.len(), 0, "tail of {keep}");
            assert_eq!(kept.head.len() + kept.tail.len() + kept.omitted as usize, text.len());
        }
    }

    #[test]
    fn memory_stays_within_twice_the_limit() {
        let mut capped = Capped::new(1024);
        for _ in 0..10_000 {
            capped.push(&[b'x'; 777]);
            assert!(capped.head.len() <= 1024 && capped.tail.len() <= 1024);
        }
        assert!(capped.tail.capacity() <= 4096, "{}", capped.tail.capacity());
    }
}
