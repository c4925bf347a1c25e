//! Owns the course of a turn from hand-over to its ending. The receipt is the actor's.
//! Tested end to end.

use std::sync::Arc;

use gent_protocol::{CustomType, MessageId, continuation_message_id};
use gent_storage::{SessionRow, StoreError, TurnRow, message_insert, turn_put};
use tokio_util::sync::CancellationToken;

use super::failure::TurnFailure;
use super::ledger::Ledger;
use super::outcome::{Ending, Next, next_after};
use super::prepare::{Prepared, Turn, prepare};
use super::resume::{Resumed, resume};
use super::rows::Progress;
use super::step::{run_step, store_messages};
use super::tool_phase::{Known, Phase, Results, run_calls};
use crate::branch::{BranchKey, BranchWriter, HoldCounter, Rank, Scope, SteerFlag, join_steers};
use crate::services::Services;

/// A turn that is to run.
pub(crate) struct TurnJob {
    pub(crate) services: Arc<Services>,
    pub(crate) key: BranchKey,
    pub(crate) writer: BranchWriter,
    pub(crate) scope: Scope,
    /// Fires when the turn is stopped.
    pub(crate) latch: CancellationToken,
    /// Fires when the server drains: the turn is put aside at its next step boundary.
    pub(crate) drain: CancellationToken,
    /// Up while something may wait that is said to this turn.
    pub(crate) steers: SteerFlag,
    pub(crate) holds: HoldCounter,
    pub(crate) session: Arc<SessionRow>,
    pub(crate) row: TurnRow,
    /// Steps or spending of an earlier process may be unknown.
    pub(crate) is_resumed_after_death: bool,
    /// Nobody asked for it since the server started: it may wait for a credential.
    pub(crate) is_unattended: bool,
}

/// What a turn was shown beside its conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Keys of the notices that its last request carried, where it was answered.
    pub(crate) notices: Vec<String>,
    /// What was said to it while it ran.
    pub(crate) joined: Vec<MessageId>,
}

/// How a run of a turn ended.
#[derive(Debug)]
pub(crate) enum TurnEnd {
    /// The turn is over: a receipt is due.
    Over {
        ending: Ending,
        /// Said to people, and to whoever waits when `is_phase_failure`.
        error: Option<String>,
        is_phase_failure: bool,
        ledger: Ledger,
        /// Steps that were committed.
        n_steps: u32,
        seen: Seen,
    },
    /// It was put aside at a step boundary.
    Drained(TurnRow),
    /// Its calls have ended or wait for an answer, and one waits.
    Parked(TurnRow),
    /// It needs a key that nobody has offered since the server started.
    WaitsForCredential {
        row: TurnRow,
        /// Offers there had been when it looked.
        offers: u64,
    },
    /// The activation may no longer write: nothing is due.
    Abandoned(StoreError),
}

/// Runs a turn. Dropping the future leaves it unfinished in its rows: it goes on at the next opening.
pub(crate) async fn run(job: TurnJob) -> TurnEnd {
    let mut ledger = Progress::of(&job.row).ledger;
    if job.is_resumed_after_death {
        ledger.mark_partial();
    }
    let n_steps = job.row.step;
    if job.latch.is_cancelled() {
        // Its calls without results are settled with the receipt.
        return over(Ending::INTERRUPTED, None, ledger, n_steps);
    }
    match prepare(job).await {
        Prepared::Ready(mut turn) => {
            let result = steps(&mut turn).await;
            finish(*turn, result).await
        }
        Prepared::WaitsForCredential { job, offers } => TurnEnd::WaitsForCredential { row: job.row, offers },
        Prepared::UnknownAgent(error) => over(Ending::UNANSWERED, Some(error), ledger, n_steps),
        Prepared::Failed(failure) => failed(failure, ledger, n_steps),
    }
}

fn over(ending: Ending, error: Option<String>, ledger: Ledger, n_steps: u32) -> TurnEnd {
    TurnEnd::Over { ending, error, is_phase_failure: false, ledger, n_steps, seen: Seen::default() }
}

fn failed(failure: TurnFailure, ledger: Ledger, n_steps: u32) -> TurnEnd {
    if let TurnFailure::Store(error @ (StoreError::Fenced { .. } | StoreError::Terminated { .. })) = failure {
        return TurnEnd::Abandoned(error);
    }
    TurnEnd::Over {
        ending: Ending::FAILED,
        error: Some(crate::error::chain(&failure)),
        is_phase_failure: true,
        ledger,
        n_steps,
        seen: Seen::default(),
    }
}

/// Why the steps are over.
enum Stopped {
    Ending(Ending),
    Drained,
    Parked,
}

