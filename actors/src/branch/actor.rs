//! Owns an activation of a branch: its lanes, its state, its one write in flight, its turn.
//! Each kind of decision is in a file of its own: `opening`, `admission`, `stop`, `ending`.
//! Never waits for its turn, never blocks, never writes a step. Tested end to end.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, ResponseFuture, WrapFuture};
use futures_util::FutureExt;
use gent_protocol::{ActorState, MessageId, RunId};
use gent_storage::{BranchFence, SessionRow, StoreError, TurnRow, TurnState, WriteTxn};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use super::handle::Shared;
use super::key::BranchKey;
use super::lanes::{Command, Lanes};
use super::messages::{BranchError, Idle, Verdict};
use super::state::{BranchState, Effect, Input};
use super::waiters::Waiters;
use super::writer::{BranchWriter, Rank};
use crate::directory::BranchDirectory;
use crate::services::Services;
use crate::turn::{self, TurnEnd, TurnJob, panic_message};

/// Says that an activation is gone, whatever way it went.
#[derive(Debug)]
pub(crate) struct GoneNote {
    pub(crate) key: BranchKey,
    pub(crate) generation: u64,
    /// It left in good order.
    pub(crate) is_orderly: bool,
}

/// The turn that runs, or whose receipt is being written.
pub(super) struct CurrentTurn {
    pub(super) row: TurnRow,
    /// On the clock that never steps back; absent for a turn of an earlier process.
    pub(super) began: Option<Duration>,
    /// Nobody asked for it since the server started.
    pub(super) is_unattended: bool,
}

/// Where a turn that starts comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A caller has just sent it.
    Sent,
    /// It waited in the queue; `asked`: somebody here waits for it.
    Queue { asked: bool },
    /// It was unfinished in its row.
    Row,
}

/// What a parked turn waits for.
pub(crate) const WAITS_FOR_ANSWER: &str = "answer";

/// See the module.
pub(crate) struct BranchActor {
    pub(super) services: Arc<Services>,
    pub(super) key: BranchKey,
    generation: u64,
    /// Its branch had been given up: what it takes up again has not failed once more.
    pub(super) is_revival: bool,
    directory: actix::Addr<BranchDirectory>,
    gone: mpsc::UnboundedSender<GoneNote>,
    pub(super) shared: Shared,
    pub(super) state: BranchState,
    pub(super) writer: Option<BranchWriter>,
    pub(super) session: Option<Arc<SessionRow>>,
    lanes: Lanes,
    /// A write of the actor's own is in flight: nothing is taken meanwhile.
    is_busy: bool,
    pub(super) waiters: Waiters,
    pub(super) turn: Option<Box<CurrentTurn>>,
    /// A turn that waits in its row: for a credential, or for the next server.
    pub(super) aside: Option<Box<TurnRow>>,
    /// A turn that waits for an answer.
    pub(super) parked: Option<Box<TurnRow>>,
    last_active: Duration,
    /// The one timer of the activation is running.
    is_idle_armed: bool,
    is_orderly: bool,
}

impl BranchActor {
    pub(crate) fn new(
        services: Arc<Services>,
        key: BranchKey,
        generation: u64,
        directory: actix::Addr<BranchDirectory>,
        gone: mpsc::UnboundedSender<GoneNote>,
        shared: Shared,
        is_revival: bool,
    ) -> Self {
        let last_active = services.env.monotonic();
        Self {
            services,
            key,
            generation,
            is_revival,
            directory,
            gone,
            shared,
            state: BranchState::Opening,
            writer: None,
            session: None,
            lanes: Lanes::default(),
            is_busy: false,
            waiters: Waiters::default(),
            turn: None,
            aside: None,
            parked: None,
            last_active,
            is_idle_armed: false,
            is_orderly: false,
        }
    }

