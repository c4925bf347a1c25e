//! Owns a step: the window, the request, the answer and its record.
//! Two writes: `turn.project` before the request, `turn.streamEnd` after the answer. Tested end to end
//! (A.1, A.2, A.4, A.5, A.6, A.13, D7, H12).

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{FailureKind, ModelRequest, ToolChoice};
use gent_protocol::{
    AgentEvent, CustomType, Message, MessageId, Part, Role, ToolCall, ToolOutcome, Usage,
    assistant_message_id, final_step_message_id, tool_result_message_id,
};
use gent_storage::{StoreError, TurnRow, deltas_drop_step, message_insert, turn_put};

use super::conversation::unrun;
use super::failure::TurnFailure;
use super::fold::Fold;
use super::ledger::cost;
use super::outcome::{Calls, Outcome, Settled, calls_after, classify};
use super::prepare::Turn;
use super::stream::{StreamEnd, Streamed, open, stream};
use super::tool_phase::{AT_ONCE, failed_event, started_event};
use super::window::{Projection, project};
use crate::branch::Rank;

/// A step that has been recorded.
pub(crate) struct Step {
    pub(crate) assistant: MessageId,
    pub(crate) outcome: Outcome,
    /// The calls that are to run; refused ones have their results.
    pub(crate) calls: Vec<ToolCall>,
    /// The turn cannot go on after it.
    pub(crate) fatal: Option<TurnFailure>,
}

/// Runs the step after the last committed one.
pub(crate) async fn run_step(turn: &mut Turn) -> Result<Step, TurnFailure> {
    let step = turn.job.row.step + 1;
    let is_final = step >= turn.max_steps;
    if is_final {
        announce_final_step(turn);
    }
    let Beginning { projection, write, changed } = begin(turn, step).await?;
    let assistant = assistant_message_id(&turn.job.row.message_id, step);
    let request = ModelRequest {
        system: turn.system.clone(),
        messages: projection.messages,
        notice: turn.notice.clone(),
        tools: turn.wire_tools.clone(),
        tool_choice: if is_final { ToolChoice::None } else { ToolChoice::Auto },
        max_output_tokens: turn.budget.output,
        temperature: turn.agent.temperature,
        reasoning: crate::route::reasoning(&turn.job.session.session, &turn.agent),
        cache_key: Some(turn.job.key.session.clone()),
    };
    // The request goes out while its record is being written: a death in between costs an answer that nobody has
    // seen, as a death an instant later would. Nothing of the answer is stored or shown before the record stands.
    // Not the first of a run: its record holds the route, without which a restart could not go on by itself.
    let opened = if turn.stored_row.is_none() {
        write.await?;
        open(turn, &request).await?
    } else {
        let stored = async { Ok::<(), TurnFailure>(write.await?) };
        tokio::try_join!(stored, open(turn, &request))?.1
    };
    turn.stored_row = changed.or(turn.stored_row.take());
    turn.has_asked = true;
    let streamed = stream(turn, step, &assistant, &request, opened).await?;
    drop(request);
    record(turn, step, is_final, assistant, streamed).await
}

fn announce_final_step(turn: &mut Turn) {
    let id = final_step_message_id(&turn.job.row.message_id);
    if turn.conversation.find(&id).is_none() {
        let text = "This is the last step of this turn: tools are no longer available. Answer now with what \
                    you have, and say what is left to do.";
        turn.boundary.push(turn.job.runtime_message(id, CustomType::MaxSteps, text.to_owned()));
    }
}

/// A step that is about to begin.
struct Beginning {
    projection: Projection,
    /// Stores what the step begins with, the window and the start of its stream.
    write: BoxFuture<'static, Result<(), StoreError>>,
    /// The turn's row, where this write stores it.
    changed: Option<TurnRow>,
}

