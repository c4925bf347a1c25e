//! Owns what one request is answered with, free of any provider's format.
//! Never encodes it: `chat` and `messages` do.

use std::time::Duration;

use gent_protocol::Usage;
use serde_json::Value;

/// A provider format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `POST …/chat/completions`.
    Chat,
    /// `POST …/messages`.
    Messages,
}

/// One piece of an answer, in the order in which it is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// One text delta.
    Text(String),
    /// One delta of thinking.
    Reasoning(String),
    /// A whole call.
    Call {
        /// Its id; made up from its place when absent.
        id: Option<String>,
        /// The tool.
        name: String,
        /// Its input.
        input: Value,
    },
    /// A call whose input is this text, whether or not it is JSON.
    RawCall {
        /// The tool.
        name: String,
        /// Its input as sent.
        input: String,
    },
    /// Nothing more is sent until this gate is opened.
    Gate(String),
    /// A provider's error in the middle of the stream.
    StreamError(String),
}

/// How an answer ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// As the provider ends one: because of the calls, or because it is done.
    Natural,
    /// With this word as its reason.
    Word(String),
    /// At the output cap.
    Length,
    /// The connection breaks after this many pieces.
    CutAfter(usize),
}

/// An HTTP error instead of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// Headers beside the usual ones.
    pub headers: Vec<(String, String)>,
}

/// What one request is answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// An HTTP error instead of a stream.
    pub refusal: Option<Refusal>,
    /// What is streamed.
    pub pieces: Vec<Piece>,
    /// How it ends.
    pub ending: Ending,
    /// What is counted; nothing is said of tokens when absent.
    pub usage: Option<Usage>,
    /// Wait before each piece.
    pub delay: Option<Duration>,
}

impl Default for Answer {
    fn default() -> Self {
        let usage = Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() };
        Self { refusal: None, pieces: Vec::new(), ending: Ending::Natural, usage: Some(usage), delay: None }
    }
}

impl Answer {
    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Text(text.into())], ..Self::default() }
    }

    /// An HTTP error with a body in the form both formats use.
    pub fn refusal(status: u16, message: &str, headers: Vec<(String, String)>) -> Self {
        let body = serde_json::json!({
            "type": "error",
            "error": { "type": "scripted_error", "message": message },
        });
        Self { refusal: Some(Refusal { status, body, headers }), ..Self::default() }
    }

    /// Whether it asks for tools.
    pub fn has_calls(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Call { .. } | Piece::RawCall { .. }))
    }

    /// The pieces that are sent before the connection breaks; all of them when it does not.
    pub fn sent_pieces(&self) -> &[Piece] {
        match self.ending {
            Ending::CutAfter(count) => self.pieces.get(..count).unwrap_or(&self.pieces),
            Ending::Natural | Ending::Word(_) | Ending::Length => &self.pieces,
        }
    }
}
