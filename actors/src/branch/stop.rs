//! Owns stopping a turn: the stored receipt first, so that a stop survives a restart and reaches a turn that has
//! not started; then the latch. The answer is decided by the rows: true once for each message a stop reached.
//! Tested in `actors/tests/it/` and end to end (D7–D24).

use actix::Context;
use gent_protocol::{BranchId, MessageId, Millis, RequestId};
use gent_storage::{
    QueueKind, QueueSender, Reader, StoreError, StoredOperation, WriteTxn, operation_get, operation_put,
    queue_items, queue_remove, turn_get,
};
use serde_json::{Value, json};

use super::actor::{BranchActor, Origin};
use super::key::BranchKey;
use super::lanes::Reply;
use super::messages::{BranchError, StopOrder};
use super::state::{BranchState, Input};

/// The durable operation that stops the turn of a message.
pub(super) const CANCEL_OPERATION: &str = "turn.cancel";
/// The durable operation of one order to stop, or to say something.
const STEER_OPERATION: &str = "steer.command";

/// The key of a message's stop. It carries the branch: two branches may use one message id.
pub(super) fn cancel_key(branch: &BranchId, message: &MessageId) -> String {
    format!("{branch}:{message}")
}

/// What an order to stop came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// The order is not a repeat.
    pub(crate) is_first: bool,
    /// It reached a message that no stop had reached.
    pub(crate) reached: bool,
}

impl BranchActor {
    pub(super) fn stop_turn(&mut self, ctx: &mut Context<Self>, order: StopOrder, reply: Reply<bool>) {
        let reaches = order.message.clone().or_else(|| self.turn_message().cloned());
        let (key, at) = (self.key.clone(), self.services.env.now());
        self.write(
            ctx,
            "branch.cancel",
            move |txn| record_stop(txn, &key, &order, at),
            move |actor, ctx, recorded| {
                let is_first = recorded.as_ref().is_ok_and(|stopped| stopped.is_first) || recorded.is_err();
                if is_first && let Some(turn) = &reaches {
                    // A stop that could not be recorded still stops what runs.
                    actor.stop_now(ctx, turn);
                }
                match recorded {
                    Ok(stopped) => drop(reply.send(Ok(stopped.reached))),
                    Err(error) => {
                        drop(reply.send(Err(BranchError::Store(error.clone()))));
                        actor.failed(ctx, &error);
                    }
                }
            },
        );
    }

    /// Stops a turn that runs, or starts one that waits so that it ends as stopped.
    fn stop_now(&mut self, ctx: &mut Context<Self>, turn: &MessageId) {
        self.shared.latch.stop(Some(turn));
        let is_it = |row: &mut gent_storage::TurnRow| row.message_id == *turn;
        if self.state == BranchState::Idle
            && let Some(row) = self.aside.take_if(is_it)
        {
            let run = self.start(row, Origin::Row, true, true);
            self.advance(ctx, Input::Took { run });
        } else if self.state == BranchState::Waiting
            && let Some(row) = self.parked.take_if(is_it)
        {
            let run = self.start(row, Origin::Row, true, true);
            self.advance(ctx, Input::Resumed { run });
        }
    }

    /// A credential was offered: the turn that waits for one tries again.
    pub(super) fn try_again(&mut self, ctx: &mut Context<Self>) {
        if self.state == BranchState::Idle
            && !self.services.drain.is_cancelled()
            && let Some(row) = self.aside.take()
        {
            let run = self.start(row, Origin::Row, false, true);
            self.advance(ctx, Input::Took { run });
        }
    }
}

/// Records an order to stop and the stop of the message it names, each once.
pub(crate) fn record_stop(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    order: &StopOrder,
    at: Millis,
) -> Result<Stopped, StoreError> {
    let name = order_key(key, &order.request);
    if let Some(earlier) = operation_get(txn, &key.workspace, STEER_OPERATION, &name)? {
        let reached = earlier.result.get("reached").and_then(Value::as_bool).unwrap_or_default();
        return Ok(Stopped { is_first: false, reached });
    }
    let current = turn_get(txn, &key.branch)?.map(|row| row.message_id);
    // Without a name it is the turn that is there now, also after a restart.
    let reached = match order.message.as_ref().or(current.as_ref()) {
        Some(target) => reach(txn, key, order, target, current.as_ref(), at)?,
        None => false,
    };
    put(txn, key, STEER_OPERATION, &name, &json!({ "reached": reached }), at)?;
    Ok(Stopped { is_first: true, reached })
}

/// Stores the stop of a message and says whether it was the first to reach it.
fn reach(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    order: &StopOrder,
    target: &MessageId,
    current: Option<&MessageId>,
    at: Millis,
) -> Result<bool, StoreError> {
    let stop = cancel_key(&key.branch, target);
    let is_stopped = cancel_of(txn, key, target)?.is_some();
    if !is_stopped {
        put(txn, key, CANCEL_OPERATION, &stop, &json!({ "by": requester(order.requester.as_ref()) }), at)?;
    }
    let waiting = queue_items(txn, &key.branch)?;
    let is_current = current == Some(target);
    if is_current && let Some(requester) = &order.requester {
        // A stop takes what its requester still wanted to say to the turn with it.
        for item in &waiting {
            if item.kind == QueueKind::Steering && item.sender.as_ref() == Some(requester) {
                queue_remove(txn, &key.branch, &item.message.id)?;
            }
        }
    }
    match waiting.iter().find(|item| item.message.id == *target) {
        // A steer that waits is taken back; a message that waits for its turn stays, and ends when its turn comes.
        Some(item) if item.kind == QueueKind::Steering => {
            queue_remove(txn, &key.branch, target)?;
            Ok(!is_stopped)
        }
        Some(_) => Ok(!is_stopped),
        None => Ok(is_current && !is_stopped),
    }
}

fn requester(of: Option<&QueueSender>) -> Value {
    match of {
        None => Value::Null,
        Some(sender) => json!({ "sessionId": sender.session_id, "branchId": sender.branch_id }),
    }
}

/// The stop that was recorded for a message, if one was.
fn cancel_of(
    r: &mut impl Reader,
    key: &BranchKey,
    message: &MessageId,
) -> Result<Option<StoredOperation>, StoreError> {
    operation_get(r, &key.workspace, CANCEL_OPERATION, &cancel_key(&key.branch, message))
}

/// A stop was recorded for this message.
pub(crate) fn has_cancel(
    r: &mut impl Reader,
    key: &BranchKey,
    message: &MessageId,
) -> Result<bool, StoreError> {
    Ok(cancel_of(r, key, message)?.is_some())
}

fn order_key(key: &BranchKey, request: &RequestId) -> String {
    format!("{}:{request}", key.branch)
}

/// Records an order that only has to be known again. False: it is a repeat.
pub(super) fn record_order(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    request: &RequestId,
    at: Millis,
) -> Result<bool, StoreError> {
    let name = order_key(key, request);
    if operation_get(txn, &key.workspace, STEER_OPERATION, &name)?.is_some() {
        return Ok(false);
    }
    put(txn, key, STEER_OPERATION, &name, &json!({}), at)?;
    Ok(true)
}

fn put(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    operation: &str,
    name: &str,
    result: &Value,
    at: Millis,
) -> Result<(), StoreError> {
    operation_put(txn, &key.workspace, operation, name, result, &key.session, &key.branch, at)
}
