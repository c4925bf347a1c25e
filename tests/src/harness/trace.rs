//! Owns the short notation of events in which tests say what they expect.
//!
//! `u` is a turn's opening message, `aN` and `tN` the assistant and tool message of step N, other messages of the turn
//! are `u:continuation:1`, `u:final-step`. `MR(x)` message received, `MCP` window final, `SSn`/`SEn(outcome)` stream
//! started and ended, `SC*` text, `TS/TOK/TF(id)` tool call started, succeeded, failed, `RETRY(1/3)`, `ERR`,
//! `TC(…)` turn completed with what is true of `interrupted`, `streamFailed`, `unanswered`. A failed result shows its
//! reason: `MR(t1:c1=Interrupted)`. Notices are left out. Text is perishable: `SC*` stands for none, one or more.
//! `{A B}` in an expectation is A and B in either order.

use anyhow::{Result, bail};
use gent_protocol::{AgentEvent, EventEnvelope, Message, MessageId, Part};
use serde_json::Value;

/// One turn as a client saw it: from its opening message to its end.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Its opening message.
    pub message: MessageId,
    /// Its events.
    pub events: Vec<EventEnvelope>,
}

impl Turn {
    /// Cuts a turn out of what was seen.
    pub fn cut(message: &MessageId, events: &[EventEnvelope]) -> Self {
        let is_opening = |event: &AgentEvent| matches!(event, AgentEvent::MessageReceived { message: m } if m.id == *message);
        let is_end = |event: &AgentEvent| matches!(event, AgentEvent::TurnCompleted { message_id, .. } if message_id == message);
        let from = events.iter().position(|envelope| is_opening(&envelope.event)).unwrap_or(0);
        let to =
            events.iter().rposition(|envelope| is_end(&envelope.event)).map_or(events.len(), |end| end + 1);
        let events = events.get(from..to).unwrap_or_default().to_vec();
        Self { message: message.clone(), events }
    }

    /// The events in the short notation.
    pub fn trace(&self) -> String {
        trace(&self.events, Some(&self.message))
    }

    /// Fails unless the events are `expected`.
    pub fn expect(&self, expected: &str) -> Result<()> {
        let actual = self.trace();
        if fits(&actual, expected) {
            return Ok(());
        }
        bail!("expected: {expected}\n  actual: {actual}")
    }

    /// Fails unless the last events are `expected`, which holds no group.
    pub fn expect_end(&self, expected: &str) -> Result<()> {
        let without_text = |text: &str| {
            text.split_whitespace().filter(|token| *token != "SC*").collect::<Vec<_>>().join(" ")
        };
        let actual = self.trace();
        if without_text(&actual).ends_with(&without_text(expected)) {
            return Ok(());
        }
        bail!("expected at the end: {expected}\n  actual: {actual}")
    }

    /// The text of the last assistant message that has one.
    pub fn answer(&self) -> String {
        let texts = self.messages().filter(|m| m.role == gent_protocol::Role::Assistant).map(Message::text);
        texts.filter(|text| !text.is_empty()).last().unwrap_or_default()
    }

    /// The messages of the turn.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.events.iter().filter_map(|envelope| match &envelope.event {
            AgentEvent::MessageReceived { message } => Some(message),
            _ => None,
        })
    }

    /// The errors that were shown, notices left out.
    pub fn errors(&self) -> Vec<String> {
        let shown = self.events.iter().filter_map(|envelope| match &envelope.event {
            AgentEvent::ErrorOccurred { error, notice: false, .. } => Some(error.clone()),
            _ => None,
        });
        shown.collect()
    }

    /// The receipt.
    pub fn receipt(&self) -> Option<&AgentEvent> {
        self.events
            .iter()
            .map(|envelope| &envelope.event)
            .find(|e| matches!(e, AgentEvent::TurnCompleted { .. }))
    }
}

pub(crate) fn trace(events: &[EventEnvelope], turn: Option<&MessageId>) -> String {
    let mut tokens: Vec<String> = Vec::new();
    for envelope in events {
        let Some(token) = token(&envelope.event, turn) else { continue };
        let is_repeated_text = token == "SC*" && tokens.last().is_some_and(|last| last == "SC*");
        if !is_repeated_text {
            tokens.push(token);
        }
    }
    tokens.join(" ")
}