async fn steps(turn: &mut Turn) -> Result<Stopped, TurnFailure> {
    let mut next = match resume(turn).await? {
        Resumed::Next(next) => next,
        Resumed::Parked => return Ok(parked(turn)),
    };
    loop {
        match next {
            Next::Stop(ending) => return Ok(Stopped::Ending(ending)),
            Next::Step => {}
            Next::Continue(instruction) => {
                turn.job.row.continuations += 1;
                let id = continuation_message_id(&turn.job.row.message_id, turn.job.row.step);
                let message =
                    turn.job.runtime_message(id, CustomType::Continuation, instruction.text().to_owned());
                turn.boundary.push(message);
            }
        }
        if turn.job.latch.is_cancelled() {
            return Ok(Stopped::Ending(Ending::INTERRUPTED));
        }
        if turn.job.drain.is_cancelled() {
            return Ok(Stopped::Drained);
        }
        if turn.job.row.step >= turn.max_steps {
            return Ok(Stopped::Ending(Ending::UNANSWERED));
        }
        if turn.job.row.step + 1 < turn.max_steps {
            join(turn).await?;
        }
        let step = run_step(turn).await?;
        if let Some(fatal) = step.fatal {
            return Err(fatal);
        }
        if !step.calls.is_empty() {
            match run_calls(turn, &step.assistant, &step.calls, Known::of_new_step()).await? {
                Phase::Parked => return Ok(parked(turn)),
                Phase::Done(results) => {
                    let Results { message, broke } = *results;
                    turn.boundary.push(message);
                    if let Some(broke) = broke {
                        return Err(broke);
                    }
                }
            }
        }
        let is_final = turn.job.row.step >= turn.max_steps;
        next = next_after(&step.outcome, turn.job.row.continuations, is_final);
        // Said while the answer came: the turn goes on with it instead of ending.
        if next == Next::Stop(Ending::ANSWERED) && !is_final && join(turn).await? {
            next = Next::Step;
        }
    }
}

/// The calls of the step wait, unless the turn was stopped meanwhile: then they are settled with its receipt.
fn parked(turn: &Turn) -> Stopped {
    if turn.job.latch.is_cancelled() { Stopped::Ending(Ending::INTERRUPTED) } else { Stopped::Parked }
}

/// Takes what was said to the turn into its transcript, behind what the step before left to store. True when there was
/// something.
async fn join(turn: &mut Turn) -> Result<bool, TurnFailure> {
    if !turn.job.steers.is_up() || turn.job.latch.is_cancelled() {
        return Ok(false);
    }
    // Down before the look: what comes from now on raises it again.
    turn.job.steers.set(false);
    let boundary = std::mem::take(&mut turn.boundary);
    let job = &turn.job;
    let (key, row, at) = (job.key.clone(), job.row.clone(), job.services.env.now());
    let left = boundary.clone();
    let write = job.writer.write(Rank::Step, "turn.joinSteers", move |txn| {
        for message in &left {
            message_insert(txn, message)?;
        }
        turn_put(txn, &row)?;
        join_steers(txn, &key, at)
    });
    let joined = write.await?;
    turn.stored_row = Some(turn.job.row.clone());
    let has_joined = !joined.is_empty();
    turn.progress.joined.extend(joined.iter().map(|message| message.id.clone()));
    for message in boundary.into_iter().chain(joined) {
        turn.conversation.push(message);
    }
    Ok(has_joined)
}

/// Stores what is left to store and says how the turn ended.
async fn finish(mut turn: Turn, result: Result<Stopped, TurnFailure>) -> TurnEnd {
    let left = std::mem::take(&mut turn.boundary);
    let stored = store_messages(&turn, left).await;
    let ledger = turn.progress.ledger.clone();
    let n_steps = turn.job.row.step;
    let mut ended = match (result, stored) {
        (Err(failure), _) | (Ok(_), Err(failure)) => failed(failure, ledger, n_steps),
        (Ok(Stopped::Ending(ending)), Ok(())) => over(ending, None, ledger, n_steps),
        (Ok(Stopped::Drained), Ok(())) => TurnEnd::Drained(turn.job.row),
        (Ok(Stopped::Parked), Ok(())) => TurnEnd::Parked(turn.job.row),
    };
    if let TurnEnd::Over { ending, seen, .. } = &mut ended {
        seen.joined = turn.progress.joined;
        // Not where the answer is of an earlier run: what it was shown is not known any more.
        if *ending == Ending::ANSWERED && turn.has_asked {
            seen.notices = turn.notice_keys;
        }
    }
    ended
}
