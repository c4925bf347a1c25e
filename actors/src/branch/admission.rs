//! Owns how a message becomes a turn: admission, and taking the next one from the queue. Each is one write, which
//! decides; memory takes over what it returned. Tested end to end (A8, A9, C1, C4's bound, D14).

use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context};
use gent_protocol::{Approval, Message, Millis, RunId};
use gent_storage::{
    QueueItem, QueueKind, SessionRow, StoreError, TurnRow, TurnState, WriteTxn, branch_has_history,
    message_get, message_insert, queue_append, queue_items, queue_remove, session_find, turn_get, turn_put,
};
use serde_json::Value;

use super::actor::{BranchActor, Origin};
use super::key::BranchKey;
use super::lanes::Reply;
use super::messages::{BranchError, Submission, SubmitKind};
use super::state::{BranchState, Input};
use super::stop::has_cancel;
use crate::limits::{FOLLOW_UPS, SEND_WAITERS};

/// The wait before the next message is tried again to be taken, after a write that failed.
const TAKE_AGAIN: Duration = Duration::from_secs(1);

/// What became of a message.
#[derive(Debug)]
enum Admission {
    /// Its turn has ended before.
    Settled,
    /// Its turn runs, or it waits already.
    Known,
    /// It waits now; `is_due`: something that waits may begin as soon as nothing runs.
    Queued { is_due: bool },
    /// As many wait as may.
    Full,
    /// Its turn is stored and starts.
    Started(Box<Taken>),
}

/// A turn that starts, with its session as it is now.
#[derive(Debug)]
struct Taken {
    row: TurnRow,
    session: SessionRow,
    is_cancelled: bool,
    /// Steers wait that may join it.
    has_steers: bool,
}

impl BranchActor {
    pub(super) fn submit(
        &mut self,
        ctx: &mut Context<Self>,
        submission: Submission,
        waits: bool,
        reply: Reply,
    ) {
        if waits && self.waiters.count() >= SEND_WAITERS {
            drop(reply.send(Err(BranchError::WaitersFull { max: SEND_WAITERS })));
            return;
        }
        let is_draining = self.services.drain.is_cancelled();
        if is_draining {
            drop(reply.send(Err(BranchError::Draining)));
            return;
        }
        let may_start = self.state == BranchState::Idle && self.aside.is_none();
        let id = submission.message.id.clone();
        let run = may_start.then(|| self.new_run());
        let key = self.key.clone();
        self.write(
            ctx,
            "branch.admit",
            move |txn| admit(txn, &key, &submission, run.as_ref()),
            move |actor, ctx, admitted| match admitted {
                Err(error) => {
                    drop(reply.send(Err(BranchError::Store(error.clone()))));
                    actor.failed(ctx, &error);
                }
                Ok(Admission::Settled) => drop(reply.send(Ok(()))),
                Ok(Admission::Full) => {
                    drop(reply.send(Err(BranchError::FollowUpsFull { max: FOLLOW_UPS })));
                }
                Ok(Admission::Known) => actor.wait_or_reply(&id, waits, reply),
                Ok(Admission::Queued { is_due }) => {
                    actor.wait_or_reply(&id, waits, reply);
                    // Behind one that could not be taken: both are due now.
                    if may_start && is_due {
                        actor.take_next(ctx);
                    }
                }
                Ok(Admission::Started(taken)) => {
                    actor.wait_or_reply(&id, waits, reply);
                    actor.took(ctx, *taken, Origin::Sent);
                }
            },
        );
    }

    fn wait_or_reply(&mut self, id: &gent_protocol::MessageId, waits: bool, reply: Reply) {
        if waits {
            self.waiters.add(id, reply);
        } else {
            drop(reply.send(Ok(())));
        }
    }

    fn took(&mut self, ctx: &mut Context<Self>, taken: Taken, origin: Origin) {
        let Taken { row, session, is_cancelled, has_steers } = taken;
        self.session = Some(Arc::new(session));
        let run = self.start(row, origin, is_cancelled, has_steers);
        self.advance(ctx, Input::Took { run });
    }

    pub(super) fn new_run(&self) -> RunId {
        #[expect(clippy::expect_used, reason = "ids of `Env` are short and printable")]
        RunId::parse(self.services.env.new_id()).expect("a valid id")
    }

    /// Takes the oldest waiting message and starts its turn.
    pub(super) fn take_next(&mut self, ctx: &mut Context<Self>) {
        if self.services.drain.is_cancelled() || self.aside.is_some() {
            self.advance(ctx, Input::TookNothing);
            return;
        }
        let (key, run, now) = (self.key.clone(), self.new_run(), self.services.env.now());
        self.write(
            ctx,
            "branch.takeNext",
            move |txn| take_next(txn, &key, now, &run),
            |actor, ctx, taken| match taken {
                Ok(Some(taken)) => {
                    let asked = actor.waiters.count() > 0;
                    actor.took(ctx, taken, Origin::Queue { asked });
                }
                Ok(None) => actor.advance(ctx, Input::TookNothing),
                Err(error) => {
                    actor.advance(ctx, Input::TookNothing);
                    actor.failed(ctx, &error);
                    ctx.run_later(TAKE_AGAIN, |actor, ctx| {
                        if actor.state == BranchState::Idle {
                            actor.take_next(ctx);
                        }
                    });
                }
            },
        );
    }
}

