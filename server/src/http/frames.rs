//! Owns the reading half of a socket: bytes in, whole text messages and control frames out, each bound checked
//! when a frame's head arrives, so that a forbidden frame is never buffered. The socket library checks a frame's
//! length only after all of it has come, and counts bytes but not fragments; that is why this is our own.
//! Never answers and never awaits. Tested below.

use actix_web::web::{Buf, Bytes};

/// Bytes of one message from a client, over all its fragments. Beyond it: close 1009.
pub(crate) const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Fragments of one message. Beyond it: close 1008; empty fragments cost nothing else.
pub(crate) const MESSAGE_FRAGMENTS: u32 = 1_000;
/// Payload of a control frame, by the socket standard.
const CONTROL_BYTES: u64 = 125;
/// The longest head: two bytes, eight of length, four of mask.
const HEAD_BYTES: usize = 14;

/// What a client sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A whole message.
    Text(String),
    /// Wants its payload back.
    Ping(Vec<u8>),
    /// Answers our ping.
    Pong,
    /// Closes.
    Close,
}

/// What a client did that ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Violation {
    /// More bytes than a message may have.
    Oversized,
    /// More fragments than a message may have.
    Fragments,
    /// A binary message.
    Binary,
    /// Text that is not UTF-8.
    Utf8,
    /// Not the socket protocol.
    Protocol(&'static str),
}

impl Violation {
    /// The close code and its sentence.
    pub(crate) fn close(self) -> (u16, &'static str) {
        match self {
            Self::Oversized => (1009, "a message may have 16 MiB"),
            Self::Fragments => (1008, "a message may have 1000 fragments"),
            Self::Binary => (1003, "send JSON as a text message"),
            Self::Utf8 => (1007, "a text message must be UTF-8"),
            Self::Protocol(what) => (1002, what),
        }
    }

    /// Whether the frame borders are still known, so that the rest can be skipped frame by frame.
    pub(crate) fn keeps_frames(self) -> bool {
        !matches!(self, Self::Protocol(_))
    }
}

#[derive(Debug, Clone, Copy)]
struct Head {
    fin: bool,
    opcode: u8,
    length: u64,
    mask: [u8; 4],
}

/// The decoder of one connection.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    head: Vec<u8>,
    frame: Option<Frame>,
    message: Vec<u8>,
    fragments: u32,
    is_in_message: bool,
    control: Vec<u8>,
    is_discarding: bool,
}

#[derive(Debug)]
struct Frame {
    head: Head,
    read: u64,
}

impl Decoder {
    /// A decoder at the start of a connection.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// From here on everything but a close frame is skipped, without buffering.
    pub(crate) fn discard(&mut self) {
        self.is_discarding = true;
        self.message = Vec::new();
    }

    /// Takes bytes from the front of `chunk` until something is complete or the chunk is used up.
    pub(crate) fn feed(&mut self, chunk: &mut Bytes) -> Option<Result<Incoming, Violation>> {
        loop {
            let Some(frame) = &mut self.frame else {
                let head = match self.read_head(chunk)? {
                    Ok(head) => head,
                    Err(violation) => return Some(Err(violation)),
                };
                let admitted = self.admit(head);
                // Kept even when refused: `discard` skips its payload.
                self.frame = Some(Frame { head, read: 0 });
                if let Err(violation) = admitted {
                    return Some(Err(violation));
                }
                continue;
            };
            let head = frame.head;
            let left = head.length.saturating_sub(frame.read);
            let n = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            let part = chunk.split_to(n);
            if head.opcode >= 8 {
                append_unmasked(&mut self.control, &part, head.mask, frame.read);
            } else if !self.is_discarding {
                append_unmasked(&mut self.message, &part, head.mask, frame.read);
            }
            frame.read = frame.read.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
            if frame.read < head.length {
                return None;
            }
            self.frame = None;
            if let Some(complete) = self.finish_frame(head) {
                return Some(complete);
            }
        }
    }

    /// `None`: the chunk ended inside the head.
    fn read_head(&mut self, chunk: &mut Bytes) -> Option<Result<Head, Violation>> {
        loop {
            match parse_head(&self.head) {
                Ok(Some(head)) => {
                    self.head.clear();
                    return Some(Ok(head));
                }
                Ok(None) => {}
                Err(violation) => return Some(Err(violation)),
            }
            if chunk.is_empty() {
                return None;
            }
            self.head.push(chunk.get_u8());
        }
    }

