//! Owns the script: the answers of a model, one for each request, in the order of the requests.
//! Never answers itself; the server takes the answers out of the book.

use std::collections::VecDeque;

use gent_protocol::Usage;
use serde_json::Value;

use super::answer::{Answer, Ending, Piece, Refusal};
use super::scenario::Scenario;

/// The answers of a model. Methods that name something to say begin a new answer; the others change the last one.
#[derive(Debug, Clone, Default)]
pub struct Script {
    answers: VecDeque<Answer>,
}

impl Script {
    /// No answers: requests are then answered by the marker of their last user message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers with a text.
    pub fn text(self, text: &str) -> Self {
        self.answer(Answer::text(text))
    }

    /// Answers with a call of a tool.
    pub fn tool(self, name: &str, input: Value) -> Self {
        self.tools([(name, input)])
    }

    /// Answers with several calls in one step: their ids are `c1`, `c2` … unless set by [`Script::call`].
    pub fn tools<'a>(self, calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let pieces = calls.into_iter().enumerate().map(|(n, (name, input))| Piece::Call {
            id: Some(format!("c{}", n + 1)),
            name: name.to_owned(),
            input,
        });
        let pieces = pieces.collect();
        self.answer(Answer { pieces, ..Answer::default() })
    }

    /// Answers with nothing at all.
    pub fn empty(self) -> Self {
        self.answer(Answer::default())
    }

    /// Answers with an HTTP error that a provider asks to be tried again after so many seconds.
    pub fn error(self, status: u16, retry_after: Option<u32>) -> Self {
        let wait = retry_after.map(|seconds| ("retry-after".to_owned(), seconds.to_string()));
        let message = format!("the script says {status}");
        self.answer(Answer::refusal(status, &message, wait.into_iter().collect()))
    }

    /// Answers with an HTTP status and this body.
    pub fn status(self, status: u16, body: Value) -> Self {
        self.answer(Answer {
            refusal: Some(Refusal { status, body, headers: Vec::new() }),
            ..Answer::default()
        })
    }

    /// Adds an answer as it is.
    pub fn answer(mut self, answer: Answer) -> Self {
        self.answers.push_back(answer);
        self
    }

    /// The last answer goes on with this text.
    pub fn and_text(self, text: &str) -> Self {
        self.piece(Piece::Text(text.to_owned()))
    }

    /// The last answer thinks aloud before it goes on.
    pub fn and_reasoning(self, text: &str) -> Self {
        self.piece(Piece::Reasoning(text.to_owned()))
    }

    /// The last answer goes on with this call.
    pub fn call(self, id: &str, name: &str, input: Value) -> Self {
        self.piece(Piece::Call { id: Some(id.to_owned()), name: name.to_owned(), input })
    }

    /// The last answer goes on with a call whose input is sent as it stands.
    pub fn raw_call(self, name: &str, input: &str) -> Self {
        self.piece(Piece::RawCall { name: name.to_owned(), input: input.to_owned() })
    }

    /// The last answer is held here until the server's gate of this name is opened.
    pub fn stall(self, gate: &str) -> Self {
        self.piece(Piece::Gate(gate.to_owned()))
    }

    /// The last answer goes on with a provider's error.
    pub fn stream_error(self, message: &str) -> Self {
        self.piece(Piece::StreamError(message.to_owned()))
    }

    /// The connection of the last answer breaks after so many of its pieces.
    pub fn cut_after(self, pieces: usize) -> Self {
        self.change(|answer| answer.ending = Ending::CutAfter(pieces))
    }

    /// The last answer ends at the output cap.
    pub fn length_cut(self) -> Self {
        self.change(|answer| answer.ending = Ending::Length)
    }

    /// The last answer ends with this word.
    pub fn finish(self, word: &str) -> Self {
        self.change(|answer| answer.ending = Ending::Word(word.to_owned()))
    }

    /// The last answer counts so many tokens.
    pub fn usage(self, input_tokens: u64, output_tokens: u64) -> Self {
        let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        self.change(|answer| answer.usage = Some(usage))
    }

    /// The last answer says nothing of tokens.
    pub fn no_usage(self) -> Self {
        self.change(|answer| answer.usage = None)
    }

    fn piece(self, piece: Piece) -> Self {
        self.change(|answer| answer.pieces.push(piece))
    }

    fn change(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        let mut answer = self.answers.pop_back().unwrap_or_default();
        change(&mut answer);
        self.answers.push_back(answer);
        self
    }

    pub(crate) fn take(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
}

/// All scripts of one model: some are for requests whose last user message contains a word.
#[derive(Debug, Default)]
pub(crate) struct Book {
    default: Script,
    by_word: Vec<(String, Script)>,
}

impl Book {
    pub(crate) fn new(default: Script) -> Self {
        Self { default, by_word: Vec::new() }
    }

    pub(crate) fn put(&mut self, word: Option<&str>, script: Script) {
        match word {
            Some(word) => self.by_word.push((word.to_owned(), script)),
            None => self.default.answers.extend(script.answers),
        }
    }

    /// The answer to a request with this last user message; `scenario` is what its marker asks for.
    pub(crate) fn answer(&mut self, last_user: &str, scenario: Option<Scenario>) -> Answer {
        let own = self.by_word.iter_mut().find(|(word, _)| last_user.contains(word.as_str()));
        let scripted = match own {
            Some((_, script)) => script.take(),
            None => None,
        };
        let answer = scripted.or_else(|| if scenario.is_some() { None } else { self.default.take() });
        match (answer, scenario) {
            (Some(answer), _) => answer,
            (None, Some(scenario)) => scenario.answer(),
            (None, None) => Answer::refusal(400, "the script has no answer left", Vec::new()),
        }
    }
}
