//! Owns which encoding a file has, by its first bytes, and the way from it to UTF-8 and back.
//! Never guesses: without a mark at its start a file is UTF-8. Tested below.

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// UTF-8 without a mark.
    Utf8,
    /// UTF-8 behind a byte order mark.
    Utf8Marked,
    /// UTF-16, low byte first, behind its mark.
    Utf16Little,
    /// UTF-16, high byte first, behind its mark.
    Utf16Big,
}

impl Encoding {
    /// The encoding of a file that starts with `head`.
    pub(super) fn of(head: &[u8]) -> Self {
        [Self::Utf8Marked, Self::Utf16Little, Self::Utf16Big]
            .into_iter()
            .find(|encoding| head.starts_with(encoding.mark()))
            .unwrap_or(Self::Utf8)
    }

    /// The bytes at the start of such a file.
    pub(super) fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => b"",
            Self::Utf8Marked => b"\xEF\xBB\xBF",
            Self::Utf16Little => b"\xFF\xFE",
            Self::Utf16Big => b"\xFE\xFF",
        }
    }

    /// True for the encodings that must be turned into UTF-8 before anything is looked for.
    pub(super) fn is_utf16(self) -> bool {
        matches!(self, Self::Utf16Little | Self::Utf16Big)
    }

    /// A file of this encoding with `text`, which is UTF-8 where the encoding is not.
    pub(super) fn encode(self, text: &[u8]) -> Vec<u8> {
        let mut bytes = self.mark().to_vec();
        if !self.is_utf16() {
            bytes.extend_from_slice(text);
            return bytes;
        }
        for unit in String::from_utf8_lossy(text).encode_utf16() {
            let pair = if self == Self::Utf16Big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            bytes.extend_from_slice(&pair);
        }
        bytes
    }
}

/// Turns the bytes of a UTF-16 file into UTF-8, piece by piece. What is no text becomes U+FFFD.
#[derive(Debug)]
pub(super) struct Utf16Decoder {
    big: bool,
    half: Option<u8>,
    high: Option<u16>,
    lossy: bool,
}

impl Utf16Decoder {
    /// A decoder for the bytes behind the mark.
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { big: encoding == Encoding::Utf16Big, half: None, high: None, lossy: false }
    }

    /// True once something was no text.
    pub(super) fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// Appends what `bytes` say to `text`.
    pub(super) fn feed(&mut self, bytes: &[u8], text: &mut String) {
        for byte in bytes {
            let Some(first) = self.half.take() else {
                self.half = Some(*byte);
                continue;
            };
            let pair = [first, *byte];
            self.unit(if self.big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }, text);
        }
    }

    /// Ends the file.
    pub(super) fn finish(&mut self, text: &mut String) {
        if self.high.take().is_some() {
            self.broken(text);
        }
        if self.half.take().is_some() {
            self.broken(text);
        }
    }

    fn unit(&mut self, unit: u16, text: &mut String) {
        if let Some(high) = self.high.take() {
            match char::decode_utf16([high, unit]).next() {
                Some(Ok(character)) => return text.push(character),
                _ => self.broken(text),
            }
        }
        match char::decode_utf16([unit]).next() {
            Some(Ok(character)) => text.push(character),
            _ if (0xD800..0xDC00).contains(&unit) => self.high = Some(unit),
            _ => self.broken(text),
        }
    }

    fn broken(&mut self, text: &mut String) {
        self.lossy = true;
        text.push(char::REPLACEMENT_CHARACTER);
    }
}

/// The whole of a UTF-16 file behind its mark, and whether something in it was no text.
pub(super) fn decode_utf16(encoding: Encoding, bytes: &[u8]) -> (String, bool) {
    let mut decoder = Utf16Decoder::new(encoding);
    let mut text = String::with_capacity(bytes.len() / 2);
    decoder.feed(bytes, &mut text);
    decoder.finish(&mut text);
    (text, decoder.is_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_comes_back_as_it_went() {
        let text = "a\r\nß–😀\n";
        for encoding in [Encoding::Utf8, Encoding::Utf8Marked, Encoding::Utf16Little, Encoding::Utf16Big] {
            let file = encoding.encode(text.as_bytes());
            assert_eq!(Encoding::of(&file), encoding);
            let body = file.strip_prefix(encoding.mark()).unwrap();
            if encoding.is_utf16() {
                assert_eq!(decode_utf16(encoding, body), (text.to_owned(), false));
            } else {
                assert_eq!(body, text.as_bytes());
            }
        }
    }

    #[test]
    fn a_character_that_is_cut_between_two_pieces_is_whole() {
        let file = Encoding::Utf16Little.encode("x😀y".as_bytes());
        let mut decoder = Utf16Decoder::new(Encoding::Utf16Little);
        let mut text = String::new();
        for byte in &file[2..] {
            decoder.feed(std::slice::from_ref(byte), &mut text);
        }
        decoder.finish(&mut text);
        assert_eq!((text.as_str(), decoder.is_lossy()), ("x😀y", false));
    }

    #[test]
    fn half_a_pair_and_half_a_unit_are_marked_and_lose_nothing_else() {
        let broken = [0x00, 0xD8, b'a', 0, 0x00, 0xDC, b'b'];
        assert_eq!(
            decode_utf16(Encoding::Utf16Little, &broken),
            ("\u{FFFD}a\u{FFFD}\u{FFFD}".to_owned(), true)
        );
    }
}
