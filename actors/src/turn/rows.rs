//! Owns what a turn keeps in its row beside the columns: its sums and how its last step ended.
//! With it a restart goes on exactly where the last commit stood. Tested below and by every crash test.

use gent_protocol::MessageId;
use gent_storage::TurnRow;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ledger::Ledger;
use super::outcome::Outcome;

/// What a turn has come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    #[serde(default)]
    pub(crate) ledger: Ledger,
    /// How the last committed step ended; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Outcome>,
    /// What was said to it and has joined it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) joined: Vec<MessageId>,
}

impl Progress {
    /// Reads it back. A row that does not say starts with unknown sums: wrong ones would be worse.
    pub(crate) fn of(row: &TurnRow) -> Self {
        match &row.totals {
            Value::Null if row.step == 0 => Self::default(),
            totals => serde_json::from_value(totals.clone()).unwrap_or_else(|_| {
                let mut progress = Self::default();
                progress.ledger.mark_partial();
                progress
            }),
        }
    }

    /// How it stands in the row.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_survives_its_row() {
        let mut progress = Progress { last: Some(Outcome::ToolCalls { cut: false }), ..Progress::default() };
        progress.ledger.add(None, Some(1.5));
        let back: Progress = serde_json::from_value(progress.to_value()).unwrap();
        assert_eq!(back, progress);
    }
}
