//! Owns what is done for a branch that was given up, from its rows and without an activation: a stop closes its turn,
//! a message, a steer and an answer are stored, and the queue can be taken back. Each takes an epoch of its own, so that nothing that may still live writes beside it.
//! Tested in `actors/tests/it/given_up.rs`.

use gent_protocol::{InteractionRequestId, QuestionDecision, QueueSnapshot, RequestId};
use gent_storage::{Answered, branch_take, turn_get};

use super::Engine;
use crate::branch::{
    BranchError, BranchKey, Interjected, Interjection, Receipt, StopOrder, Submission, admit_behind,
    has_cancel, interject, record_stop, store_answer, store_receipt, take_all,
};
use crate::error::EngineError;
use crate::limits::STEERS;

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

    /// Stores something that is said: it opens a turn, or joins the one there is, when the branch lives again.
    pub(super) async fn steer_given_up(
        &self,
        key: &BranchKey,
        interjection: Interjection,
    ) -> Result<(), EngineError> {
        let (node, of, at) = (self.services().node_start.clone(), key.clone(), self.services().env.now());
        let write = self.store().write("branch.steer", move |txn| {
            branch_take(txn, &of.session, &of.branch, &node)?;
            interject(txn, &of, &interjection, at)
        });
        match write.await? {
            Interjected::Waits | Interjected::Dropped => Ok(()),
            Interjected::Full => Err(self.refused(key, BranchError::SteersFull { max: STEERS })),
        }
    }

    /// Stores an answer: its turn goes on with it when the branch lives again.
    pub(super) async fn answer_given_up(
        &self,
        key: &BranchKey,
        question: InteractionRequestId,
        decision: QuestionDecision,
    ) -> Result<(), EngineError> {
        let (node, of, at) = (self.services().node_start.clone(), key.clone(), self.services().env.now());
        let asked = question.clone();
        let write = self.store().write("branch.answer", move |txn| {
            branch_take(txn, &of.session, &of.branch, &node)?;
            store_answer(txn, &of.branch, &asked, &decision, at)
        });
        match write.await? {
            Answered::First { .. } | Answered::Same { .. } => Ok(()),
            Answered::Different => Err(self.refused(key, BranchError::OtherAnswer { question })),
            Answered::Unknown { shown } => Err(self.refused(key, BranchError::NotAsked { question, shown })),
        }
    }

    /// Takes everything that waits.
    pub(super) async fn drain_given_up(
        &self,
        key: &BranchKey,
        request: RequestId,
    ) -> Result<QueueSnapshot, EngineError> {
        let (node, of, at) = (self.services().node_start.clone(), key.clone(), self.services().env.now());
        let write = self.store().write("branch.drain", move |txn| {
            branch_take(txn, &of.session, &of.branch, &node)?;
            take_all(txn, &of, &request, at)
        });
        Ok(write.await?.0)
    }
}
