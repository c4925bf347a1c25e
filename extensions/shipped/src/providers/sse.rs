//! Owns the reading of server-sent events: bytes in any cut, events out.
//! Never decodes before a line is whole, so a character that was cut in two comes out whole; never holds more
//! than one event and the piece that was pushed. It is written here and not taken from a library because the
//! usual one copies the rest of its buffer for every line, knows no bound, and drops a last event that lacks its
//! blank line. Tested below and over recorded streams in `tests/it/providers.rs`.

/// The most bytes of one event. Beyond it the stream fails: nobody sends an honest event of this size.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// One event with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SseEvent<'a> {
    /// Its data; several lines are joined by line feeds.
    pub data: &'a str,
}

/// Why a stream is not one of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SseError {
    #[error("an event of more than {MAX_EVENT_BYTES} bytes")]
    TooLarge,
    #[error("text that is not UTF-8")]
    Utf8,
}

/// Takes events out of pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct SseReader {
    buffer: Vec<u8>,
    /// Where the unread part begins.
    start: usize,
    /// Up to where the current line was searched for its end.
    searched: usize,
    /// The line before ended in a carriage return: a line feed at once after it belongs to that end.
    after_return: bool,
    data: Vec<u8>,
    has_data: bool,
    is_past_first_line: bool,
}

impl SseReader {
    /// Adds a piece of the stream.
    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched = self.searched.saturating_sub(self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(piece);
    }

    /// The next event that is whole.
    pub(super) fn next_event(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        self.begin_event();
        while let Some((from, to)) = self.take_line() {
            if from == to {
                if self.has_data {
                    return self.event().map(Some);
                }
                continue;
            }
            self.take_field(from, to)?;
        }
        if self.buffer.len().saturating_sub(self.start).saturating_add(self.data.len()) > MAX_EVENT_BYTES {
            return Err(SseError::TooLarge);
        }
        Ok(None)
    }

    /// The event that the end of the stream completes: the standard would drop one without its blank line, but
    /// some servers end so.
    pub(super) fn last_event(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        self.begin_event();
        let (from, to) = (self.start, self.buffer.len());
        self.start = to;
        self.searched = to;
        if from < to {
            self.take_field(from, to)?;
        }
        if self.has_data { self.event().map(Some) } else { Ok(None) }
    }

    /// Forgets the event that was handed out.
    fn begin_event(&mut self) {
        if !self.has_data {
            self.data.clear();
        }
    }

    fn event(&mut self) -> Result<SseEvent<'_>, SseError> {
        self.has_data = false;
        match std::str::from_utf8(&self.data) {
            Ok(data) => Ok(SseEvent { data }),
            Err(_not_utf8) => Err(SseError::Utf8),
        }
    }

    /// The next whole line, without its end.
    fn take_line(&mut self) -> Option<(usize, usize)> {
        if self.after_return && self.buffer.get(self.start) == Some(&b'\n') {
            self.start += 1;
        }
        if self.start < self.buffer.len() {
            self.after_return = false;
        }
        let from = self.start;
        let begin = self.searched.max(from);
        let rest = self.buffer.get(begin..)?;
        let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.searched = self.buffer.len();
            return None;
        };
        let to = begin + at;
        self.after_return = self.buffer.get(to) == Some(&b'\r');
        self.start = to + 1;
        self.searched = self.start;
        Some((from, to))
    }

    fn take_field(&mut self, from: usize, to: usize) -> Result<(), SseError> {
        let mut line = self.buffer.get(from..to).unwrap_or_default();
        if !self.is_past_first_line {
            self.is_past_first_line = true;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        // Some servers put a failure in a field named `error`; to the reader of the data it looks the same.
        let value = if let Some(value) = line.strip_prefix(b"data:").or_else(|| line.strip_prefix(b"error:"))
        {
            value
        } else if line == b"data" {
            b""
        } else {
            return Ok(());
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if self.has_data {
            self.data.push(b'\n');
        }
        if self.data.len().saturating_add(value.len()) > MAX_EVENT_BYTES {
            return Err(SseError::TooLarge);
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8], piece: usize) -> Result<Vec<String>, SseError> {
        let mut reader = SseReader::default();
        let mut events = Vec::new();
        for piece in stream.chunks(piece) {
            reader.push(piece);
            while let Some(event) = reader.next_event()? {
                events.push(event.data.to_owned());
            }
        }
        if let Some(event) = reader.last_event()? {
            events.push(event.data.to_owned());
        }
        Ok(events)
    }

    const MIXED: &str = "\u{FEFF}data: one 🦀漢\n\n: ping\n\nevent: x\ndata: two\ndata:lines\r\n\r\nid: 7\rdata: 三\r\rdata\n\nretry: 3\n\ndata: last";

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        for piece in [1, 2, 3, 7, 64, 4096] {
            let events = read(MIXED.as_bytes(), piece).unwrap();
            assert_eq!(events, ["one 🦀漢", "two\nlines", "三", "", "last"], "pieces of {piece}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_an_error_and_not_replaced() {
        assert_eq!(read(b"data: a\xFFb\n\n", 4), Err(SseError::Utf8));
        assert_eq!(read(b"data: \xF0\x9F\xA6", 1), Err(SseError::Utf8));
    }

    #[test]
    fn an_event_beyond_the_bound_is_refused_while_it_arrives() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; 1024 * 1024];
        reader.push(b"data: ");
        let mut outcome = Ok(false);
        for _ in 0..20 {
            reader.push(&piece);
            outcome = reader.next_event().map(|event| event.is_some());
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(outcome, Err(SseError::TooLarge));
        let mut reader = SseReader::default();
        for _ in 0..20 {
            reader.push(b"data: ");
            reader.push(&piece);
            reader.push(b"\n");
            if let Err(error) = reader.next_event() {
                assert_eq!(error, SseError::TooLarge);
                return;
            }
        }
        panic!("many lines of one event passed the bound");
    }

    #[test]
    fn what_was_read_is_not_kept() {
        let mut reader = SseReader::default();
        for _ in 0..10_000 {
            reader.push(b"data: {\"a\":1}\n\n");
            assert!(reader.next_event().unwrap().is_some());
        }
        assert!(reader.buffer.len() < 64, "{}", reader.buffer.len());
    }
}
