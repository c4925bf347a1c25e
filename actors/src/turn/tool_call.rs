//! Owns the pipeline of one call: find the tool, run it on a task of its own, take secrets out, sum it up.
//! A failure of any kind is a failed result; a panic is reported beside it. Tested end to end (D9, E14–E16).

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use gent_extension_api::{Redactor, Tool, ToolContext, ToolError};
use gent_protocol::{MessageId, ToolCall, ToolOutcome};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use super::binding::Binding;
use super::conversation::unrun;
use super::failure::panic_message;
use super::outcome::Unrun;
use super::prepare::Turn;
use super::questions::CallQuestions;
use crate::limits::{SUMMARY_CHARS, TOOL_STOP_GRACE};
use crate::profile::ProfileTool;

/// What a run of a call came to.
pub(crate) enum Called {
    Ended(Box<Ended>),
    /// It asked and waits for the answer: nothing of it is left but the question.
    Waits,
}

/// A call that is over.
pub(crate) struct Ended {
    pub(crate) outcome: ToolOutcome,
    pub(crate) summary: Option<String>,
    /// What the tool's code said when it broke.
    pub(crate) panicked: Option<String>,
}

/// Runs one call.
pub(crate) async fn run_call(turn: &Turn, assistant: &MessageId, call: &ToolCall) -> Called {
    let began = turn.job.services.env.monotonic();
    let called = call_tool(turn, assistant, call).await;
    let took = turn.job.services.env.monotonic().saturating_sub(began);
    let failed = match &called {
        Called::Ended(ended) => ended.outcome.is_failure,
        Called::Waits => {
            info!(session.id = %turn.job.key.session, tool.call_id = %call.id, "tool.waits_for_answer");
            return called;
        }
    };
    info!(
        session.id = %turn.job.key.session,
        tool.name = call.name,
        tool.call_id = %call.id,
        tool.failed = failed,
        duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "tool.completed"
    );
    called
}

async fn call_tool(turn: &Turn, assistant: &MessageId, call: &ToolCall) -> Called {
    let parked = CancellationToken::new();
    match ended_call(turn, assistant, call, &parked).await {
        Some(ended) => Called::Ended(Box::new(ended)),
        None => Called::Waits,
    }
}

/// Runs the tool; nothing when the call waits for an answer.
async fn ended_call(
    turn: &Turn,
    assistant: &MessageId,
    call: &ToolCall,
    parked: &CancellationToken,
) -> Option<Ended> {
    if turn.job.latch.is_cancelled() {
        return Some(interrupted(call));
    }
    let Some(found) = turn.tools.iter().find(|tool| tool.wire_name == call.name) else {
        let known: Vec<&str> = turn.tools.iter().map(|tool| tool.wire_name.as_str()).collect();
        let message = format!("unknown tool '{}': the tools are {}", call.name, known.join(", "));
        return Some(failed(turn, call, message));
    };
    if let Value::String(raw) = &call.params {
        let message = format!(
            "Tool '{}' input failed: the input is not JSON ({} characters)",
            call.name,
            raw.chars().count()
        );
        return Some(failed(turn, call, message));
    }
    let stop = turn.job.latch.child_token();
    let context = ToolContext {
        context: turn.facets.context(
            &turn.job.key,
            &found.extension,
            stop.clone(),
            Arc::new(questions(turn, assistant, call, found, parked)),
        ),
        tool_call_id: call.id.clone(),
        assistant_message_id: assistant.clone(),
    };
    let (tool, input) = (Arc::clone(&found.tool), call.params.clone());
    let mut running = turn.job.scope.spawn(async move { tool.run(context, input).await });
    // However the call ends, also when this future is dropped with the scope or because another write failed: its
    // task ends, and work it has on another thread is told.
    let _ends = EndsWithCall { task: running.abort_handle(), _told: stop.drop_guard() };
    let ended = tokio::select! {
        ended = &mut running => Some(ended),
        () = parked.cancelled() => {
            running.abort();
            // Its work is gone before the question can be answered and the call runs again.
            drop((&mut running).await);
            return None;
        }
        () = turn.job.latch.cancelled() => {
            tokio::time::timeout(TOOL_STOP_GRACE, &mut running).await.ok()
        }
    };
    Some(match ended {
        None | Some(Ok(None)) => interrupted(call),
        Some(Ok(Some(result))) => finished(turn, &*found.tool, call, result),
        Some(Err(error)) if error.is_panic() => {
            let message = panic_message(error.into_panic());
            warn!(tool.name = call.name, error = message, "tool.execute.failed");
            let mut ended = failed(turn, call, format!("the tool '{}' broke", call.name));
            ended.panicked = Some(message);
            ended
        }
        Some(Err(_)) => interrupted(call),
    })
}

