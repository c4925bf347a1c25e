//! Owns the marker scenarios: a marker in the last user message that carries one says what the model does, so that
//! any client can be measured against the same behaviour without a script.
//!
//! `TEXT:N`: N text deltas of four characters. `TOOLS:K`: K rounds of one tool call each, then eight deltas. Options
//! in the same message: `FILE:/path/f%.txt` (`%` is the round, from 1), `CMD:sleep_5` (`_` is a space), `ID:x` (kept
//! in the log), `DELAYUS:n` or `DELAY:ms` before each delta, `HOLD:gate` (the text is held at that gate after its first
//! delta). The round is counted from the tool results that follow
//! the message, so a restarted client is followed correctly.

use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, Api, Piece};
use super::log::Body;

/// What a marker asks for, at one round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scenario {
    pub(crate) id: String,
    pub(crate) round: usize,
    kind: Kind,
    delay: Option<Duration>,
    hold: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text { deltas: usize },
    Call { name: String, input: Value },
}

fn option<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.rsplit_once(key)?;
    rest.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '`')).next()
}

fn number(text: &str, key: &str) -> Option<u64> {
    let digits: String = option(text, key)?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

impl Scenario {
    /// The scenario of a request, or none when no user message carries a marker.
    pub(crate) fn of(api: Api, body: &Body) -> Option<Self> {
        let (marker, results) =
            body.last_user_with(api, |text| text.contains("TEXT:") || text.contains("TOOLS:"))?;
        let delay = number(&marker, "DELAYUS:")
            .map(Duration::from_micros)
            .or_else(|| number(&marker, "DELAY:").map(Duration::from_millis));
        let rounds = number(&marker, "TOOLS:");
        let round = results + 1;
        let kind = match rounds {
            Some(rounds) if (results as u64) < rounds => Self::call(api, body, &marker, round)?,
            Some(_) => Kind::Text { deltas: 8 },
            None => Kind::Text { deltas: usize::try_from(number(&marker, "TEXT:")?).ok()? },
        };
        let id = option(&marker, "ID:").unwrap_or_default().to_owned();
        let hold = option(&marker, "HOLD:").map(str::to_owned);
        Some(Self { id, round, kind, delay, hold })
    }

    fn call(api: Api, body: &Body, marker: &str, round: usize) -> Option<Kind> {
        let command = option(marker, "CMD:").map(|command| command.replace('_', " "));
        let (words, key): (&[&str], &str) = match command {
            Some(_) => (&["bash", "shell", "exec"], "command"),
            None => (&["read", "view"], "path"),
        };
        let name = words
            .iter()
            .find_map(|word| body.tool_names(api).into_iter().find(|name| name.contains(word)))?;
        let file = option(marker, "FILE:").unwrap_or("README.md").replace('%', &round.to_string());
        let mut input = serde_json::Map::new();
        input.insert(key.to_owned(), json!(command.unwrap_or(file).replace('%', &round.to_string())));
        Some(Kind::Call { name, input: Value::Object(input) })
    }

    pub(crate) fn answer(&self) -> Answer {
        let mut pieces = match &self.kind {
            Kind::Text { deltas } => vec![Piece::Text("tick".into()); *deltas],
            Kind::Call { name, input } => {
                let id = Some(format!("call_{}_{}", self.id, self.round));
                vec![Piece::Call { id, name: name.clone(), input: input.clone() }]
            }
        };
        if let (Kind::Text { .. }, Some(gate)) = (&self.kind, &self.hold) {
            pieces.insert(1.min(pieces.len()), Piece::Gate(gate.clone()));
        }
        Answer { pieces, delay: self.delay, ..Answer::default() }
    }
}
