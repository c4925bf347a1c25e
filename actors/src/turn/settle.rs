//! Owns what becomes of the calls of a step that has no results yet: the recorded result of each, else that it was
//! interrupted; and an end for each call that has none. Inside the caller's write, so that nothing comes between.
//! Never runs a call. Tested below and end to end (E2, E3, E5, E7, A.10).

use std::collections::HashMap;

use gent_protocol::{
    Message, MessageId, MessageKind, Millis, Part, Role, ToolCall, ToolCallId, ToolOutcome,
    assistant_message_id, tool_result_message_id,
};
use gent_storage::{
    StoreError, ToolTerminal, TurnRow, WriteTxn, message_get, message_insert, tool_terminals,
};

use super::conversation::unrun;
use super::outcome::Unrun;
use super::tool_phase::failed_event;
use crate::branch::BranchKey;

/// The calls of a step have their results now.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Holds them, in call order; stored.
    pub(crate) results: Message,
    /// What was recorded of this call cannot be read: none of the step's calls counts.
    pub(crate) corrupt: Option<ToolCallId>,
}

/// The calls of a step whose results are not stored, and what is recorded of them.
pub(crate) struct OpenStep {
    pub(crate) assistant: MessageId,
    pub(crate) calls: Vec<ToolCall>,
    recorded: Vec<ToolTerminal>,
}

/// The last committed step of a turn, where its calls have no results.
pub(crate) fn open_step(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    row: &TurnRow,
) -> Result<Option<OpenStep>, StoreError> {
    if row.step == 0 {
        return Ok(None);
    }
    let assistant = assistant_message_id(&row.message_id, row.step);
    let results = tool_result_message_id(&row.message_id, row.step);
    if message_get(txn, &key.branch, &results)?.is_some() {
        return Ok(None);
    }
    let Some(answer) = message_get(txn, &key.branch, &assistant)? else { return Ok(None) };
    let calls: Vec<ToolCall> =
        answer.message.tool_calls().filter(|call| !call.provider_executed).cloned().collect();
    if calls.is_empty() {
        return Ok(None);
    }
    let recorded = tool_terminals(txn, &key.session, &key.branch, &assistant)?;
    Ok(Some(OpenStep { assistant, calls, recorded }))
}

/// Gives the calls of a turn's last committed step their results, where they have none. Needs no model and no tool.
/// A call of `reasons` did not run for that reason, any other one was interrupted.
pub(crate) fn settle(
    txn: &mut WriteTxn<'_>,
    key: &BranchKey,
    row: &TurnRow,
    at: Millis,
    reasons: &HashMap<ToolCallId, Unrun>,
) -> Result<Option<Settled>, StoreError> {
    let Some(OpenStep { assistant, calls, recorded }) = open_step(txn, key, row)? else { return Ok(None) };
    let results = tool_result_message_id(&row.message_id, row.step);
    let (outcomes, corrupt) = match outcomes(&calls, &recorded, reasons) {
        Ok(outcomes) => (outcomes, None),
        Err(corrupt) => {
            let refused = calls.iter().map(|call| unrun(&call.id, &call.name, Unrun::CorruptResult));
            (refused.collect(), Some(corrupt))
        }
    };
    let has_end = |call: &ToolCallId| recorded.iter().any(|terminal| terminal.call == *call);
    let cut: Vec<_> = outcomes
        .iter()
        .filter(|outcome| !has_end(&outcome.id))
        .map(|outcome| failed_event(key, &assistant, outcome, Some("stopped".to_owned())))
        .collect();
    let message = Message {
        kind: MessageKind::Regular,
        id: results,
        session_id: key.session.clone(),
        branch_id: key.branch.clone(),
        role: Role::Tool,
        parts: outcomes.into_iter().map(Part::ToolResult).collect(),
        created_at: at,
        turn_duration_ms: None,
        metadata: None,
    };
    message_insert(txn, &message)?;
    for event in &cut {
        txn.append(event, at)?;
    }
    Ok(Some(Settled { results: message, corrupt }))
}

impl OpenStep {
    /// A call's end is recorded.
    pub(crate) fn has_ended(&self, call: &ToolCallId) -> bool {
        self.recorded.iter().any(|terminal| terminal.call == *call)
    }

    /// The recorded result of a call, if it has one. Fails with the call whose record cannot be read.
    pub(crate) fn recorded(&self, call: &ToolCall) -> Option<Result<ToolOutcome, ToolCallId>> {
        let terminal = self.recorded.iter().find(|terminal| terminal.call == call.id)?;
        Some(recorded_outcome(call, terminal))
    }
}

/// The result of each call: the recorded one, else that it was interrupted. Fails with the call whose record
/// cannot be read.
fn outcomes(
    calls: &[ToolCall],
    recorded: &[ToolTerminal],
    reasons: &HashMap<ToolCallId, Unrun>,
) -> Result<Vec<ToolOutcome>, ToolCallId> {
    let by_call: HashMap<&ToolCallId, &ToolTerminal> =
        recorded.iter().map(|terminal| (&terminal.call, terminal)).collect();
    let of_call = |call: &ToolCall| match by_call.get(&call.id) {
        None => {
            let why = reasons.get(&call.id).copied().unwrap_or(Unrun::Interrupted);
            Ok(unrun(&call.id, &call.name, why))
        }
        Some(terminal) => recorded_outcome(call, terminal),
    };
    calls.iter().map(of_call).collect()
}

/// A call's result as it was recorded.
fn recorded_outcome(call: &ToolCall, terminal: &ToolTerminal) -> Result<ToolOutcome, ToolCallId> {
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
        let settled =
            outcomes(&[call("a"), call("b")], &[terminal("b", "{\"x\":1}")], &HashMap::new()).unwrap();
        assert_eq!(settled[0].result["reason"], json!("Interrupted"));
        assert!(settled[0].is_failure);
        assert_eq!((&settled[1].result, settled[1].is_failure), (&json!({"x": 1}), false));
    }

    #[test]
    fn a_record_that_cannot_be_read_is_named_e7() {
        let corrupt = outcomes(&[call("a"), call("b")], &[terminal("b", "{")], &HashMap::new()).unwrap_err();
        assert_eq!(corrupt.as_str(), "b");
    }
}