/// Chooses the window, and makes the one write that records how the step begins.
async fn begin(turn: &mut Turn, step: u32) -> Result<Beginning, TurnFailure> {
    let boundary = std::mem::take(&mut turn.boundary);
    for message in &boundary {
        turn.conversation.push(message.clone());
    }
    let projected = project(
        turn.conversation.entries(),
        turn.conversation.older(),
        turn.budget.available,
        turn.measure.as_ref(),
        turn.window_begins,
    );
    let projection = match projected {
        Ok(projection) => projection,
        Err(source) => {
            store_messages(turn, boundary).await?;
            return Err(TurnFailure::Window { model: turn.route.model.clone(), source });
        }
    };
    turn.window_begins = projection.begins;
    let job = &turn.job;
    let context = AgentEvent::ModelContextProjected {
        session_id: job.key.session.clone(),
        branch_id: job.key.branch.clone(),
        estimated_tokens: projection.estimated,
        available_input_tokens: turn.budget.available,
        context_limit_tokens: turn.budget.window,
        omitted_messages: projection.omitted,
        handoff_message_id: None,
        compacted: false,
        cost_usd: None,
    };
    let started = AgentEvent::StreamStarted {
        session_id: job.key.session.clone(),
        branch_id: job.key.branch.clone(),
        message_id: job.row.message_id.clone(),
        step,
        run: job.row.run.clone(),
    };
    let at = job.services.env.now();
    let changed = (turn.stored_row.as_ref() != Some(&job.row)).then(|| job.row.clone());
    let (stored, writer) = (changed.clone(), job.writer.clone());
    let write = async move {
        let project = writer.write(Rank::Step, "turn.project", move |txn| {
            for message in &boundary {
                message_insert(txn, message)?;
            }
            if let Some(row) = &stored {
                turn_put(txn, row)?;
            }
            txn.append(&context, at)?;
            txn.append(&started, at)?;
            Ok(())
        });
        project.await
    };
    Ok(Beginning { projection, write: write.boxed(), changed })
}

/// Stores messages that no step follows.
pub(crate) async fn store_messages(turn: &Turn, messages: Vec<Message>) -> Result<(), TurnFailure> {
    if messages.is_empty() {
        return Ok(());
    }
    let row = turn.job.row.clone();
    let write = turn.job.writer.write(Rank::Step, "turn.messages", move |txn| {
        for message in &messages {
            message_insert(txn, message)?;
        }
        turn_put(txn, &row)
    });
    Ok(write.await?)
}

/// What a step's stream came to.
struct Answer {
    outcome: Outcome,
    usage: Option<Usage>,
    parts: Vec<Part>,
    /// Said to people as an error.
    error: Option<String>,
    fatal: Option<TurnFailure>,
}

fn answer(streamed: Streamed) -> Answer {
    let Streamed { fold, end } = streamed;
    let observable = fold.is_observable();
    let usage = fold.usage();
    let plain =
        |fold: Fold, outcome| Answer { outcome, usage, parts: fold.into_parts(), error: None, fatal: None };
    match end {
        StreamEnd::Interrupted => plain(fold, Outcome::Interrupted),
        StreamEnd::Failed(failure) => {
            let outcome = Outcome::Failed { partial: observable, error: failure.message.clone() };
            let is_auth = failure.kind == FailureKind::Auth;
            Answer {
                outcome,
                usage: None,
                parts: fold.into_parts(),
                error: (!is_auth).then(|| failure.message.clone()),
                fatal: is_auth.then_some(TurnFailure::Auth(failure)),
            }
        }
        StreamEnd::Settled(finish) => {
            let parts = fold.into_parts();
            let calls = parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
            let outcome = classify(Settled { finish, calls, observable });
            let error = match &outcome {
                Outcome::Answered { blocked: true, .. } => {
                    Some("the provider blocked the answer; ask in another way".to_owned())
                }
                Outcome::Answered { .. }
                | Outcome::ToolCalls { .. }
                | Outcome::Interrupted
                | Outcome::Failed { .. } => None,
            };
            Answer { outcome, usage, parts, error, fatal: None }
        }
    }
}