/// The row of a turn that begins.
fn new_row(key: &BranchKey, message: &Message, approval: Option<Approval>, run: &RunId) -> TurnRow {
    TurnRow {
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        message_id: message.id.clone(),
        state: TurnState::Running,
        attempts: 0,
        run: run.clone(),
        step: 0,
        continuations: 0,
        started_at: message.created_at,
        approval,
        route: None,
        waiting_for: None,
        totals: Value::Null,
    }
}

/// Stores the opening message and the row of its turn.
fn begin(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    message: &Message,
    approval: Option<Approval>,
    run: &RunId,
) -> Result<Taken, StoreError> {
    message_insert(txn, message)?;
    let row = new_row(key, message, approval, run);
    turn_put(txn, &row)?;
    let is_cancelled = has_cancel(txn, key, &message.id)?;
    let has_steers = queue_items(txn, &key.branch)?.iter().any(|item| item.kind == QueueKind::Steering);
    // Settings may have changed since the branch was opened: they hold from the next turn on.
    let session = session_find(txn, &key.session)?
        .ok_or_else(|| StoreError::Terminated { session: key.session.clone() })?;
    Ok(Taken { row, session, is_cancelled, has_steers })
}

/// Decides what becomes of a message and stores it. `run` is there when its turn may start now.
fn admit(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    submission: &Submission,
    run: Option<&RunId>,
) -> Result<Admission, StoreError> {
    let Submission { message, kind, sender, approval } = submission;
    let current = turn_get(txn, &key.branch)?;
    if current.as_ref().is_some_and(|row| row.message_id == message.id) {
        return Ok(Admission::Known);
    }
    if message_get(txn, &key.branch, &message.id)?.is_some() {
        // It is stored and has no turn: its turn has ended.
        return Ok(Admission::Settled);
    }
    let waiting = queue_items(txn, &key.branch)?;
    let is_overtaking = waiting.iter().any(|item| item.wake);
    // A message that nobody asked to be woken for does not begin the life of a branch.
    let may_begin = match kind {
        SubmitKind::Prompt | SubmitKind::FollowUp { wake: true } => true,
        SubmitKind::FollowUp { wake: false } => branch_has_history(txn, &key.branch)?,
    };
    let is_known = waiting.iter().any(|item| item.message.id == message.id);
    if let Some(run) = run
        && current.is_none()
        && !is_overtaking
        && may_begin
        && !is_known
    {
        return Ok(Admission::Started(Box::new(begin(txn, key, message, *approval, run)?)));
    }
    match kind {
        SubmitKind::Prompt if is_known => return Ok(Admission::Known),
        SubmitKind::Prompt | SubmitKind::FollowUp { .. } => {}
    }
    let follow_ups = waiting.iter().filter(|item| item.kind == QueueKind::FollowUp).count();
    if !is_known && follow_ups >= FOLLOW_UPS {
        return Ok(Admission::Full);
    }
    let item = QueueItem {
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        message: message.clone(),
        kind: QueueKind::FollowUp,
        wake: *kind != SubmitKind::FollowUp { wake: false },
        approval: *approval,
        sender: sender.clone(),
        queued_at: message.created_at,
    };
    queue_append(txn, &item)?;
    Ok(Admission::Queued { is_due: is_overtaking || may_begin })
}

/// Stores a message where no activation can start it. The inner failure is a refusal: nothing was stored.
pub(crate) fn admit_behind(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    submission: &Submission,
) -> Result<Result<(), BranchError>, StoreError> {
    Ok(match admit(txn, key, submission, None)? {
        Admission::Full => Err(BranchError::FollowUpsFull { max: FOLLOW_UPS }),
        Admission::Settled | Admission::Known | Admission::Queued { .. } | Admission::Started(_) => Ok(()),
    })
}

/// Takes the oldest steering, else the oldest follow-up, that has not been stored before.
fn take_next(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    now: Millis,
    run: &RunId,
) -> Result<Option<Taken>, StoreError> {
    if turn_get(txn, &key.branch)?.is_some() {
        return Ok(None);
    }
    let waiting = queue_items(txn, &key.branch)?;
    let of_kind = |kind: QueueKind| waiting.iter().filter(move |item| item.kind == kind);
    for item in of_kind(QueueKind::Steering).chain(of_kind(QueueKind::FollowUp)) {
        queue_remove(txn, &key.branch, &item.message.id)?;
        if message_get(txn, &key.branch, &item.message.id)?.is_some() {
            continue;
        }
        let message = Message { created_at: now, ..item.message.clone() };
        return begin(txn, key, &message, item.approval, run).map(Some);
    }
    Ok(None)
}
