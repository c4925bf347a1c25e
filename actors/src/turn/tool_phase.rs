//! Owns the calls of one step: at most eight at once, each recorded as it ends, their results in call order in
//! one message. Tested end to end (A.2, D9, E1, E16).

use std::collections::{HashMap, HashSet};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gent_protocol::{
    AgentEvent, Message, MessageId, Part, Role, ToolCall, ToolCallId, ToolOutcome, tool_result_message_id,
};

use super::failure::TurnFailure;
use super::prepare::Turn;
use super::tool_call::{Called, Ended, run_call};
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

/// What the calls of a step came to.
pub(crate) enum Phase {
    Done(Box<Results>),
    /// Every call has ended or waits for an answer, and one waits.
    Parked,
}

/// What stands of a step's calls before they run.
#[derive(Default)]
pub(crate) struct Known {
    /// Their results.
    pub(crate) ended: HashMap<ToolCallId, ToolOutcome>,
    /// They wait for an answer.
    pub(crate) waiting: HashSet<ToolCallId>,
    /// Calls, from the first, whose start is stored.
    pub(crate) started: usize,
}

impl Known {
    /// Nothing stands; the start of the first [`AT_ONCE`] was stored with the answer.
    pub(crate) fn of_new_step() -> Self {
        Self { started: AT_ONCE, ..Self::default() }
    }

    /// The call does not run now.
    pub(crate) fn has(&self, call: &ToolCallId) -> bool {
        self.ended.contains_key(call) || self.waiting.contains(call)
    }
}

/// Runs the calls of a step that are to run.
pub(crate) async fn run_calls(
    turn: &Turn,
    assistant: &MessageId,
    calls: &[ToolCall],
    mut known: Known,
) -> Result<Phase, TurnFailure> {
    let to_run: Vec<&ToolCall> = calls.iter().filter(|call| !known.has(&call.id)).collect();
    let mut waiting = to_run.into_iter().enumerate();
    let mut running = FuturesUnordered::new();
    for (at, call) in waiting.by_ref().take(AT_ONCE) {
        running.push(one(turn, assistant, call, at >= known.started));
    }
    let mut broke = None;
    let mut is_parked = !known.waiting.is_empty();
    while let Some(result) = running.next().await {
        match result? {
            Called::Waits => is_parked = true,
            Called::Ended(ended) => {
                let Ended { outcome, panicked, .. } = *ended;
                if let Some(message) = panicked {
                    let tool = outcome.name.clone();
                    broke.get_or_insert(TurnFailure::ToolPanicked { tool, message });
                }
                known.ended.insert(outcome.id.clone(), outcome);
            }
        }
        if let Some((_, call)) = waiting.next() {
            running.push(one(turn, assistant, call, true));
        }
    }
    if is_parked {
        // A turn whose tool broke does not wait: what waits is settled with its receipt.
        return broke.map_or(Ok(Phase::Parked), Err);
    }
    let results = calls.iter().filter_map(|call| known.ended.remove(&call.id));
    let parts = results.map(Part::ToolResult).collect();
    let id = tool_result_message_id(&turn.job.row.message_id, turn.job.row.step);
    let message = turn.job.message(id, Role::Tool, parts);
    Ok(Phase::Done(Box::new(Results { message, broke })))
}

async fn one(
    turn: &Turn,
    assistant: &MessageId,
    call: &ToolCall,
    is_new: bool,
) -> Result<Called, TurnFailure> {
    let job = &turn.job;
    if is_new {
        let (event, now) = (started_event(&job.key, assistant, call), job.services.env.now());
        job.writer.write(Rank::Step, "turn.toolStart", move |txn| txn.append(&event, now)).await?;
    }
    let called = run_call(turn, assistant, call).await;
    if let Called::Ended(ended) = &called {
        let event = ended_event(&job.key, assistant, &ended.outcome, ended.summary.clone());
        let now = job.services.env.now();
        job.writer.write(Rank::Step, "turn.toolEnd", move |txn| txn.append(&event, now)).await?;
    }
    Ok(called)
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