/// Stores the answer with everything that follows from it, in one write.
async fn record(
    turn: &mut Turn,
    step: u32,
    is_final: bool,
    assistant: MessageId,
    streamed: Streamed,
) -> Result<Step, TurnFailure> {
    let Answer { outcome, usage, parts, error, fatal } = answer(streamed);
    let is_settled = outcome.is_settled();
    let pricing = turn.model.facts().pricing;
    let counted = usage.filter(|_| is_settled);
    let price = counted.zip(pricing).map(|(usage, pricing)| cost(&usage, &pricing));
    turn.progress.ledger.add(counted, price);
    turn.progress.last = Some(outcome.clone());
    let row = &mut turn.job.row;
    row.step = step;
    row.attempts = 0;
    row.totals = turn.progress.to_value();
    if let Some(usage) = counted {
        turn.measure = Some(super::window::Measure {
            reply: assistant.clone(),
            tokens: usage.input_tokens.saturating_sub(turn.budget.overhead),
        });
    }
    let job = &turn.job;
    let (session_id, branch_id) = (job.key.session.clone(), job.key.branch.clone());
    let ended = AgentEvent::StreamEnded {
        session_id: session_id.clone(),
        branch_id: branch_id.clone(),
        message_id: job.row.message_id.clone(),
        step,
        usage: counted,
        request_overhead_tokens: counted.map(|_| turn.budget.overhead),
        model: Some(turn.route.model.clone()),
        cost_usd: price,
        priced_model: price.map(|_| turn.model.facts().id.clone()),
        interrupted: outcome == Outcome::Interrupted,
        outcome: outcome.on_wire(),
    };
    let error = error.map(|error| AgentEvent::ErrorOccurred {
        session_id,
        branch_id: Some(branch_id),
        error,
        notice: false,
    });
    let message = (!parts.is_empty()).then(|| job.message(assistant.clone(), Role::Assistant, parts));
    let calls: Vec<ToolCall> = message.iter().flat_map(Message::tool_calls).cloned().collect();
    let (calls, refused) = match calls_after(&outcome, is_final) {
        Calls::Run => (calls, Vec::new()),
        Calls::Refuse(why) => {
            let refuse = |call: &ToolCall| unrun(&call.id, &call.name, why);
            (Vec::new(), calls.iter().map(refuse).collect::<Vec<ToolOutcome>>())
        }
    };
    let refusals = (!refused.is_empty()).then(|| {
        let parts = refused.iter().cloned().map(Part::ToolResult).collect();
        job.message(tool_result_message_id(&job.row.message_id, step), Role::Tool, parts)
    });
    let failed: Vec<AgentEvent> =
        refused.iter().map(|outcome| failed_event(&job.key, &assistant, outcome, None)).collect();
    let started: Vec<AgentEvent> =
        calls.iter().take(AT_ONCE).map(|call| started_event(&job.key, &assistant, call)).collect();
    let (row, at) = (job.row.clone(), job.services.env.now());
    let (stored, stored_refusals) = (message.clone(), refusals.clone());
    let write = job.writer.write(Rank::Step, "turn.streamEnd", move |txn| {
        txn.append(&ended, at)?;
        if let Some(error) = &error {
            txn.append(error, at)?;
        }
        if let Some(message) = &stored {
            message_insert(txn, message)?;
        }
        if let Some(refusals) = &stored_refusals {
            message_insert(txn, refusals)?;
        }
        for event in failed.iter().chain(&started) {
            txn.append(event, at)?;
        }
        deltas_drop_step(txn, &row.branch_id, &row.message_id, step)?;
        turn_put(txn, &row)
    });
    write.await?;
    turn.stored_row = Some(turn.job.row.clone());
    for stored in message.into_iter().chain(refusals) {
        turn.conversation.push(stored);
    }
    Ok(Step { assistant, outcome, calls, fatal })
}