    /// Files a command and takes what can be taken.
    pub(super) fn file<T: 'static>(
        &mut self,
        ctx: &mut Context<Self>,
        permit: tokio::sync::OwnedSemaphorePermit,
        command: impl FnOnce(super::lanes::Reply<T>) -> Command,
    ) -> ResponseFuture<Result<T, BranchError>> {
        let (reply, replied) = oneshot::channel();
        self.lanes.file(command(reply), Some(permit));
        self.pump(ctx);
        async move { replied.await.unwrap_or(Err(BranchError::Moved)) }.boxed_local()
    }

    /// Takes commands, one at a time, for as long as no write is in flight.
    pub(super) fn pump(&mut self, ctx: &mut Context<Self>) {
        while !self.is_busy && !matches!(self.state, BranchState::Retiring { .. }) {
            let Some(command) = self.lanes.take() else { break };
            gent_storage::failpoint!("actor.command");
            self.last_active = self.services.env.monotonic();
            match command {
                Command::Submit { submission, waits, reply } => self.submit(ctx, *submission, waits, reply),
                Command::Stop { order, reply } => self.stop_turn(ctx, *order, reply),
                Command::Interject { interjection, reply } => self.interject(ctx, *interjection, reply),
                Command::Answer { answer, reply } => {
                    let (question, decision) = *answer;
                    self.answer(ctx, question, decision, reply);
                }
                Command::Dequeue { message, reply } => self.dequeue(ctx, message, reply),
                Command::DrainAll { request, reply } => self.drain_all(ctx, request, reply),
                Command::CredentialOffered { reply } => {
                    self.try_again(ctx);
                    drop(reply.send(Ok(())));
                }
                Command::RunEnded { run, end } => self.run_ended(ctx, run, *end),
            }
        }
        self.show();
    }

    /// Writes, then lets memory take over what the write returned.
    pub(super) fn write<T: Send + 'static>(
        &mut self,
        ctx: &mut Context<Self>,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
        then: impl FnOnce(&mut Self, &mut Context<Self>, Result<T, StoreError>) + 'static,
    ) {
        let Some(writer) = self.writer.clone() else {
            then(self, ctx, Err(StoreError::Closed));
            return;
        };
        self.is_busy = true;
        let written = async move { writer.write(Rank::Control, name, write).await };
        ctx.spawn(written.into_actor(self).map(move |result, actor, ctx| {
            actor.is_busy = false;
            then(actor, ctx, result);
            actor.pump(ctx);
        }));
    }

    /// Waits for something before anything else is taken.
    pub(super) fn await_then<T: 'static>(
        &mut self,
        ctx: &mut Context<Self>,
        future: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut Self, &mut Context<Self>, T) + 'static,
    ) {
        self.is_busy = true;
        ctx.spawn(future.into_actor(self).map(move |value, actor, ctx| {
            actor.is_busy = false;
            then(actor, ctx, value);
            actor.pump(ctx);
        }));
    }

    /// Moves the state machine and performs what follows. An input that does not fit is dropped: it is stale.
    pub(super) fn advance(&mut self, ctx: &mut Context<Self>, input: Input) {
        let effect = match self.state.clone().next(input) {
            Ok((state, effect)) => {
                self.state = state;
                effect
            }
            Err(refused) => {
                debug!(branch = %self.key, reason = %refused, "branch.input_refused");
                None
            }
        };
        match effect {
            None => {}
            Some(Effect::RunTurn) => self.run_turn(ctx),
            Some(Effect::TakeNext) => self.take_next(ctx),
            Some(Effect::ArmIdle) => {
                self.lanes.shrink();
                if self.state == BranchState::Idle && self.aside.is_none() {
                    // The next turn reads it anew.
                    self.session = None;
                }
                self.arm_idle(ctx, self.services.branch_idle);
            }
            Some(Effect::AskToRetire) => self.ask_to_retire(ctx),
        }
    }

    fn run_turn(&mut self, ctx: &mut Context<Self>) {
        let (Some(turn), Some(writer), Some(session)) = (&self.turn, &self.writer, &self.session) else {
            return;
        };
        let run = turn.row.run.clone();
        let latch = self.shared.latch.current(&turn.row.message_id);
        let job = TurnJob {
            services: Arc::clone(&self.services),
            key: self.key.clone(),
            writer: writer.clone(),
            scope: self.shared.scope.clone(),
            latch,
            drain: self.services.drain.clone(),
            steers: self.shared.steers.clone(),
            holds: self.shared.holds.clone(),
            session: Arc::clone(session),
            row: turn.row.clone(),
            is_resumed_after_death: turn.row.attempts > 0,
            is_unattended: turn.is_unattended,
        };
        let running = self.shared.scope.spawn(turn::run(job));
        ctx.spawn(running.into_actor(self).map(move |ended, actor, ctx| {
            let end = match ended {
                Ok(Some(end)) => end,
                // The scope was closed: the turn has not ended.
                Ok(None) => return,
                Err(error) if error.is_panic() => broke(panic_message(error.into_panic())),
                Err(_) => return,
            };
            actor.lanes.file(Command::RunEnded { run, end: Box::new(end) }, None);
            actor.pump(ctx);
        }));
    }

    /// Starts a turn whose row has been stored.
    pub(super) fn start(
        &mut self,
        row: TurnRow,
        origin: Origin,
        is_cancelled: bool,
        has_steers: bool,
    ) -> RunId {
        // The first write of the run stores it so: a death from there on counts.
        let row = TurnRow { state: TurnState::Running, waiting_for: None, ..row };
        self.shared.steers.set(has_steers);
        let latch = self.shared.latch.install(&row.message_id);
        if is_cancelled {
            latch.cancel();
        }
        let run = row.run.clone();
        let (is_new, is_unattended) = match origin {
            Origin::Sent => (true, false),
            Origin::Queue { asked } => (true, !asked),
            Origin::Row => (false, true),
        };
        let began = is_new.then(|| self.services.env.monotonic());
        self.turn = Some(Box::new(CurrentTurn { row, began, is_unattended }));
        run
    }

    /// Its rows could not be read: it leaves, and counts as dead, so that the next one tries again.
    pub(super) fn leave_unopened(&mut self, ctx: &mut Context<Self>, error: &StoreError) {
        let is_gone = matches!(error, StoreError::Terminated { .. } | StoreError::Closed);
        self.leave(ctx, || BranchError::Store(error.clone()));
        self.is_orderly = is_gone;
    }

    /// The activation may no longer write, or was told to end: it leaves without recording anything.
    pub(super) fn leave(&mut self, ctx: &mut Context<Self>, why: impl Fn() -> BranchError) {
        self.shared.scope.close();
        self.is_orderly = true;
        while let Some(command) = self.lanes.take() {
            command.refuse(&why);
        }
        self.waiters.release_all(&why);
        ctx.stop();
    }

    /// Looks for idleness in a while. One timer for each activation: it arms itself again.
    fn arm_idle(&mut self, ctx: &mut Context<Self>, wait: Duration) {
        if !std::mem::replace(&mut self.is_idle_armed, true) {
            ctx.run_later(wait, Self::look_for_idleness);
        }
    }

    fn look_for_idleness(&mut self, ctx: &mut Context<Self>) {
        self.is_idle_armed = false;
        if !matches!(self.state, BranchState::Idle | BranchState::Waiting) {
            // A turn runs: its end arms the timer again.
            return;
        }
        let limit = self.services.branch_idle;
        let idle = self.services.env.monotonic().saturating_sub(self.last_active);
        let is_held = self.is_busy
            || !self.lanes.is_empty()
            || self.waiters.count() > 0
            || self.shared.holds.count() > 0;
        if is_held {
            self.arm_idle(ctx, limit);
        } else if idle < limit {
            self.arm_idle(ctx, limit.saturating_sub(idle));
        } else {
            self.advance(ctx, Input::IdleLongEnough);
            self.show();
        }
    }

    fn ask_to_retire(&mut self, ctx: &mut Context<Self>) {
        let report = Idle { key: self.key.clone(), generation: self.generation };
        let asked = self.directory.send(report);
        ctx.spawn(asked.into_actor(self).map(|verdict, actor, ctx| match verdict {
            Ok(Verdict::Retire) | Err(_) => actor.leave(ctx, || BranchError::Moved),
            Ok(Verdict::Stay) => {
                actor.last_active = actor.services.env.monotonic();
                actor.advance(ctx, Input::Stay);
                actor.pump(ctx);
            }
        }));
    }

    /// Shows the operator where the activation stands.
    pub(super) fn show(&mut self) {
        let state = match &self.state {
            BranchState::Opening => ActorState::Opening,
            BranchState::Idle => ActorState::Idle,
            BranchState::Running { .. } | BranchState::Settling { .. } => ActorState::Running,
            BranchState::Waiting => ActorState::Waiting,
            BranchState::Retiring { .. } => ActorState::Retiring,
        };
        let waiters = self.waiters.count();
        let resting = self.aside.as_deref().or(self.parked.as_deref());
        let row = self.turn.as_ref().map(|turn| &turn.row).or(resting);
        let attempts = row.map(|row| row.attempts);
        let waiting_for = match (&self.parked, &self.aside) {
            (Some(_), _) => Some(WAITS_FOR_ANSWER.to_owned()),
            (None, aside) => aside.as_ref().and_then(|row| row.waiting_for.clone()),
        };
        self.shared.status.enter(state, self.services.env.monotonic());
        let (has_turn, held) = (self.turn.is_some(), self.shared.holds.count());
        self.shared.status.change(|status| {
            status.has_turn = has_turn;
            status.waiters = waiters;
            status.held = held;
            status.attempts = attempts;
            status.waiting_for = waiting_for;
        });
    }

    /// Notes a failure for the operator and, where the activation may no longer write, leaves.
    pub(super) fn failed(&mut self, ctx: &mut Context<Self>, error: &StoreError) {
        warn!(branch = %self.key, error = %crate::error::chain(error), "branch.write_failed");
        let text = error.to_string();
        self.shared.status.change(|status| status.last_error = Some(text));
        if let Some(error) = ends_activation(error) {
            // What became of the write is in the rows: the next activation reads them.
            let reopens = matches!(error, StoreError::OutcomeUnknown);
            self.leave(ctx, move || BranchError::Store(error.clone()));
            self.is_orderly = !reopens;
        }
    }

    pub(super) fn fence(&self, epoch: i64) -> BranchFence {
        BranchFence { session_id: self.key.session.clone(), branch_id: self.key.branch.clone(), epoch }
    }

    pub(super) fn turn_message(&self) -> Option<&MessageId> {
        let resting = self.aside.as_deref().or(self.parked.as_deref());
        self.turn.as_ref().map(|turn| &turn.row).or(resting).map(|row| &row.message_id)
    }
}

