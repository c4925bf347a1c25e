//! Owns taking back what waits: one follow-up, or everything. What has been taken to run is not touched.
//! Tested in `actors/tests/it/` (A11, C9, C10).

use actix::Context;
use gent_protocol::{MessageId, Millis, QueueEntry, QueueSnapshot, RequestId};
use gent_storage::{
    QueueItem, QueueKind, StoreError, WriteTxn, operation_get, operation_put, queue_clear, queue_items,
    queue_remove,
};

use super::actor::BranchActor;
use super::key::BranchKey;
use super::lanes::Reply;
use super::messages::BranchError;

/// The durable operation of taking everything.
const DRAIN_OPERATION: &str = "queue.drain";

/// What a caller is told that waits for the turn of a message that was taken back.
const TAKEN_BACK: &str = "the message was taken out of the queue before it could run";

impl BranchActor {
    /// Takes one follow-up back.
    pub(super) fn dequeue(&mut self, ctx: &mut Context<Self>, message: MessageId, reply: Reply<bool>) {
        let (branch, of) = (self.key.branch.clone(), message.clone());
        self.write(
            ctx,
            "branch.dequeue",
            move |txn| {
                let is_waiting = queue_items(txn, &branch)?
                    .iter()
                    .any(|item| item.kind == QueueKind::FollowUp && item.message.id == of);
                if is_waiting { queue_remove(txn, &branch, &of) } else { Ok(false) }
            },
            move |actor, ctx, taken| {
                if matches!(taken, Ok(true)) {
                    actor.waiters.release(&message, Some(TAKEN_BACK));
                }
                actor.answer_with(ctx, taken, reply);
            },
        );
    }

    /// Takes everything, once for each request.
    pub(super) fn drain_all(
        &mut self,
        ctx: &mut Context<Self>,
        request: RequestId,
        reply: Reply<QueueSnapshot>,
    ) {
        let (key, at) = (self.key.clone(), self.services.env.now());
        self.write(
            ctx,
            "branch.drain",
            move |txn| take_all(txn, &key, &request, at),
            move |actor, ctx, taken| {
                for message in taken.iter().flat_map(|(_, ids)| ids) {
                    actor.waiters.release(message, Some(TAKEN_BACK));
                }
                actor.answer_with(ctx, taken.map(|(shown, _)| shown), reply);
            },
        );
    }

    fn answer_with<T>(&mut self, ctx: &mut Context<Self>, result: Result<T, StoreError>, reply: Reply<T>) {
        match result {
            Ok(value) => drop(reply.send(Ok(value))),
            Err(error) => {
                drop(reply.send(Err(BranchError::Store(error.clone()))));
                self.failed(ctx, &error);
            }
        }
    }
}

/// Takes everything out of the queue, once for each request; with the messages that were taken now.
pub(crate) fn take_all(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    request: &RequestId,
    at: Millis,
) -> Result<(QueueSnapshot, Vec<MessageId>), StoreError> {
    let name = format!("{}:{request}", key.branch);
    if let Some(first) = operation_get(txn, &key.workspace, DRAIN_OPERATION, &name)? {
        return Ok((serde_json::from_value(first.result).unwrap_or_default(), Vec::new()));
    }
    let taken = queue_clear(txn, &key.branch)?;
    let ids: Vec<MessageId> = taken.iter().map(|item| item.message.id.clone()).collect();
    let shown = queue_snapshot(taken);
    let result = serde_json::to_value(&shown).unwrap_or_default();
    let of = (&key.workspace, DRAIN_OPERATION);
    operation_put(txn, of.0, of.1, &name, &result, &key.session, &key.branch, at)?;
    Ok((shown, ids))
}

/// What waits, as a client is shown it: a message without text is left out.
pub(crate) fn queue_snapshot(items: Vec<QueueItem>) -> QueueSnapshot {
    let mut snapshot = QueueSnapshot::default();
    for item in items {
        let (id, content, created_at) = (item.message.id.clone(), item.message.text(), item.queued_at);
        if content.is_empty() {
            continue;
        }
        match item.kind {
            QueueKind::Steering => {
                snapshot.steering.push(QueueEntry::Steering { id, content, created_at });
            }
            QueueKind::FollowUp => {
                snapshot.follow_up.push(QueueEntry::FollowUp { id, content, created_at });
            }
        }
    }
    snapshot
}
