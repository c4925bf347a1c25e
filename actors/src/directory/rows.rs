//! Owns how a branch is shown to an operator. Pure. Tested end to end through `actor.list`.

use std::time::Duration;

use gent_protocol::{ActorRow, ActorState, LaneDepth, Millis};

use super::{Entry, Slot};
use crate::branch::BranchKey;

/// The row of a branch; none for one that is merely remembered for its deaths.
pub(super) fn row(key: &BranchKey, entry: &Entry, now: Duration) -> Option<ActorRow> {
    let since =
        |then: Duration| Millis(i64::try_from(now.saturating_sub(then).as_millis()).unwrap_or(i64::MAX));
    let base = ActorRow {
        workspace_id: key.workspace.clone(),
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        state: ActorState::Faulted,
        since_ms: Millis(0),
        generation: 0,
        epoch: 0,
        holds: Vec::new(),
        lanes: LaneDepth::default(),
        restarts: entry.restarts,
        attempts: None,
        waiting_for: None,
        last_error: entry.last_error.clone(),
    };
    match &entry.slot {
        Slot::Live(handle) => {
            let status = handle.status();
            Some(ActorRow {
                state: status.state,
                since_ms: since(status.since),
                generation: handle.generation,
                epoch: status.epoch,
                holds: status.holds(),
                lanes: handle.lanes(),
                attempts: status.attempts,
                waiting_for: status.waiting_for.clone(),
                last_error: status.last_error.or(base.last_error.clone()),
                ..base
            })
        }
        Slot::Gone => None,
        Slot::Closing { handle, .. } if !handle.is_connected() => None,
        Slot::Closing { handle, .. } => {
            Some(ActorRow { state: ActorState::Retiring, generation: handle.generation, ..base })
        }
        Slot::Faulted { reason, since: then, .. } => {
            Some(ActorRow { since_ms: since(*then), last_error: Some(reason.clone()), ..base })
        }
    }
}