/// Errors after which the activation may not write any more.
fn ends_activation(error: &StoreError) -> Option<StoreError> {
    match error {
        StoreError::Fenced { .. }
        | StoreError::Terminated { .. }
        | StoreError::Closed
        | StoreError::OutcomeUnknown => Some(error.clone()),
        StoreError::NotFound { .. }
        | StoreError::Conflict { .. }
        | StoreError::CursorInvalid { .. }
        | StoreError::Undecodable { .. }
        | StoreError::Full
        | StoreError::QueueFull
        | StoreError::Failed { .. } => None,
    }
}

fn broke(message: String) -> TurnEnd {
    TurnEnd::Over {
        ending: turn::Ending::FAILED,
        error: Some(crate::error::chain(&turn::TurnFailure::Panicked { message })),
        is_phase_failure: true,
        ledger: turn::Ledger::default(),
        n_steps: 0,
        seen: turn::Seen::default(),
    }
}

impl Actor for BranchActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // The permits are the bound of the mailbox.
        ctx.set_mailbox_capacity(0);
        self.open(ctx);
    }
}

impl Drop for BranchActor {
    fn drop(&mut self) {
        // Also on a panic. The scope ends with the actor; the note tells the directory.
        self.shared.scope.close();
        self.shared.latch.clear();
        self.shared.opened.cancel();
        let note =
            GoneNote { key: self.key.clone(), generation: self.generation, is_orderly: self.is_orderly };
        // The directory is gone when the server stops.
        drop(self.gone.send(note));
    }
}
