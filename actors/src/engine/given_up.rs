//! Owns what is done for a branch that was given up, from its rows and without an activation: a stop closes its turn,
//! a message waits in its queue. Each takes an epoch of its own, so that nothing that may still live writes beside it.
//! Tested in `actors/tests/it/given_up.rs`.

use gent_storage::{branch_take, turn_get};

use super::Engine;
use crate::branch::{
    BranchKey, Receipt, StopOrder, Submission, admit_behind, has_cancel, record_stop, store_receipt,
};
use crate::error::EngineError;

impl Engine {
    /// Records a stop and closes the turn it reaches as interrupted. Nothing is run for it.
    pub(super) async fn stop_given_up(&self, key: &BranchKey, order: StopOrder) -> Result<bool, EngineError> {
        let (node, key, at) = (self.services().node_start.clone(), key.clone(), self.services().env.now());
        let write = self.store().write("branch.cancel", move |txn| {
            branch_take(txn, &key.session, &key.branch, &node)?;
            let stopped = record_stop(txn, &key, &order, at)?;
            if let Some(row) = turn_get(txn, &key.branch)?
                && has_cancel(txn, &key, &row.message_id)?
            {
                store_receipt(txn, &key, &Receipt::of_stopped(row, at), at)?;
            }
            Ok(stopped.reached)
        });
        Ok(write.await?)
    }

    /// Stores a message behind what waits: it runs when the branch lives again.
    pub(super) async fn queue_given_up(
        &self,
        key: &BranchKey,
        submission: Submission,
    ) -> Result<(), EngineError> {
        let (node, of) = (self.services().node_start.clone(), key.clone());
        let write = self.store().write("branch.admit", move |txn| {
            branch_take(txn, &of.session, &of.branch, &node)?;
            Ok(admit_behind(txn, &of, &submission)?.err())
        });
        match write.await? {
            None => Ok(()),
            Some(refusal) => Err(self.refused(key, refusal)),
        }
    }
}