    fn admit(&mut self, head: Head) -> Result<(), Violation> {
        if head.opcode >= 8 || self.is_discarding {
            return Ok(());
        }
        match (head.opcode, self.is_in_message) {
            (0, false) => return Err(Violation::Protocol("a continuation without a beginning")),
            (1 | 2, true) => return Err(Violation::Protocol("a new message inside another")),
            (2, false) => return Err(Violation::Binary),
            (1, false) => {
                self.is_in_message = true;
                self.fragments = 0;
                self.message = Vec::new();
            }
            _ => {}
        }
        self.fragments += 1;
        if self.fragments > MESSAGE_FRAGMENTS {
            return Err(Violation::Fragments);
        }
        let room = MESSAGE_BYTES.saturating_sub(self.message.len());
        if usize::try_from(head.length).map_or(true, |length| length > room) {
            return Err(Violation::Oversized);
        }
        Ok(())
    }

    fn finish_frame(&mut self, head: Head) -> Option<Result<Incoming, Violation>> {
        match head.opcode {
            8 => {
                self.control.clear();
                Some(Ok(Incoming::Close))
            }
            9 | 10 if self.is_discarding => {
                self.control.clear();
                None
            }
            9 => Some(Ok(Incoming::Ping(std::mem::take(&mut self.control)))),
            10 => {
                self.control.clear();
                Some(Ok(Incoming::Pong))
            }
            _ if self.is_discarding || !head.fin => None,
            _ => {
                self.is_in_message = false;
                let text = String::from_utf8(std::mem::take(&mut self.message));
                Some(text.map(Incoming::Text).map_err(|_bytes| Violation::Utf8))
            }
        }
    }
}

