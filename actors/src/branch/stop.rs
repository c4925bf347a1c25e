//! Owns stopping a turn: the stored receipt first, so that a stop survives a restart and reaches a turn that has
//! not started; then the latch. Tested end to end (D7–D9, D12, D14, D22).

use actix::Context;
use gent_protocol::{BranchId, MessageId, Millis, RequestId};
use gent_storage::{StoreError, WriteTxn, operation_get, operation_put, turn_get};
use serde_json::json;

use super::actor::{BranchActor, Origin};
use super::key::BranchKey;
use super::lanes::Reply;
use super::messages::BranchError;
use super::state::{BranchState, Input};

/// The durable operation that stops the turn of a message.
pub(super) const CANCEL_OPERATION: &str = "turn.cancel";
/// The durable operation of one order to stop.
const STEER_OPERATION: &str = "steer.command";

/// The key of a message's stop. It carries the branch: two branches may use one message id.
pub(super) fn cancel_key(branch: &BranchId, message: &MessageId) -> String {
    format!("{branch}:{message}")
}

impl BranchActor {
    pub(super) fn cancel(
        &mut self,
        ctx: &mut Context<Self>,
        request: RequestId,
        message: Option<MessageId>,
        reply: Reply,
    ) {
        let reaches = message.clone().or_else(|| self.turn_message().cloned());
        let (key, at) = (self.key.clone(), self.services.env.now());
        self.write(
            ctx,
            "branch.cancel",
            move |txn| record_stop(txn, &key, &request, message.as_ref(), at),
            move |actor, ctx, recorded| {
                let is_first = *recorded.as_ref().unwrap_or(&true);
                if is_first && let Some(turn) = &reaches {
                    // A stop that could not be recorded still stops what runs.
                    actor.stop_now(ctx, turn);
                }
                match recorded {
                    Ok(_) => drop(reply.send(Ok(()))),
                    Err(error) => {
                        drop(reply.send(Err(BranchError::Store(error.clone()))));
                        actor.failed(ctx, &error);
                    }
                }
            },
        );
    }

    /// Stops a turn that runs, or starts one that waits aside so that it ends as stopped.
    fn stop_now(&mut self, ctx: &mut Context<Self>, turn: &MessageId) {
        self.shared.latch.stop(Some(turn));
        if self.state == BranchState::Idle
            && let Some(row) = self.aside.take_if(|row| row.message_id == *turn)
        {
            let run = self.start(row, Origin::Row, true);
            self.advance(ctx, Input::Took { run });
        }
    }

    /// A credential was offered: the turn that waits for one tries again.
    pub(super) fn try_again(&mut self, ctx: &mut Context<Self>) {
        if self.state == BranchState::Idle
            && !self.services.drain.is_cancelled()
            && let Some(row) = self.aside.take()
        {
            let run = self.start(row, Origin::Row, false);
            self.advance(ctx, Input::Took { run });
        }
    }
}

/// Records an order to stop and the stop of the message it names, each once. False: the order is a repeat.
pub(crate) fn record_stop(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    request: &RequestId,
    message: Option<&MessageId>,
    at: Millis,
) -> Result<bool, StoreError> {
    let order = format!("{}:{request}", key.branch);
    let is_first = record(txn, key, STEER_OPERATION, &order, at)?;
    if is_first {
        // Without a name it is the turn that is there now, also after a restart.
        let current = turn_get(txn, &key.branch)?.map(|row| row.message_id);
        if let Some(message) = message.or(current.as_ref()) {
            record(txn, key, CANCEL_OPERATION, &cancel_key(&key.branch, message), at)?;
        }
    }
    Ok(is_first)
}

fn record(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    operation: &str,
    request: &str,
    at: Millis,
) -> Result<bool, StoreError> {
    if operation_get(txn, &key.workspace, operation, request)?.is_some() {
        return Ok(false);
    }
    operation_put(txn, &key.workspace, operation, request, &json!({}), &key.session, &key.branch, at)?;
    Ok(true)
}
