//! Owns what runs met, by kind: checks that held because nothing happened prove nothing.

use std::collections::BTreeMap;

use gent_protocol::{AgentEvent, Part};

use crate::calls::{Call, Outcome, What};
use crate::world::Rows;

/// What must have happened somewhere in all runs together.
const ALL: [&str; 15] = [
    "faults",
    "kills",
    "turns that ended well",
    "turns that failed",
    "turns that were stopped",
    "steers that joined",
    "steers that opened a turn",
    "calls that succeeded",
    "calls that were interrupted",
    "questions answered",
    "questions dismissed",
    "answers to a question with another answer",
    "messages taken back",
    "calls of clients that were refused",
    "calls of clients that nobody knows the outcome of",
];

/// How often what was met.
#[derive(Debug, Default)]
pub(crate) struct Met(BTreeMap<&'static str, usize>);

impl Met {
    pub(crate) fn add(&mut self, what: &'static str, n: usize) {
        assert!(ALL.contains(&what), "{what} is in the list");
        *self.0.entry(what).or_default() += n;
    }

    /// Adds another run.
    pub(crate) fn join(&mut self, other: Self) {
        for (what, n) in other.0 {
            self.add(what, n);
        }
    }

    /// What never happened.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        ALL.into_iter().filter(|what| self.0.get(what).is_none_or(|n| *n == 0)).collect()
    }

    pub(crate) fn outcome(&mut self, call: &Call) {
        match (&call.what, call.outcome()) {
            (_, Some(Outcome::Unknown(_))) => {
                self.add("calls of clients that nobody knows the outcome of", 1)
            }
            (_, Some(Outcome::Refused(_))) => self.add("calls of clients that were refused", 1),
            (What::Answer { .. }, Some(Outcome::Conflict)) => {
                self.add("answers to a question with another answer", 1);
            }
            (_, Some(Outcome::Drained(taken))) => self.add("messages taken back", taken.len()),
            _ => {}
        }
    }

    pub(crate) fn count(&mut self, rows: &Rows) {
        for stored in &rows.messages {
            let message = &stored.message;
            let is_steer = message.id.as_str().ends_with(":interjection");
            let has_joined = message.metadata.as_ref().is_some_and(|said| said.joined_turn);
            self.add("steers that joined", usize::from(is_steer && has_joined));
            self.add("steers that opened a turn", usize::from(is_steer && !has_joined));
            for part in &message.parts {
                if let Part::ToolResult(outcome) = part {
                    let is_cut = outcome.result.to_string().contains("Interrupted");
                    self.add("calls that were interrupted", usize::from(outcome.is_failure && is_cut));
                    self.add("calls that succeeded", usize::from(!outcome.is_failure));
                }
            }
        }
        for envelope in rows.events() {
            match &envelope.event {
                AgentEvent::TurnCompleted { interrupted: true, .. } => self.add("turns that were stopped", 1),
                AgentEvent::TurnCompleted { stream_failed: true, .. } => self.add("turns that failed", 1),
                AgentEvent::TurnCompleted { unanswered: true, .. } => {}
                AgentEvent::TurnCompleted { .. } => self.add("turns that ended well", 1),
                AgentEvent::InteractionResolved { dismissed: true, .. } => self.add("questions dismissed", 1),
                AgentEvent::InteractionResolved { .. } => self.add("questions answered", 1),
                _ => {}
            }
        }
    }
}