/// `None`: more bytes are needed.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Violation> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(Violation::Protocol("reserved bits are set"));
    }
    let (fin, opcode) = (first & 0x80 != 0, first & 0x0f);
    if !matches!(opcode, 0 | 1 | 2 | 8 | 9 | 10) {
        return Err(Violation::Protocol("an unknown kind of frame"));
    }
    if second & 0x80 == 0 {
        return Err(Violation::Protocol("a frame without a mask"));
    }
    let (length, rest) = match second & 0x7f {
        126 => {
            let Some((length, rest)) = rest.split_first_chunk::<2>() else { return Ok(None) };
            (u64::from(u16::from_be_bytes(*length)), rest)
        }
        127 => {
            let Some((length, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
            (u64::from_be_bytes(*length), rest)
        }
        short => (u64::from(short), rest),
    };
    if opcode >= 8 && (length > CONTROL_BYTES || !fin) {
        return Err(Violation::Protocol("a control frame that is long or in fragments"));
    }
    let Some(mask) = rest.first_chunk::<4>() else {
        debug_assert!(bytes.len() < HEAD_BYTES, "a head has at most {HEAD_BYTES} bytes");
        return Ok(None);
    };
    Ok(Some(Head { fin, opcode, length, mask: *mask }))
}

fn append_unmasked(into: &mut Vec<u8>, part: &[u8], mask: [u8; 4], read: u64) {
    // The mask goes on where the last chunk of this frame ended.
    let mask = u32::from_le_bytes(mask).rotate_right(u32::try_from(read % 4).unwrap_or(0) * 8).to_le_bytes();
    into.extend(part.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [7u8, 99, 3, 250];
        let mut bytes = vec![if fin { 0x80 } else { 0 } | opcode];
        match payload.len() {
            n @ 0..126 => bytes.push(0x80 | n as u8),
            n @ 126..65_536 => {
                bytes.push(0x80 | 126);
                bytes.extend((n as u16).to_be_bytes());
            }
            n => {
                bytes.push(0x80 | 127);
                bytes.extend((n as u64).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(payload.iter().enumerate().map(|(i, b)| b ^ mask[i % 4]));
        bytes
    }

    fn decode(bytes: &[u8], step: usize) -> Vec<Result<Incoming, Violation>> {
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        for piece in bytes.chunks(step) {
            let mut chunk = Bytes::copy_from_slice(piece);
            while let Some(event) = decoder.feed(&mut chunk) {
                let stop = event.is_err();
                seen.push(event);
                if stop {
                    return seen;
                }
            }
            assert!(chunk.is_empty());
        }
        seen
    }

    #[test]
    fn fragments_join_across_any_cut_of_the_bytes_with_a_ping_between_them() {
        let long = "ü".repeat(40_000);
        let mut bytes = frame(false, 1, "héllo ".as_bytes());
        bytes.extend(frame(true, 9, b"hi"));
        bytes.extend(frame(false, 0, b""));
        bytes.extend(frame(true, 0, "wörld".as_bytes()));
        bytes.extend(frame(true, 1, long.as_bytes()));
        bytes.extend(frame(true, 8, &[3, 232]));
        for step in [1, 2, 3, 7, 1000, usize::MAX] {
            let seen: Vec<_> = decode(&bytes, step).into_iter().map(Result::unwrap).collect();
            assert_eq!(
                seen,
                [
                    Incoming::Ping(b"hi".to_vec()),
                    Incoming::Text("héllo wörld".into()),
                    Incoming::Text(long.clone()),
                    Incoming::Close
                ]
            );
        }
    }

    #[test]
    fn the_head_of_an_oversized_frame_is_enough_to_refuse_it() {
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((100u64 * 1024 * 1024).to_be_bytes());
        head.extend([0; 4]);
        assert_eq!(decode(&head, 1), [Err(Violation::Oversized)]);
        assert_eq!(Violation::Oversized.close().0, 1009);
        let mut huge = vec![0x81, 0x80 | 127];
        huge.extend(u64::MAX.to_be_bytes());
        huge.extend([0; 4]);
        assert_eq!(decode(&huge, 3), [Err(Violation::Oversized)]);
    }

    #[test]
    fn fragments_that_are_together_too_large_are_refused_before_the_last_is_read() {
        let mut bytes = frame(false, 1, &vec![b'a'; MESSAGE_BYTES - 1]);
        bytes.extend(frame(false, 0, b"b"));
        assert_eq!(decode(&bytes, 65_536), []);
        bytes.extend(frame(false, 0, b"c"));
        assert_eq!(decode(&bytes, 65_536), [Err(Violation::Oversized)]);
    }

    #[test]
    fn a_message_of_more_than_a_thousand_empty_fragments_is_refused_b165() {
        let mut bytes = frame(false, 1, b"");
        for _ in 1..MESSAGE_FRAGMENTS {
            bytes.extend(frame(false, 0, b""));
        }
        assert_eq!(decode(&bytes, 6_000), []);
        bytes.extend(frame(false, 0, b""));
        assert_eq!(decode(&bytes, 6_000), [Err(Violation::Fragments)]);
        assert_eq!(Violation::Fragments.close().0, 1008);
    }

    #[test]
    fn the_count_of_fragments_begins_anew_with_each_message() {
        let mut bytes = Vec::new();
        for _ in 0..3 {
            bytes.extend(frame(false, 1, b""));
            for _ in 2..MESSAGE_FRAGMENTS {
                bytes.extend(frame(false, 0, b""));
            }
            bytes.extend(frame(true, 0, b"x"));
        }
        let seen = decode(&bytes, 4_096);
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|event| *event == Ok(Incoming::Text("x".into()))));
    }

    #[test]
    fn what_is_not_the_protocol_is_named() {
        let unmasked = [0x81, 1, b'a'];
        let cases: &[(Vec<u8>, u16)] = &[
            (unmasked.to_vec(), 1002),
            (frame(true, 0, b"x"), 1002),
            (frame(true, 3, b"x"), 1002),
            (frame(false, 9, b"x"), 1002),
            (frame(true, 9, &[0; 126]), 1002),
            (frame(true, 2, b"x"), 1003),
            (frame(true, 1, &[0xff]), 1007),
            ([frame(false, 1, b"x"), frame(false, 1, b"x")].concat(), 1002),
        ];
        for (bytes, code) in cases {
            let seen = decode(bytes, 1);
            assert_eq!(seen.len(), 1, "{bytes:?}");
            assert_eq!(seen[0].as_ref().unwrap_err().close().0, *code, "{bytes:?}");
        }
    }

    #[test]
    fn after_a_refused_frame_the_rest_is_skipped_until_the_client_closes() {
        let mut decoder = Decoder::new();
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((MESSAGE_BYTES as u64 + 1).to_be_bytes());
        head.extend([0; 4]);
        assert_eq!(decoder.feed(&mut Bytes::from(head)), Some(Err(Violation::Oversized)));
        decoder.discard();
        let mut left = MESSAGE_BYTES + 1;
        while left > 0 {
            let n = left.min(1 << 20);
            let mut chunk = Bytes::from(vec![b'x'; n]);
            assert_eq!(decoder.feed(&mut chunk), None);
            left -= n;
        }
        assert!(decoder.message.capacity() == 0);
        let mut close = Bytes::from(frame(true, 8, b""));
        assert_eq!(decoder.feed(&mut close), Some(Ok(Incoming::Close)));
    }
}
