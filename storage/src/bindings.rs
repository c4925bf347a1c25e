//! Owns what the calls of an assistant message were bound to, stored before they run.
//! Never changes a binding: a call that runs again runs as it was bound.
//! Tested in `storage/tests/it/rows.rs` and `storage/tests/it/damage.rs`.

use std::collections::HashMap;

use diesel::prelude::*;
use gent_protocol::{BranchId, MessageId, Millis, ToolCallId};
use serde_json::Value;

use crate::codec::{id, json, to_json};
use crate::schema::tool_call_bindings;
use crate::{Reader, StoreError, WriteTxn};

/// Stores the bindings of calls. The same one again is fine, another one is a `Conflict`. One that does not decode binds
/// nothing and gives way.
pub fn bindings_put(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    assistant: &MessageId,
    bindings: &[(ToolCallId, Value)],
    at: Millis,
) -> Result<(), StoreError> {
    for (call, binding) in bindings {
        let key = (branch.as_str(), assistant.as_str(), call.as_str());
        let text = to_json(binding)?;
        let stored: Option<String> = tool_call_bindings::table
            .find(key)
            .select(tool_call_bindings::binding_json)
            .first(txn.connection())
            .optional()?;
        match stored {
            // By text or by value: neither the order of keys nor the way of a number through JSON makes it another.
            Some(stored) if stored == text => {}
            Some(stored) => match json::<Value>(&stored, || place(branch, assistant, call)) {
                Ok(stored) if stored == *binding => {}
                Ok(_) => {
                    return Err(StoreError::Conflict {
                        message: format!(
                            "{} is stored already and is another one: run the call as it was bound",
                            place(branch, assistant, call)
                        ),
                    });
                }
                Err(error) => {
                    tracing::error!(%error, "binding.undecodable");
                    diesel::update(tool_call_bindings::table.find(key))
                        .set(tool_call_bindings::binding_json.eq(text))
                        .execute(txn.connection())?;
                }
            },
            None => {
                diesel::insert_into(tool_call_bindings::table)
                    .values((
                        tool_call_bindings::branch_id.eq(branch.as_str()),
                        tool_call_bindings::assistant_message_id.eq(assistant.as_str()),
                        tool_call_bindings::tool_call_id.eq(call.as_str()),
                        tool_call_bindings::binding_json.eq(text),
                        tool_call_bindings::created_at.eq(at.0),
                    ))
                    .execute(txn.connection())?;
            }
        }
    }
    Ok(())
}

/// Reads the bindings of a message's calls. One that does not decode is absent, with an error for the operator.
pub fn bindings_get(
    r: &mut impl Reader,
    branch: &BranchId,
    assistant: &MessageId,
) -> Result<HashMap<ToolCallId, Value>, StoreError> {
    let rows: Vec<(String, String)> = tool_call_bindings::table
        .filter(tool_call_bindings::branch_id.eq(branch.as_str()))
        .filter(tool_call_bindings::assistant_message_id.eq(assistant.as_str()))
        .select((tool_call_bindings::tool_call_id, tool_call_bindings::binding_json))
        .load(r.connection())?;
    Ok(rows
        .into_iter()
        .filter_map(|(call, binding)| {
            let place = || place(branch, assistant, &call);
            match id(&call, place).and_then(|id| Ok((id, json(&binding, place)?))) {
                Ok(binding) => Some(binding),
                Err(error) => {
                    tracing::error!(%error, "binding.undecodable");
                    None
                }
            }
        })
        .collect())
}

fn place(branch: &BranchId, assistant: &MessageId, call: impl std::fmt::Display) -> String {
    format!("the binding of call {call} of message {assistant} of branch {branch}")
}
