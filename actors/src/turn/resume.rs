//! Owns where a turn goes on that was begun before: its last committed step is settled first.
//! A call with a recorded result is not run again; one without is reported as interrupted.
//! Tested end to end (E2–E5, E7, A.10, I3).

use std::collections::HashMap;

use gent_protocol::{
    AgentEvent, Message, MessageId, Part, Role, ToolCall, ToolCallId, ToolOutcome, assistant_message_id,
    continuation_message_id, tool_result_message_id,
};
use gent_storage::{ToolTerminal, message_get, message_insert, tool_terminals, turn_put};

use super::conversation::unrun;
use super::failure::TurnFailure;
use super::outcome::{Next, Outcome, Unrun, next_after};
use super::prepare::Turn;
use super::run::TurnJob;
use super::tool_phase::failed_event;
use crate::branch::Rank;

/// Settles the last committed step and says what follows it.
pub(crate) async fn resume(turn: &mut Turn) -> Result<Next, TurnFailure> {
    let step = turn.job.row.step;
    let Some(last) = turn.progress.last.clone().filter(|_| step > 0) else {
        return Ok(Next::Step);
    };
    let is_final = step >= turn.max_steps;
    if let Some(results) = settle_calls(&turn.job, &last).await? {
        turn.conversation.push(results);
    }
    let next = next_after(&last, turn.job.row.continuations, is_final);
    // The instruction that followed it is stored already: the step after it was cut short.
    let continuation = continuation_message_id(&turn.job.row.message_id, step);
    let is_decided = turn.conversation.find(&continuation).is_some();
    Ok(if is_decided { Next::Step } else { next })
}

/// Gives the calls of the last committed step their results, if it has calls without. Needs no model: a turn
/// that was stopped while it waited is closed the same way.
pub(crate) async fn settle_calls(job: &TurnJob, last: &Outcome) -> Result<Option<Message>, TurnFailure> {
    let step = job.row.step;
    if step == 0 || !matches!(last, Outcome::ToolCalls { cut: false }) {
        return Ok(None);
    }
    let opening = job.row.message_id.clone();
    let assistant = assistant_message_id(&opening, step);
    let results = tool_result_message_id(&opening, step);
    let (session, branch, of) = (job.key.session.clone(), job.key.branch.clone(), assistant.clone());
    let read = job.writer.store().read("turn.pending", move |txn| {
        if message_get(txn, &branch, &results)?.is_some() {
            return Ok(None);
        }
        let answer = message_get(txn, &branch, &of)?.map(|stored| stored.message);
        let recorded = tool_terminals(txn, &session, &branch, &of)?;
        Ok(answer.map(|answer| (answer, recorded)))
    });
    let Some((answer, recorded)) = read.await? else { return Ok(None) };
    let calls: Vec<ToolCall> = answer.tool_calls().cloned().collect();
    match settle(&calls, &recorded) {
        Ok(settled) => store(job, &assistant, settled, &recorded).await.map(Some),
        Err(corrupt) => {
            let refused = calls.iter().map(|call| unrun(&call.id, &call.name, Unrun::CorruptResult));
            store(job, &assistant, refused.collect(), &recorded).await?;
            Err(TurnFailure::CorruptResult { call: corrupt.to_string() })
        }
    }
}

/// The result of each call: the recorded one, else that it was interrupted. Fails with the call whose record
/// cannot be read.
fn settle(calls: &[ToolCall], recorded: &[ToolTerminal]) -> Result<Vec<ToolOutcome>, ToolCallId> {
    let by_call: HashMap<&ToolCallId, &ToolTerminal> =
        recorded.iter().map(|terminal| (&terminal.call, terminal)).collect();
    let of_call = |call: &ToolCall| {
        let Some(terminal) = by_call.get(&call.id) else {
            return Ok(unrun(&call.id, &call.name, Unrun::Interrupted));
        };
        let json = terminal.result_json.as_deref().ok_or_else(|| call.id.clone())?;
        let result = serde_json::from_str(json).map_err(|_unreadable| call.id.clone())?;
        Ok(ToolOutcome {
            id: call.id.clone(),
            name: call.name.clone(),
            is_failure: terminal.failed,
            result,
            provider_executed: false,
            options: None,
        })
    };
    calls.iter().map(of_call).collect()
}

/// Stores the results of a step, and an end for each call that has none.
async fn store(
    job: &TurnJob,
    assistant: &MessageId,
    outcomes: Vec<ToolOutcome>,
    recorded: &[ToolTerminal],
) -> Result<Message, TurnFailure> {
    let has_no_end = |outcome: &&ToolOutcome| !recorded.iter().any(|terminal| terminal.call == outcome.id);
    let events: Vec<AgentEvent> = outcomes
        .iter()
        .filter(has_no_end)
        .map(|outcome| failed_event(&job.key, assistant, outcome, Some("stopped".to_owned())))
        .collect();
    let parts = outcomes.into_iter().map(Part::ToolResult).collect();
    let id = tool_result_message_id(&job.row.message_id, job.row.step);
    let message = job.message(id, Role::Tool, parts);
    let (stored, row, at) = (message.clone(), job.row.clone(), job.services.env.now());
    let write = job.writer.write(Rank::Step, "turn.settle", move |txn| {
        message_insert(txn, &stored)?;
        for event in &events {
            txn.append(event, at)?;
        }
        turn_put(txn, &row)
    });
    write.await?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: ToolCallId::parse(id).unwrap(),
            name: "bash".into(),
            params: json!({}),
            provider_executed: false,
            options: None,
        }
    }

    fn terminal(id: &str, json: &str) -> ToolTerminal {
        ToolTerminal {
            call: ToolCallId::parse(id).unwrap(),
            failed: false,
            result_json: Some(json.to_owned()),
        }
    }

    #[test]
    fn a_recorded_result_is_kept_and_a_missing_one_is_interrupted_e3() {
        let settled = settle(&[call("a"), call("b")], &[terminal("b", "{\"x\":1}")]).unwrap();
        assert_eq!(settled[0].result["reason"], json!("Interrupted"));
        assert!(settled[0].is_failure);
        assert_eq!((&settled[1].result, settled[1].is_failure), (&json!({"x": 1}), false));
    }

    #[test]
    fn a_record_that_cannot_be_read_is_named_e7() {
        let corrupt = settle(&[call("a"), call("b")], &[terminal("b", "{")]).unwrap_err();
        assert_eq!(corrupt.as_str(), "b");
    }
}
