//! Owns when text goes out while an answer comes: the first at once, then at most every 25 ms or 1 KiB, one
//! write in flight, what comes meanwhile joins the next. Pure. Tested below.

use std::time::Duration;

use crate::limits::{DELTA_BYTES, DELTA_WAIT};

/// Text of one step on its way out.
#[derive(Debug, Default)]
pub(crate) struct DeltaBuffer {
    text: String,
    offset: u64,
    last: Option<Duration>,
    is_writing: bool,
}

/// A piece that is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Bytes of the step's text before it.
    pub(crate) offset: u64,
    pub(crate) text: String,
}

impl DeltaBuffer {
    /// Takes text in.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// What is to be written now, if anything. The caller says when it is [`written`](Self::written).
    pub(crate) fn take(&mut self, now: Duration) -> Option<Delta> {
        let is_due = self.text.len() >= DELTA_BYTES
            || self.last.is_none_or(|last| now.saturating_sub(last) >= DELTA_WAIT);
        if self.is_writing || self.text.is_empty() || !is_due {
            return None;
        }
        self.is_writing = true;
        self.last = Some(now);
        let text = std::mem::take(&mut self.text);
        let offset = self.offset;
        self.offset += u64::try_from(text.len()).unwrap_or(0);
        Some(Delta { offset, text })
    }

    /// The write that was in flight is over.
    pub(crate) fn written(&mut self) {
        self.is_writing = false;
    }

    /// How long until waiting text is due; `None` while nothing waits or a write is in flight.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        if self.is_writing || self.text.is_empty() {
            return None;
        }
        Some(self.last.map_or(Duration::ZERO, |last| (last + DELTA_WAIT).saturating_sub(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_text_goes_at_once_and_the_next_waits_and_joins() {
        let mut buffer = DeltaBuffer::default();
        buffer.push("é");
        assert_eq!(buffer.take(at(0)), Some(Delta { offset: 0, text: "é".into() }));
        buffer.push("a");
        assert_eq!(buffer.take(at(100)), None, "one write is in flight");
        buffer.written();
        assert_eq!(buffer.due_in(at(10)), Some(at(15)));
        assert_eq!(buffer.take(at(10)), None);
        buffer.push("b");
        assert_eq!(buffer.take(at(25)), Some(Delta { offset: 2, text: "ab".into() }));
        buffer.written();
        buffer.push(&"x".repeat(DELTA_BYTES));
        assert_eq!(buffer.take(at(26)).map(|delta| delta.offset), Some(4));
    }
}
