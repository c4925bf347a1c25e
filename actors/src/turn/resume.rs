//! Owns where a turn goes on that was begun before: its last committed step is settled first.
//! A call with a recorded result is not run again; one whose question was answered runs now; one whose question waits
//! goes on waiting; any other one is reported as interrupted. Tested end to end (E2–E12, A.10, I3).

use std::collections::{HashMap, HashSet};

use gent_protocol::{MessageId, Millis, ToolCall, ToolCallId, assistant_message_id, continuation_message_id};
use gent_storage::{
    QuestionStatus, StoreError, TurnRow, WriteTxn, bindings_get, question_close, questions_of_step, turn_put,
};
use serde_json::Value;

use super::binding::mismatch;
use super::conversation::unrun;
use super::failure::TurnFailure;
use super::outcome::{Next, Outcome, Unrun, next_after};
use super::prepare::Turn;
use super::settle::{Settled, open_step, settle};
use super::tool_phase::{Known, Phase, Results, failed_event, run_calls};
use crate::branch::{BranchKey, Rank};

/// What follows the last committed step.
pub(crate) enum Resumed {
    Next(Next),
    /// Its calls wait for an answer.
    Parked,
}

/// The calls of a step that cannot be settled yet.
struct Pending {
    assistant: MessageId,
    calls: Vec<ToolCall>,
    known: Known,
    bindings: HashMap<ToolCallId, Value>,
}

/// What became of the calls of the last committed step.
enum Stock {
    /// They have their results.
    Settled(Option<Box<Settled>>),
    /// Some have an answer, or wait for one.
    Pending(Box<Pending>),
}

/// Settles the last committed step and says what follows it.
pub(crate) async fn resume(turn: &mut Turn) -> Result<Resumed, TurnFailure> {
    let step = turn.job.row.step;
    if step == 0 {
        return Ok(Resumed::Next(Next::Step));
    }
    // A row that no longer says how its step ended may still hold calls without results: they are settled.
    let last = turn.progress.last.clone().unwrap_or(Outcome::ToolCalls { cut: false });
    let is_final = step >= turn.max_steps;
    if matches!(last, Outcome::ToolCalls { cut: false }) && settle_calls(turn).await? {
        return Ok(Resumed::Parked);
    }
    let next = next_after(&last, turn.job.row.continuations, is_final);
    // The instruction that followed it is stored already: the step after it was cut short.
    let continuation = continuation_message_id(&turn.job.row.message_id, step);
    let is_decided = turn.conversation.find(&continuation).is_some();
    Ok(Resumed::Next(if is_decided { Next::Step } else { next }))
}

/// Gives the calls of the step their results. True: some wait for an answer.
async fn settle_calls(turn: &mut Turn) -> Result<bool, TurnFailure> {
    let job = &turn.job;
    let (key, row, at) = (job.key.clone(), job.row.clone(), job.services.env.now());
    let write = job.writer.write(Rank::Step, "turn.settle", move |txn| {
        let stock = take_stock(txn, &key, &row, at)?;
        turn_put(txn, &row)?;
        Ok(stock)
    });
    let pending = match write.await? {
        Stock::Settled(settled) => return settled_results(turn, settled).map(|()| false),
        Stock::Pending(pending) => pending,
    };
    if let Some((tool, why)) = refused(turn, &pending) {
        refuse(turn, &pending, why).await?;
        return Err(TurnFailure::Replay { tool, reason: why.reason() });
    }
    let Pending { assistant, calls, known, .. } = *pending;
    match run_calls(turn, &assistant, &calls, known).await? {
        Phase::Parked => Ok(true),
        Phase::Done(results) => {
            let Results { message, broke } = *results;
            turn.boundary.push(message);
            broke.map_or(Ok(false), Err)
        }
    }
}

fn settled_results(turn: &mut Turn, settled: Option<Box<Settled>>) -> Result<(), TurnFailure> {
    let Some(settled) = settled else { return Ok(()) };
    turn.conversation.push(settled.results);
    match settled.corrupt {
        None => Ok(()),
        Some(call) => Err(TurnFailure::CorruptResult { call: call.to_string() }),
    }
}

/// Looks what stands of the step's calls. Those that are lost are recorded as interrupted.
fn take_stock(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    row: &TurnRow,
    at: Millis,
) -> Result<Stock, StoreError> {
    let assistant = assistant_message_id(&row.message_id, row.step);
    let questions = questions_of_step(txn, &key.branch, &assistant)?;
    let of_status = |wanted: &[QuestionStatus]| -> HashSet<ToolCallId> {
        let rows = questions.iter().filter(|row| wanted.contains(&row.status));
        rows.map(|row| row.call.clone()).collect()
    };
    let answered = of_status(&[QuestionStatus::Answered]);
    let waiting = of_status(&[QuestionStatus::Shown, QuestionStatus::Waiting]);
    let Some(step) = open_step(txn, key, row)? else { return Ok(Stock::Settled(None)) };
    if answered.is_empty() && waiting.is_empty() {
        return Ok(Stock::Settled(settle(txn, key, row, at, &HashMap::new())?.map(Box::new)));
    }
    let mut known = Known::default();
    // What a call that has ended asked is over, also where the call was never told that the question is stored.
    for question in questions.iter().filter(|row| step.has_ended(&row.call)) {
        question_close(txn, &question.request_id, at)?;
    }
    for call in &step.calls {
        match step.recorded(call) {
            Some(Ok(outcome)) => drop(known.ended.insert(call.id.clone(), outcome)),
            // None of the step counts.
            Some(Err(_unreadable)) => {
                return Ok(Stock::Settled(settle(txn, key, row, at, &HashMap::new())?.map(Box::new)));
            }
            None if waiting.contains(&call.id) => drop(known.waiting.insert(call.id.clone())),
            None if answered.contains(&call.id) => {}
            None => {
                let outcome = unrun(&call.id, &call.name, Unrun::Interrupted);
                txn.append(&failed_event(key, &assistant, &outcome, Some("stopped".to_owned())), at)?;
                known.ended.insert(call.id.clone(), outcome);
            }
        }
    }
    let bindings = bindings_get(txn, &key.branch, &assistant)?;
    Ok(Stock::Pending(Box::new(Pending { assistant, calls: step.calls, known, bindings })))
}

/// The first call that may not run with the tools that are there now.
fn refused(turn: &Turn, pending: &Pending) -> Option<(String, Unrun)> {
    let start = &turn.job.services.node_start;
    let runs = |call: &&ToolCall| !pending.known.has(&call.id);
    pending.calls.iter().filter(runs).find_map(|call| {
        let tool = turn.tools.iter().find(|tool| tool.wire_name == call.name);
        mismatch(pending.bindings.get(&call.id), tool, start).map(|why| (call.name.clone(), why))
    })
}

/// Gives every call of the step that has no result one that says why it did not run.
async fn refuse(turn: &mut Turn, pending: &Pending, why: Unrun) -> Result<(), TurnFailure> {
    let ended = &pending.known.ended;
    let open = pending.calls.iter().filter(|call| !ended.contains_key(&call.id));
    let reasons: HashMap<ToolCallId, Unrun> = open.map(|call| (call.id.clone(), why)).collect();
    let job = &turn.job;
    let (key, row, at) = (job.key.clone(), job.row.clone(), job.services.env.now());
    let write = job.writer.write(Rank::Step, "turn.settle", move |txn| {
        let settled = settle(txn, &key, &row, at, &reasons)?;
        turn_put(txn, &row)?;
        Ok(settled)
    });
    let settled = write.await?;
    settled_results(turn, settled.map(Box::new))
}
