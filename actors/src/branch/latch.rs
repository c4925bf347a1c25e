//! Owns the stop of one turn: a latch that names the turn it belongs to, so that a late stop cannot hit the next.
//! Never records anything: the actor stores the receipt. Tested below.

use std::sync::{Arc, Mutex, PoisonError};

use gent_protocol::MessageId;
use tokio_util::sync::CancellationToken;

/// The latch of the branch's running turn, if one runs. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LatchSlot(Arc<Mutex<Option<(MessageId, CancellationToken)>>>);

impl LatchSlot {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<(MessageId, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Installs a fresh latch for a turn.
    pub(crate) fn install(&self, turn: &MessageId) -> CancellationToken {
        let latch = CancellationToken::new();
        *self.slot() = Some((turn.clone(), latch.clone()));
        latch
    }

    /// The latch of a turn; one that nothing reaches when another turn has the slot.
    pub(crate) fn current(&self, turn: &MessageId) -> CancellationToken {
        match &*self.slot() {
            Some((running, latch)) if running == turn => latch.clone(),
            Some(_) | None => CancellationToken::new(),
        }
    }

    /// Removes the latch: what comes later reaches no turn.
    pub(crate) fn clear(&self) {
        *self.slot() = None;
    }

    /// Stops the running turn, if it is this one (any, when none is named). True when it was running unstopped.
    pub(crate) fn stop(&self, turn: Option<&MessageId>) -> bool {
        match &*self.slot() {
            Some((running, latch)) if turn.is_none_or(|turn| turn == running) => {
                let was_stopped = latch.is_cancelled();
                latch.cancel();
                !was_stopped
            }
            Some(_) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_reaches_the_turn_it_names_and_no_other_d22() {
        let slot = LatchSlot::default();
        let (one, two) = (MessageId::parse("1").unwrap(), MessageId::parse("2").unwrap());
        assert!(!slot.stop(None), "nothing runs");
        let latch = slot.install(&one);
        assert!(!slot.stop(Some(&two)));
        assert!(!latch.is_cancelled());
        assert!(slot.stop(Some(&one)));
        assert!(latch.is_cancelled());
        assert!(!slot.stop(None), "it is stopped already");
        slot.install(&two);
        slot.clear();
        assert!(!slot.stop(None));
    }
}
