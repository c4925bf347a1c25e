//! Owns what is done for a branch that was given up, from its rows and without an activation: a stop closes its turn,
//! a message waits in its queue. Each takes an epoch of its own, so that nothing that may still live writes beside it.
//! Tested in `actors/tests/it/given_up.rs`.

use gent_protocol::{Approval, Message, MessageId, RequestId};
use gent_storage::{branch_take, turn_get};

use super::Engine;
use crate::branch::{BranchKey, Receipt, admit_behind, has_cancel, record_stop, store_receipt};
use crate::error::EngineError;

impl Engine {
    /// Records a stop and closes the turn it reaches as interrupted. Nothing is run for it.
    pub(super) async fn stop_given_up(
        &self,
        key: &BranchKey,
        request: RequestId,
        message: Option<MessageId>,
    ) -> Result<(), EngineError> {
        let (node, key, at) = (self.services().node_start.clone(), key.clone(), self.services().env.now());
        let write = self.store().write("branch.cancel", move |txn| {
            branch_take(txn, &key.session, &key.branch, &node)?;
            record_stop(txn, &key, &request, message.as_ref(), at)?;
            let Some(row) = turn_get(txn, &key.branch)? else { return Ok(()) };
            if has_cancel(txn, &key.workspace, &key, &row.message_id)? {
                store_receipt(txn, &key, &Receipt::of_stopped(row, at), at)?;
            }
            Ok(())
        });
        Ok(write.await?)
    }

    /// Stores a message behind what waits: it runs when the branch lives again.
    pub(super) async fn queue_given_up(
        &self,
        key: &BranchKey,
        message: Message,
        approval: Option<Approval>,
    ) -> Result<(), EngineError> {
        let (node, key) = (self.services().node_start.clone(), key.clone());
        let write = self.store().write("branch.admit", move |txn| {
            branch_take(txn, &key.session, &key.branch, &node)?;
            Ok(admit_behind(txn, &key, &message, approval)?.err())
        });
        match write.await? {
            None => Ok(()),
            Some(refusal) => Err(self.refused(refusal)),
        }
    }
}