fn token(event: &AgentEvent, turn: Option<&MessageId>) -> Option<String> {
    Some(match event {
        AgentEvent::MessageReceived { message } => format!("MR({})", message_token(message, turn)),
        AgentEvent::ModelContextProjected { .. } => "MCP".into(),
        AgentEvent::StreamStarted { step, .. } => format!("SS{step}"),
        AgentEvent::StreamChunk { .. } => "SC*".into(),
        AgentEvent::ProviderRetrying { attempt, max_attempts, .. } => {
            format!("RETRY({attempt}/{max_attempts})")
        }
        AgentEvent::StreamEnded { step, outcome, .. } => format!("SE{step}({outcome:?})"),
        AgentEvent::ToolCallStarted { tool_call_id, .. } => format!("TS({tool_call_id})"),
        AgentEvent::ToolCallSucceeded { tool_call_id, .. } => format!("TOK({tool_call_id})"),
        AgentEvent::ToolCallFailed { tool_call_id, .. } => format!("TF({tool_call_id})"),
        AgentEvent::ErrorOccurred { notice: true, .. } | AgentEvent::StreamSynchronized { .. } => {
            return None;
        }
        AgentEvent::ErrorOccurred { .. } => "ERR".into(),
        AgentEvent::TurnCompleted { interrupted, stream_failed, unanswered, .. } => {
            let facts =
                [(interrupted, "interrupted"), (stream_failed, "streamFailed"), (unanswered, "unanswered")];
            let facts: Vec<&str> = facts.iter().filter(|(is, _)| **is).map(|(_, name)| *name).collect();
            if facts.is_empty() { "TC".into() } else { format!("TC({})", facts.join(",")) }
        }
        other => other.tag().into(),
    })
}

fn message_token(message: &Message, turn: Option<&MessageId>) -> String {
    let Some(turn) = turn else { return message.id.to_string() };
    let name = match message.id.as_str().strip_prefix(turn.as_str()) {
        Some("") => "u".to_owned(),
        Some(rest) => match rest.split(':').collect::<Vec<_>>().as_slice() {
            ["", "assistant", step] => format!("a{step}"),
            ["", "tool-result", step] => format!("t{step}"),
            _ => format!("u{rest}"),
        },
        None => message.id.as_str().split(':').next().unwrap_or_default().to_owned(),
    };
    let failed = message.parts.iter().filter_map(|part| match part {
        Part::ToolResult(outcome) if outcome.is_failure => {
            let reason = outcome.result.get("reason").and_then(Value::as_str).unwrap_or("error");
            Some(format!(":{}={reason}", outcome.id))
        }
        _ => None,
    });
    name + &failed.collect::<String>()
}

/// Whether `actual` is what `expected` says. Text is optional in both.
fn fits(actual: &str, expected: &str) -> bool {
    let mut actual = actual.split_whitespace().filter(|token| *token != "SC*");
    let spaced = expected.replace('{', " { ").replace('}', " } ");
    let mut expected = spaced.split_whitespace().filter(|token| *token != "SC*");
    while let Some(token) = expected.next() {
        if token != "{" {
            if actual.next() != Some(token) {
                return false;
            }
            continue;
        }
        let mut group: Vec<&str> = expected.by_ref().take_while(|token| *token != "}").collect();
        while !group.is_empty() {
            let Some(place) = actual.next().and_then(|next| group.iter().position(|token| *token == next))
            else {
                return false;
            };
            group.remove(place);
        }
    }
    actual.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn text_is_optional_and_a_group_is_in_either_order() {
        assert!(fits("MR(u) SS1 SC* SE1(Answered)", "MR(u) SS1 SE1(Answered)"));
        assert!(fits("MR(u) SS1", "MR(u) SS1 SC*"));
        assert!(fits("A TOK(c2) TOK(c1) B", "A {TOK(c1) TOK(c2)} B"));
        assert!(!fits("A TOK(c2) B", "A {TOK(c1) TOK(c2)} B"));
        assert!(!fits("A B", "A"));
        assert!(!fits("A", "A B"));
    }
}
