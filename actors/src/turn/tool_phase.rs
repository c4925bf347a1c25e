//! Owns the calls of one step: at most eight at once, each recorded as it ends, their results in call order in
//! one message. Tested end to end (A.2, D9, E1, E16).

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gent_protocol::{
    AgentEvent, Message, MessageId, Part, Role, ToolCall, ToolOutcome, tool_result_message_id,
};

use super::failure::TurnFailure;
use super::prepare::Turn;
use super::tool_call::{Called, run_call};
use crate::branch::{BranchKey, Rank};
use crate::limits::TOOLS_AT_ONCE;

/// Calls whose start is stored with the answer; the others start when one of these has ended.
pub(crate) const AT_ONCE: usize = TOOLS_AT_ONCE;

/// The results of a step.
pub(crate) struct Results {
    /// Holds them in call order; not stored yet.
    pub(crate) message: Message,
    /// A tool's code broke: the turn ends once the results are stored.
    pub(crate) broke: Option<TurnFailure>,
}

/// Runs the calls of a step. The start of the first [`AT_ONCE`] has been stored.
pub(crate) async fn run_calls(
    turn: &Turn,
    assistant: &MessageId,
    calls: &[ToolCall],
) -> Result<Results, TurnFailure> {
    let mut waiting = calls.iter().enumerate();
    let mut running = FuturesUnordered::new();
    for (at, call) in waiting.by_ref().take(AT_ONCE) {
        running.push(one(turn, assistant, at, call, false));
    }
    let mut ended: Vec<(usize, Called)> = Vec::with_capacity(calls.len());
    while let Some(result) = running.next().await {
        ended.push(result?);
        if let Some((at, call)) = waiting.next() {
            running.push(one(turn, assistant, at, call, true));
        }
    }
    ended.sort_by_key(|(at, _)| *at);
    let mut broke = None;
    let mut parts = Vec::with_capacity(ended.len());
    for (_, called) in ended {
        if let Some(message) = called.panicked {
            broke.get_or_insert(TurnFailure::ToolPanicked { tool: called.outcome.name.clone(), message });
        }
        parts.push(Part::ToolResult(called.outcome));
    }
    let id = tool_result_message_id(&turn.job.row.message_id, turn.job.row.step);
    Ok(Results { message: turn.job.message(id, Role::Tool, parts), broke })
}

async fn one(
    turn: &Turn,
    assistant: &MessageId,
    at: usize,
    call: &ToolCall,
    is_new: bool,
) -> Result<(usize, Called), TurnFailure> {
    let job = &turn.job;
    if is_new {
        let (event, now) = (started_event(&job.key, assistant, call), job.services.env.now());
        job.writer.write(Rank::Step, "turn.toolStart", move |txn| txn.append(&event, now)).await?;
    }
    let called = run_call(turn, assistant, call).await;
    let event = ended_event(&job.key, assistant, &called.outcome, called.summary.clone());
    let now = job.services.env.now();
    job.writer.write(Rank::Step, "turn.toolEnd", move |txn| txn.append(&event, now)).await?;
    Ok((at, called))
}

/// A call begins.
pub(crate) fn started_event(key: &BranchKey, assistant: &MessageId, call: &ToolCall) -> AgentEvent {
    AgentEvent::ToolCallStarted {
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        input: Some(call.params.clone()),
        parent_tool_call_id: None,
        assistant_message_id: Some(assistant.clone()),
    }
}

fn ended_event(
    key: &BranchKey,
    assistant: &MessageId,
    outcome: &ToolOutcome,
    summary: Option<String>,
) -> AgentEvent {
    if outcome.is_failure {
        return failed_event(key, assistant, outcome, summary);
    }
    AgentEvent::ToolCallSucceeded {
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        tool_call_id: outcome.id.clone(),
        tool_name: outcome.name.clone(),
        summary,
        output: None,
        result_json: Some(outcome.result.to_string()),
        parent_tool_call_id: None,
        assistant_message_id: Some(assistant.clone()),
    }
}

/// A call failed or did not run.
pub(crate) fn failed_event(
    key: &BranchKey,
    assistant: &MessageId,
    outcome: &ToolOutcome,
    summary: Option<String>,
) -> AgentEvent {
    AgentEvent::ToolCallFailed {
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        tool_call_id: outcome.id.clone(),
        tool_name: outcome.name.clone(),
        summary,
        output: None,
        result_json: Some(outcome.result.to_string()),
        parent_tool_call_id: None,
        assistant_message_id: Some(assistant.clone()),
    }
}
