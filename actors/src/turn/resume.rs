//! Owns where a turn goes on that was begun before: its last committed step is settled first.
//! A call with a recorded result is not run again; one without is reported as interrupted.
//! Tested end to end (E2–E5, E7, A.10, I3).

use gent_protocol::continuation_message_id;
use gent_storage::turn_put;

use super::failure::TurnFailure;
use super::outcome::{Next, Outcome, next_after};
use super::prepare::Turn;
use super::settle::settle;
use crate::branch::Rank;

/// Settles the last committed step and says what follows it.
pub(crate) async fn resume(turn: &mut Turn) -> Result<Next, TurnFailure> {
    let step = turn.job.row.step;
    if step == 0 {
        return Ok(Next::Step);
    }
    // A row that no longer says how its step ended may still hold calls without results: they are settled.
    let last = turn.progress.last.clone().unwrap_or(Outcome::ToolCalls { cut: false });
    let is_final = step >= turn.max_steps;
    if matches!(last, Outcome::ToolCalls { cut: false }) {
        settle_calls(turn).await?;
    }
    let next = next_after(&last, turn.job.row.continuations, is_final);
    // The instruction that followed it is stored already: the step after it was cut short.
    let continuation = continuation_message_id(&turn.job.row.message_id, step);
    let is_decided = turn.conversation.find(&continuation).is_some();
    Ok(if is_decided { Next::Step } else { next })
}

async fn settle_calls(turn: &mut Turn) -> Result<(), TurnFailure> {
    let job = &turn.job;
    let (key, row, at) = (job.key.clone(), job.row.clone(), job.services.env.now());
    let write = job.writer.write(Rank::Step, "turn.settle", move |txn| {
        let settled = settle(txn, &key, &row, at)?;
        turn_put(txn, &row)?;
        Ok(settled)
    });
    let Some(settled) = write.await? else { return Ok(()) };
    turn.conversation.push(settled.results);
    match settled.corrupt {
        None => Ok(()),
        Some(call) => Err(TurnFailure::CorruptResult { call: call.to_string() }),
    }
}
