//! Owns what somebody types: lines of bounded length, from a terminal or a pipe, and what a line asks for.
//! Never does it. Tested below.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

/// Bytes of a line; a longer one is left out as a whole. A prompt of that size belongs in a file.
const LINE_BYTES: usize = 1024 * 1024;

/// What came from the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line, without its newline.
    Line(String),
    /// A line that cannot be used, and why.
    Unusable(&'static str),
    /// There will be no more.
    End,
}

/// Where lines are typed. Nothing is read before somebody asks for a line.
pub struct Keyboard {
    source: Option<Box<dyn AsyncBufRead + Send + Unpin>>,
    is_terminal: bool,
    line: Vec<u8>,
    is_too_long: bool,
}

impl std::fmt::Debug for Keyboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyboard").field("is_terminal", &self.is_terminal).finish_non_exhaustive()
    }
}

impl Keyboard {
    /// Lines of `source`; a person types them where it is a terminal.
    pub fn new(source: impl AsyncBufRead + Send + Unpin + 'static, is_terminal: bool) -> Self {
        Self { source: Some(Box::new(source)), is_terminal, line: Vec::new(), is_too_long: false }
    }

    /// Standard input.
    pub fn stdin(is_terminal: bool) -> Self {
        Self::new(BufReader::new(tokio::io::stdin()), is_terminal)
    }

    /// Nobody types anything.
    pub fn nobody() -> Self {
        Self { source: None, is_terminal: false, line: Vec::new(), is_too_long: false }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// True once there can be no more lines.
    pub(crate) fn is_ended(&self) -> bool {
        self.source.is_none()
    }

    /// The next line. Safe to drop: what was read of it stays.
    pub(crate) async fn next(&mut self) -> Typed {
        loop {
            let Some(source) = &mut self.source else { return Typed::End };
            // An input that cannot be read on has ended.
            let read = source.fill_buf().await.unwrap_or_default();
            if read.is_empty() {
                self.source = None;
                let is_rest = !self.line.is_empty() || self.is_too_long;
                return if is_rest { self.finish() } else { Typed::End };
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = read.get(..end.unwrap_or(read.len())).unwrap_or_default();
            self.is_too_long |= self.line.len() + piece.len() > LINE_BYTES;
            if !self.is_too_long {
                self.line.extend_from_slice(piece);
            }
            let n_read = piece.len() + usize::from(end.is_some());
            source.consume(n_read);
            if end.is_some() {
                return self.finish();
            }
        }
    }

    fn finish(&mut self) -> Typed {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            return Typed::Unusable("a line longer than 1 MiB was left out: put it in a file and name that");
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        match String::from_utf8(line) {
            Ok(line) => Typed::Line(line),
            Err(_binary) => Typed::Unusable("a line that is no UTF-8 text was left out: convert it"),
        }
    }
}

/// What a typed line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing.
    Nothing,
    /// To leave.
    Leave,
    /// To say something to the turn that runs.
    Now(String),
    /// To answer the open question.
    Answer(String),
    /// To run a prompt.
    Prompt(String),
}

impl Order {
    /// The order of a line; while a question `is_open` whatever is no command answers it.
    pub(crate) fn of(line: &str, is_open: bool) -> Self {
        let trimmed = line.trim();
        if trimmed == "/quit" {
            return Self::Leave;
        }
        if let Some(text) = trimmed.strip_prefix("!now ") {
            return Self::Now(text.trim().to_owned());
        }
        match trimmed {
            _ if is_open => Self::Answer(trimmed.to_owned()),
            "" => Self::Nothing,
            _ => Self::Prompt(line.trim_end().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> Vec<Typed> {
        let source = std::io::Cursor::new(bytes.to_vec());
        // Small pieces: a line is put together from many of them.
        let mut keyboard = Keyboard::new(BufReader::with_capacity(7, source), false);
        let mut typed = Vec::new();
        while !keyboard.is_ended() {
            typed.push(keyboard.next().await);
        }
        typed
    }

    fn line(text: &str) -> Typed {
        Typed::Line(text.to_owned())
    }

    #[tokio::test]
    async fn lines_come_whole_and_the_last_one_needs_no_newline() {
        let expected = [line("first line, a long one"), line(""), line("dös"), line("last")];
        assert_eq!(all("first line, a long one\n\ndös\r\nlast".as_bytes()).await, expected);
        assert_eq!(all(b"").await, [Typed::End]);
        assert_eq!(Keyboard::nobody().next().await, Typed::End);
    }

    #[tokio::test]
    async fn a_line_that_cannot_be_used_is_left_out_and_the_next_one_counts() {
        let mut bytes = vec![b'x'; LINE_BYTES + 1];
        bytes.extend_from_slice(b"\nshort\n\xff\xfe\nend\n");
        let [long, short, binary, end, over] = <[Typed; 5]>::try_from(all(&bytes).await).unwrap();
        assert!(matches!(long, Typed::Unusable(why) if why.contains("1 MiB")), "{long:?}");
        assert!(matches!(binary, Typed::Unusable(why) if why.contains("UTF-8")), "{binary:?}");
        assert_eq!([short, end, over], [line("short"), line("end"), Typed::End]);
    }

    #[test]
    fn a_line_asks_for_one_thing() {
        let text = str::to_owned;
        for (line, idle, asked) in [
            ("/quit ", Order::Leave, Order::Leave),
            ("!now  stop it", Order::Now(text("stop it")), Order::Now(text("stop it"))),
            ("  fix it ", Order::Prompt(text("  fix it")), Order::Answer(text("fix it"))),
            (" ", Order::Nothing, Order::Answer(text(""))),
            ("/help", Order::Prompt(text("/help")), Order::Answer(text("/help"))),
        ] {
            assert_eq!((Order::of(line, false), Order::of(line, true)), (idle, asked), "{line:?}");
        }
    }
}
