//! Owns the end of a run: the receipt in one write, exactly one for each turn, and what waits for it.
//! A receipt that cannot be written is tried again until it can. Tested end to end (G1, G3, G4).

use std::time::Duration;

use actix::{AsyncContext, Context};
use gent_protocol::{AgentEvent, Millis, RunId};
use gent_storage::{
    StoreError, TurnRow, TurnState, WriteTxn, deltas_drop_turn, message_settle, turn_delete, turn_put,
};
use tracing::info;

use super::actor::BranchActor;
use super::key::BranchKey;
use super::state::{BranchState, Input};
use crate::turn::{Ending, Ledger, TurnEnd};

/// What waits for a credential.
const WAITS_FOR_CREDENTIAL: &str = "credential";
/// The longest wait before a receipt is tried again.
const RECEIPT_RETRY_MAX: Duration = Duration::from_secs(30);

/// A receipt that is due.
#[derive(Clone)]
struct Receipt {
    run: RunId,
    row: TurnRow,
    ending: Ending,
    error: Option<String>,
    is_phase_failure: bool,
    ledger: Ledger,
    duration: Millis,
}

impl BranchActor {
    pub(super) fn run_ended(&mut self, ctx: &mut Context<Self>, run: RunId, end: TurnEnd) {
        let is_current = matches!(&self.state, BranchState::Running { run: current } if *current == run);
        if !is_current {
            return;
        }
        match end {
            TurnEnd::Abandoned(error) => self.failed(ctx, &error),
            TurnEnd::Drained(row) => self.put_aside(ctx, run, row, None),
            TurnEnd::WaitsForCredential { row, offers } => self.put_aside(ctx, run, row, Some(offers)),
            TurnEnd::Over { ending, error, is_phase_failure, ledger, n_steps } => {
                let Some(turn) = &self.turn else { return };
                let duration = match turn.began {
                    Some(began) => millis(self.services.env.monotonic().saturating_sub(began)),
                    None => Millis((self.services.env.now().0 - turn.row.started_at.0).max(0)),
                };
                let row = turn.row.clone();
                self.advance(ctx, Input::Over { run: run.clone() });
                let row = TurnRow { step: n_steps, ..row };
                let receipt = Receipt { run, row, ending, error, is_phase_failure, ledger, duration };
                self.write_receipt(ctx, receipt, Duration::from_millis(500));
            }
        }
    }

    /// Leaves a turn in its row, to go on later: at the next start or, where it waits for a credential, at the
    /// first offer after the `offers` there had been when it looked.
    fn put_aside(&mut self, ctx: &mut Context<Self>, run: RunId, row: TurnRow, offers: Option<u64>) {
        let is_news = offers.is_some() && row.waiting_for.is_none();
        let waiting_for = offers.map(|_| WAITS_FOR_CREDENTIAL.to_owned());
        // A wait is no progress: what was started over too often stays so.
        let attempts = if offers.is_some() { row.attempts } else { 0 };
        let row = TurnRow { state: TurnState::Drained, attempts, waiting_for, ..row };
        let (stored, at) = (row.clone(), self.services.env.now());
        self.write(
            ctx,
            "branch.putAside",
            move |txn| {
                turn_put(txn, &stored)?;
                if is_news {
                    txn.append(&waits(&stored), at)?;
                }
                Ok(())
            },
            move |actor, ctx, result| {
                // Where it could not be stored the row still says `running`: it goes on all the same.
                actor.turn = None;
                actor.shared.latch.clear();
                actor.aside = Some(row);
                actor.advance(ctx, Input::PutAside { run });
                if let Err(error) = result {
                    actor.failed(ctx, &error);
                }
                if offers.is_some_and(|seen| seen != actor.services.credentials.count()) {
                    actor.try_again(ctx);
                }
            },
        );
    }

    fn write_receipt(&mut self, ctx: &mut Context<Self>, receipt: Receipt, retry: Duration) {
        let (key, at) = (self.key.clone(), self.services.env.now());
        let due = receipt.clone();
        self.write(
            ctx,
            "branch.receipt",
            move |txn| store_receipt(txn, &key, &due, at),
            move |actor, ctx, written| match written {
                Ok(()) => actor.receipt_written(ctx, receipt),
                Err(error) => {
                    let words = error.to_string();
                    actor.waiters.release(&receipt.row.message_id, Some(&words));
                    actor.failed(ctx, &error);
                    // The turn stays open in its rows and is closed as soon as a write succeeds.
                    ctx.run_later(retry, move |actor, ctx| {
                        actor.write_receipt(ctx, receipt, (retry * 2).min(RECEIPT_RETRY_MAX));
                    });
                }
            },
        );
    }

    fn receipt_written(&mut self, ctx: &mut Context<Self>, receipt: Receipt) {
        let Receipt { run, row, ending, error, is_phase_failure, ledger, duration } = receipt;
        let usage = ledger.usage();
        info!(
            session.id = %self.key.session,
            branch.id = %self.key.branch,
            turn.id = %row.message_id,
            duration_ms = duration.0,
            n_steps = row.step,
            interrupted = ending.interrupted,
            stream_failed = ending.stream_failed,
            unanswered = ending.unanswered,
            input_tokens = usage.map(|usage| usage.input_tokens),
            output_tokens = usage.map(|usage| usage.output_tokens),
            "turn.completed"
        );
        let failure = error.filter(|_| is_phase_failure);
        if let Some(text) = &failure {
            let text = text.clone();
            self.shared.status.change(|status| status.last_error = Some(text));
        }
        self.turn = None;
        self.shared.latch.clear();
        self.waiters.release(&row.message_id, failure.as_deref());
        self.advance(ctx, Input::ReceiptWritten { run });
    }
}

/// Says that a turn waits, and what for.
fn waits(row: &TurnRow) -> AgentEvent {
    AgentEvent::ErrorOccurred {
        session_id: row.session_id.clone(),
        branch_id: Some(row.branch_id.clone()),
        error: "the turn waits for the key of its model: it goes on as soon as a client of this directory offers \
                it, for example `gent run` with the key in its environment"
            .to_owned(),
        notice: true,
    }
}

/// The receipt: what went wrong, the duration on the opening message, `TurnCompleted`, and the end of the row.
fn store_receipt(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    receipt: &Receipt,
    at: Millis,
) -> Result<(), StoreError> {
    let Receipt { row, ending, error, ledger, duration, .. } = receipt;
    if message_settle(txn, &key.branch, &row.message_id, *duration)? {
        if let Some(error) = error {
            let event = AgentEvent::ErrorOccurred {
                session_id: key.session.clone(),
                branch_id: Some(key.branch.clone()),
                error: error.clone(),
                notice: false,
            };
            txn.append(&event, at)?;
        }
        let completed = AgentEvent::TurnCompleted {
            session_id: key.session.clone(),
            branch_id: key.branch.clone(),
            message_id: row.message_id.clone(),
            duration_ms: *duration,
            interrupted: ending.interrupted,
            stream_failed: ending.stream_failed,
            unanswered: ending.unanswered,
            usage: ledger.usage(),
            cost_usd: ledger.cost(),
        };
        txn.append(&completed, at)?;
    }
    turn_delete(txn, &key.branch, &row.message_id)?;
    deltas_drop_turn(txn, &key.branch, &row.message_id)
}

fn millis(duration: Duration) -> Millis {
    Millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
