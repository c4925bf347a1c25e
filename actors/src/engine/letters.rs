//! Owns the dead letters: orders and reports that found no taker. Counted; the last hundred keep their reason.
//! Tested below.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tracing::warn;

use crate::branch::BranchKey;
use crate::limits::DEAD_LETTERS;

#[derive(Default)]
pub(super) struct DeadLetters(Mutex<Letters>);

#[derive(Default)]
struct Letters {
    count: u64,
    last: VecDeque<(BranchKey, &'static str)>,
}

impl DeadLetters {
    pub(super) fn add(&self, key: &BranchKey, reason: &'static str) {
        warn!(branch = %key, reason, "branch.dead_letter");
        let mut letters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        letters.count += 1;
        letters.last.push_back((key.clone(), reason));
        if letters.last.len() > DEAD_LETTERS {
            letters.last.pop_front();
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }
}

#[cfg(test)]
mod tests {
    use gent_protocol::{BranchId, SessionId, WorkspaceId};

    use super::*;

    #[test]
    fn letters_are_counted_and_the_oldest_reason_is_forgotten() {
        let key = BranchKey {
            workspace: WorkspaceId::parse("0".repeat(64)).unwrap(),
            session: SessionId::parse("s").unwrap(),
            branch: BranchId::parse("b").unwrap(),
        };
        let letters = DeadLetters::default();
        for _ in 0..150 {
            letters.add(&key, "full");
        }
        assert_eq!(letters.count(), 150);
        assert_eq!(letters.0.lock().unwrap().last.len(), DEAD_LETTERS);
    }
}
