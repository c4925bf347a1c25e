//! Owns how an activation begins: it takes its epoch, and only then reads its rows and decides.
//! A turn that was running when the process died is started again, at most three times without a step.
//! Tested end to end (I3, I4, A.10, and the crash tests).

use std::sync::Arc;

use actix::Context;
use gent_protocol::{RunId, assistant_message_id};
use gent_storage::{
    QuestionStatus, QueueItem, QueueKind, SessionRow, StoreError, TurnRow, TurnState, WriteTxn,
    branch_has_history, branch_take, deltas_drop_turn, questions_of_step, queue_items, session_find,
    turn_get, turn_put,
};

use super::actor::{BranchActor, CurrentTurn, Origin};
use super::key::BranchKey;
use super::state::Input;
use super::stop::has_cancel;
use super::writer::BranchWriter;
use crate::limits::TURN_ATTEMPTS;
use crate::turn::{Ending, Progress, Seen, TurnEnd, TurnFailure};

/// What the rows of a branch say.
struct Opened {
    epoch: i64,
    session: SessionRow,
    turn: Option<OpenTurn>,
    is_waking: bool,
    has_steers: bool,
}

/// An unfinished turn.
struct OpenTurn {
    row: TurnRow,
    is_cancelled: bool,
    /// It was started too often: it is closed without being run.
    is_given_up: bool,
    /// It waits for an answer that is not there.
    is_parked: bool,
}

impl BranchActor {
    /// Takes the epoch and reads the rows. Until then no command is taken.
    pub(super) fn open(&mut self, ctx: &mut Context<Self>) {
        let (store, key) = (self.services.store.clone(), self.key.clone());
        let (node, run) = (self.services.node_start.clone(), self.new_run());
        let counts = !self.is_revival;
        let opened = async move {
            let take = store.write("branch.open", move |txn| take(txn, &key, &node, &run, counts));
            take.await
        };
        self.await_then(ctx, opened, |actor, ctx, opened| match opened {
            Ok(opened) => {
                actor.opened(ctx, opened);
                actor.shared.opened.cancel();
            }
            Err(error) => {
                actor.failed(ctx, &error);
                actor.leave_unopened(ctx, &error);
            }
        });
    }

    fn opened(&mut self, ctx: &mut Context<Self>, opened: Opened) {
        let fence = self.fence(opened.epoch);
        self.writer = Some(BranchWriter::new(self.services.store.clone(), fence));
        self.session = Some(Arc::new(opened.session));
        self.run_loop_open();
        self.shared.status.change(|status| status.epoch = opened.epoch);
        let Some(OpenTurn { row, is_cancelled, is_given_up, is_parked }) = opened.turn else {
            self.advance(ctx, Input::Opened { waking: opened.is_waking });
            return;
        };
        if is_parked {
            self.parked = Some(Box::new(row));
            self.advance(ctx, Input::OpenedOverParked);
            return;
        }
        if self.services.drain.is_cancelled() && !is_cancelled {
            self.aside = Some(Box::new(row));
            self.advance(ctx, Input::Opened { waking: false });
            return;
        }
        if is_given_up {
            self.give_up(ctx, row);
            return;
        }
        let run = self.start(row, Origin::Row, is_cancelled, opened.has_steers);
        self.advance(ctx, Input::OpenedOverTurn { run });
    }

    /// Closes a turn that was started too often.
    fn give_up(&mut self, ctx: &mut Context<Self>, row: TurnRow) {
        let failure = TurnFailure::TooManyAttempts { attempts: row.attempts };
        let (run, n_steps, mut ledger) = (row.run.clone(), row.step, Progress::of(&row).ledger);
        ledger.mark_partial();
        self.state = super::state::BranchState::Running { run: run.clone() };
        self.turn = Some(Box::new(CurrentTurn { row, began: None, is_unattended: true }));
        let end = TurnEnd::Over {
            ending: Ending::FAILED,
            error: Some(failure.to_string()),
            is_phase_failure: true,
            ledger,
            n_steps,
            seen: Seen::default(),
        };
        self.run_ended(ctx, run, end);
    }
}

/// The write: the epoch, then the rows, then what a death left behind is put right.
fn take(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    node: &str,
    run: &RunId,
    counts: bool,
) -> Result<Opened, StoreError> {
    let epoch = branch_take(txn, &key.session, &key.branch, node)?;
    let session = session_find(txn, &key.session)?
        .ok_or_else(|| StoreError::Terminated { session: key.session.clone() })?;
    let turn = match turn_get(txn, &key.branch)? {
        None => None,
        Some(row) => Some(take_up(txn, key, row, run, counts)?),
    };
    let waiting = queue_items(txn, &key.branch)?;
    let has_steers = waiting.iter().any(|item| item.kind == QueueKind::Steering);
    let is_waking = is_waking(&waiting, || branch_has_history(txn, &key.branch))?;
    Ok(Opened { epoch, session, turn, is_waking, has_steers })
}

fn take_up(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    mut row: TurnRow,
    run: &RunId,
    counts: bool,
) -> Result<OpenTurn, StoreError> {
    let is_cancelled = has_cancel(txn, key, &row.message_id)?;
    if row.state == TurnState::Parked && !is_cancelled && is_unanswered(txn, &row)? {
        return Ok(OpenTurn { row, is_cancelled, is_given_up: false, is_parked: true });
    }
    // A branch that was given up has lost its actor, not its server: the turn is not to blame once more.
    if counts && row.state == TurnState::Running {
        row.attempts += 1;
    }
    let is_given_up = row.attempts >= TURN_ATTEMPTS;
    row.state = TurnState::Running;
    row.run = run.clone();
    turn_put(txn, &row)?;
    deltas_drop_turn(txn, &row.branch_id, &row.message_id)?;
    Ok(OpenTurn { row, is_cancelled, is_given_up, is_parked: false })
}

/// A question of the turn waits for its answer and none has one. A turn whose questions are lost does not wait for ever.
pub(super) fn is_unanswered(txn: &mut WriteTxn<'_>, row: &TurnRow) -> Result<bool, StoreError> {
    let assistant = assistant_message_id(&row.message_id, row.step);
    let questions = questions_of_step(txn, &row.branch_id, &assistant)?;
    let has = |status: QuestionStatus| questions.iter().any(|question| question.status == status);
    let waits = has(QuestionStatus::Shown) || has(QuestionStatus::Waiting);
    Ok(waits && !has(QuestionStatus::Answered))
}

/// The queue wakes the branch when an item asks for it, or when the branch has lived before.
fn is_waking(
    waiting: &[QueueItem],
    has_history: impl FnOnce() -> Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    if waiting.is_empty() {
        return Ok(false);
    }
    Ok(waiting.iter().any(|item| item.wake) || has_history()?)
}