/// How this run of the call asks.
fn questions(
    turn: &Turn,
    assistant: &MessageId,
    call: &ToolCall,
    tool: &ProfileTool,
    parked: &CancellationToken,
) -> CallQuestions {
    let job = &turn.job;
    CallQuestions {
        asking: turn.facets.asking.clone(),
        services: Arc::clone(&job.services),
        secrets: Arc::clone(&turn.facets.secrets),
        writer: job.writer.clone(),
        key: job.key.clone(),
        turn: job.row.message_id.clone(),
        assistant: assistant.clone(),
        call: call.id.clone(),
        binding: Binding::of(tool, &job.services.node_start).to_value(),
        asked: AtomicU32::new(0),
        parked: parked.clone(),
    }
}

/// Ends a call's task when the call is over for whoever waits for it.
struct EndsWithCall {
    task: AbortHandle,
    _told: DropGuard,
}

impl Drop for EndsWithCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn finished(turn: &Turn, tool: &dyn Tool, call: &ToolCall, result: Result<Value, ToolError>) -> Ended {
    match result {
        Ok(mut value) => {
            let own = tool.summary(&call.params, &value);
            turn.facets.secrets.redact_value(&mut value);
            let summary = own.map(|line| turn.facets.secrets.redact(&line)).unwrap_or_else(|| head(&value));
            let outcome = ToolOutcome {
                id: call.id.clone(),
                name: call.name.clone(),
                is_failure: false,
                result: value,
                provider_executed: false,
                options: None,
            };
            Ended { outcome, summary: Some(cut_line(&summary)), panicked: None }
        }
        Err(ToolError::TellModel(message)) => failed(turn, call, message),
        Err(ToolError::TellModelWith { message, mut result }) => {
            turn.facets.secrets.redact_value(&mut result);
            let mut ended = failed(turn, call, message);
            ended.outcome.result = result;
            ended
        }
        Err(ToolError::Broken { message }) => {
            warn!(tool.name = call.name, error = message, "tool.execute.failed");
            failed(turn, call, message)
        }
    }
}

fn failed(turn: &Turn, call: &ToolCall, message: String) -> Ended {
    let message = turn.facets.secrets.redact(&message);
    let summary = Some(cut_line(&message));
    let outcome = ToolOutcome {
        id: call.id.clone(),
        name: call.name.clone(),
        is_failure: true,
        result: json!({ "error": message }),
        provider_executed: false,
        options: None,
    };
    Ended { outcome, summary, panicked: None }
}

fn interrupted(call: &ToolCall) -> Ended {
    let outcome = unrun(&call.id, &call.name, Unrun::Interrupted);
    Ended { outcome, summary: Some("stopped".to_owned()), panicked: None }
}

/// The head of a result, where the tool has no line of its own.
fn head(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn cut_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= SUMMARY_CHARS {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(SUMMARY_CHARS).collect();
    cut.push_str("...");
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_line_of_100_characters() {
        assert_eq!(cut_line("a\nb"), "a");
        assert_eq!(cut_line(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(cut_line(&"é".repeat(101)), format!("{}...", "é".repeat(100)));
    }
}
