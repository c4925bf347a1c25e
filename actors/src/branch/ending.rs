//! Owns the end of a run: the receipt in one write, exactly one for each turn, and what waits for it.
//! A receipt that cannot be written is tried again until it can. Tested end to end (G1, G3, G4).

use std::collections::HashMap;
use std::time::Duration;

use actix::{AsyncContext, Context};
use gent_extension_api::TurnAfterInput;
use gent_protocol::{AgentEvent, Millis, RunId};
use gent_storage::{
    StoreError, TurnRow, TurnState, WriteTxn, deltas_drop_turn, message_settle, questions_close_turn,
    turn_delete, turn_put,
};
use tracing::info;

use super::actor::{BranchActor, Origin};
use super::key::BranchKey;
use super::opening::is_unanswered;
use super::state::{BranchState, Input};
use super::stop::has_cancel;
use crate::turn::{Ending, Ledger, Progress, Seen, TurnEnd, settle};

/// What waits for a credential.
const WAITS_FOR_CREDENTIAL: &str = "credential";
/// The longest wait before a receipt is tried again.
const RECEIPT_RETRY_MAX: Duration = Duration::from_secs(30);

/// The wait before a turn is parked again, after a write that failed.
const PARK_AGAIN: Duration = Duration::from_secs(1);

/// A receipt that is due.
#[derive(Clone)]
pub(crate) struct Receipt {
    row: TurnRow,
    ending: Ending,
    error: Option<String>,
    is_phase_failure: bool,
    ledger: Ledger,
    duration: Millis,
    seen: Seen,
}

impl Receipt {
    /// Of a turn that is stopped where no activation runs it.
    pub(crate) fn of_stopped(row: TurnRow, at: Millis) -> Self {
        let mut ledger = Progress::of(&row).ledger;
        ledger.mark_partial();
        let duration = Millis((at.0 - row.started_at.0).max(0));
        Self {
            row,
            ending: Ending::INTERRUPTED,
            error: None,
            is_phase_failure: false,
            ledger,
            duration,
            seen: Seen::default(),
        }
    }
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
            TurnEnd::Parked(row) => self.park(ctx, run, row),
            TurnEnd::WaitsForCredential { row, offers } => self.put_aside(ctx, run, row, Some(offers)),
            TurnEnd::Over { ending, error, is_phase_failure, ledger, n_steps, seen } => {
                let Some(turn) = &self.turn else { return };
                let duration = match turn.began {
                    Some(began) => millis(self.services.env.monotonic().saturating_sub(began)),
                    None => Millis((self.services.env.now().0 - turn.row.started_at.0).max(0)),
                };
                let row = turn.row.clone();
                self.advance(ctx, Input::Over { run: run.clone() });
                let row = TurnRow { step: n_steps, ..row };
                let receipt = Receipt { row, ending, error, is_phase_failure, ledger, duration, seen };
                self.write_receipt(ctx, run, receipt, Duration::from_millis(500));
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
                actor.aside = Some(Box::new(row));
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

    /// The turn waits for an answer, unless the answer or a stop has come meanwhile.
    fn park(&mut self, ctx: &mut Context<Self>, run: RunId, row: TurnRow) {
        let row = TurnRow { state: TurnState::Parked, attempts: 0, ..row };
        let (key, stored) = (self.key.clone(), row.clone());
        self.write(
            ctx,
            "branch.park",
            move |txn| {
                let is_stopped = has_cancel(txn, &key, &stored.message_id)?;
                let waits = !is_stopped && is_unanswered(txn, &stored)?;
                if waits {
                    turn_put(txn, &stored)?;
                }
                Ok((waits, is_stopped))
            },
            move |actor, ctx, parked| match parked {
                Ok((true, _)) => {
                    actor.turn = None;
                    actor.shared.latch.clear();
                    actor.parked = Some(Box::new(row));
                    actor.advance(ctx, Input::Parked { run });
                }
                Ok((false, is_stopped)) => {
                    let next = actor.new_run();
                    let row = TurnRow { run: next, ..row };
                    let next = actor.start(row, Origin::Row, is_stopped, true);
                    actor.advance(ctx, Input::GoesOn { run, next });
                }
                Err(error) => {
                    // Its row still says that it runs: it is tried again, and the questions are in their rows.
                    actor.failed(ctx, &error);
                    ctx.run_later(PARK_AGAIN, move |actor, ctx| actor.park_again(ctx, run, row));
                }
            },
        );
    }

    fn park_again(&mut self, ctx: &mut Context<Self>, run: RunId, row: TurnRow) {
        if matches!(&self.state, BranchState::Running { run: current } if *current == run) {
            self.park(ctx, run, row);
        }
    }

    fn write_receipt(&mut self, ctx: &mut Context<Self>, run: RunId, receipt: Receipt, retry: Duration) {
        let (key, at) = (self.key.clone(), self.services.env.now());
        let due = receipt.clone();
        self.write(
            ctx,
            "branch.receipt",
            move |txn| store_receipt(txn, &key, &due, at),
            move |actor, ctx, written| match written {
                Ok(()) => actor.receipt_written(ctx, run, receipt),
                Err(error) => {
                    let words = error.to_string();
                    actor.waiters.release(&receipt.row.message_id, Some(&words));
                    actor.failed(ctx, &error);
                    // The turn stays open in its rows and is closed as soon as a write succeeds.
                    ctx.run_later(retry, move |actor, ctx| {
                        actor.write_receipt(ctx, run, receipt, (retry * 2).min(RECEIPT_RETRY_MAX));
                    });
                }
            },
        );
    }

    fn receipt_written(&mut self, ctx: &mut Context<Self>, run: RunId, receipt: Receipt) {
        let Receipt { row, ending, error, is_phase_failure, ledger, duration, seen } = receipt;
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
        let key = self.key.clone();
        let input = |agent| TurnAfterInput {
            session_id: key.session,
            branch_id: key.branch,
            message_id: row.message_id,
            started_at: row.started_at,
            duration,
            agent,
            interrupted: ending.interrupted,
            stream_failed: ending.stream_failed,
            unanswered: ending.unanswered,
            usage: ledger.known(),
            read_notices: seen.notices,
            joined: seen.joined,
        };
        self.run_turn_after(ctx, run, input);
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
pub(crate) fn store_receipt(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    receipt: &Receipt,
    at: Millis,
) -> Result<(), StoreError> {
    let Receipt { row, ending, error, ledger, duration, is_phase_failure, .. } = receipt;
    if *is_phase_failure || ending.interrupted {
        // A call whose end could not be stored when it ended.
        settle(txn, key, row, at, &HashMap::new())?;
    }
    questions_close_turn(txn, &key.branch, &row.message_id, at)?;
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
