//! Owns what is said to a running turn: it waits in the queue until the turn's next step boundary, where the turn
//! takes it, or opens a turn of its own. One write decides; nothing is said twice, nothing is lost.
//! Tested in `actors/tests/it/` (D1–D6, D21, A12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::Context;
use gent_protocol::{Message, MessageMetadata, Millis};
use gent_storage::{
    QueueItem, QueueKind, StoreError, WriteTxn, message_get, message_insert, queue_append, queue_items,
    queue_remove, turn_get,
};

use super::actor::BranchActor;
use super::key::BranchKey;
use super::lanes::Reply;
use super::messages::{BranchError, Interjection};
use super::state::BranchState;
use super::stop::{has_cancel, record_order};
use crate::limits::STEERS;

/// Up while the queue may hold steers for the running turn, so that a step boundary without any costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct SteerFlag(Arc<AtomicBool>);

impl SteerFlag {
    pub(crate) fn set(&self, is_up: bool) {
        self.0.store(is_up, Ordering::Release);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What became of an interjection.
pub(crate) enum Interjected {
    /// It is a repeat, is stored already, or was stopped before it came.
    Dropped,
    /// It waits.
    Waits,
    /// As many wait as may.
    Full,
}

impl BranchActor {
    pub(super) fn interject(&mut self, ctx: &mut Context<Self>, interjection: Interjection, reply: Reply) {
        let (key, at) = (self.key.clone(), self.services.env.now());
        let wakes = interjection.wake && self.state == BranchState::Idle && self.aside.is_none();
        self.write(
            ctx,
            "branch.steer",
            move |txn| interject(txn, &key, &interjection, at),
            move |actor, ctx, interjected| match interjected {
                Ok(Interjected::Waits) => {
                    actor.shared.steers.set(true);
                    drop(reply.send(Ok(())));
                    if wakes {
                        actor.take_next(ctx);
                    }
                }
                Ok(Interjected::Dropped) => drop(reply.send(Ok(()))),
                Ok(Interjected::Full) => drop(reply.send(Err(BranchError::SteersFull { max: STEERS }))),
                Err(error) => {
                    drop(reply.send(Err(BranchError::Store(error.clone()))));
                    actor.failed(ctx, &error);
                }
            },
        );
    }
}

/// Decides what becomes of an interjection and stores it.
pub(crate) fn interject(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    interjection: &Interjection,
    at: Millis,
) -> Result<Interjected, StoreError> {
    let message = &interjection.message;
    let waiting = queue_items(txn, &key.branch)?;
    let is_known = waiting.iter().any(|item| item.message.id == message.id)
        || message_get(txn, &key.branch, &message.id)?.is_some()
        || has_cancel(txn, key, &message.id)?;
    if !is_known && waiting.iter().filter(|item| item.kind == QueueKind::Steering).count() >= STEERS {
        return Ok(Interjected::Full);
    }
    if !record_order(txn, key, &interjection.request, at)? || is_known {
        return Ok(Interjected::Dropped);
    }
    let item = QueueItem {
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        message: message.clone(),
        kind: QueueKind::Steering,
        wake: interjection.wake,
        approval: None,
        sender: interjection.sender.clone(),
        queued_at: at,
    };
    queue_append(txn, &item)?;
    Ok(Interjected::Waits)
}

/// Moves the waiting steers into the transcript of the turn that runs. None once the turn is stopped: then they stay.
pub(crate) fn join_steers(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    at: Millis,
) -> Result<Vec<Message>, StoreError> {
    let mut joined = Vec::new();
    let Some(turn) = turn_get(txn, &key.branch)? else { return Ok(joined) };
    if has_cancel(txn, key, &turn.message_id)? {
        return Ok(joined);
    }
    for item in queue_items(txn, &key.branch)? {
        if item.kind != QueueKind::Steering {
            continue;
        }
        queue_remove(txn, &key.branch, &item.message.id)?;
        let mut message = Message { created_at: at, ..item.message };
        message.metadata.get_or_insert_with(MessageMetadata::default).joined_turn = true;
        if !message_insert(txn, &message)?.existed {
            joined.push(message);
        }
    }
    Ok(joined)
}
