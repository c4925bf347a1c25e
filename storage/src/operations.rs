//! Owns the first outcomes of keyed commands, so that a repeat is answered and not done again, and the count of attempts
//! at those that may be tried a few times.
//! Looked up inside the write that would do the work: two repeats at once cannot both do it.
//! Tested in `storage/tests/it/sessions.rs` and `storage/tests/it/rows.rs`.

use diesel::prelude::*;
use gent_protocol::{BranchId, Millis, SessionId, WorkspaceId};
use serde_json::{Value, json};

use crate::codec::{id, json, to_json};
use crate::schema::durable_operations;
use crate::{Reader, StoreError, WriteTxn};

/// The first outcome of a keyed command.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredOperation {
    /// The session it was about.
    pub session: SessionId,
    /// The branch it was about.
    pub branch: BranchId,
    /// What was answered.
    pub result: Value,
}

/// The field of an outcome that counts attempts.
const ATTEMPTS: &str = "attempts";

/// Reads the outcome of an operation, none when it was never done in this workspace.
pub fn operation_get(
    r: &mut impl Reader,
    workspace: &WorkspaceId,
    operation: &str,
    request: &str,
) -> Result<Option<StoredOperation>, StoreError> {
    let found: Option<(String, String, String)> = durable_operations::table
        .find((workspace.as_str(), operation, request))
        .select((
            durable_operations::session_id,
            durable_operations::branch_id,
            durable_operations::result_json,
        ))
        .first(r.connection())
        .optional()?;
    let Some((session, branch, result)) = found else { return Ok(None) };
    let place = || format!("the outcome of {operation} {request}");
    Ok(Some(StoredOperation {
        session: id(&session, place)?,
        branch: id(&branch, place)?,
        result: json(&result, place)?,
    }))
}

/// Stores the outcome of an operation. One that has an outcome keeps it: `Conflict`.
#[expect(clippy::too_many_arguments, reason = "the columns of one row")]
pub fn operation_put(
    txn: &mut WriteTxn<'_>,
    workspace: &WorkspaceId,
    operation: &str,
    request: &str,
    result: &Value,
    session: &SessionId,
    branch: &BranchId,
    at: Millis,
) -> Result<(), StoreError> {
    if operation_get(txn, workspace, operation, request)?.is_some() {
        return Err(StoreError::Conflict {
            message: format!("{operation} {request} has an outcome already: look it up first"),
        });
    }
    diesel::insert_into(durable_operations::table)
        .values((
            durable_operations::workspace_id.eq(workspace.as_str()),
            durable_operations::operation.eq(operation),
            durable_operations::request_id.eq(request),
            durable_operations::result_json.eq(to_json(result)?),
            durable_operations::session_id.eq(session.as_str()),
            durable_operations::branch_id.eq(branch.as_str()),
            durable_operations::created_at.eq(at.0),
        ))
        .execute(txn.connection())?;
    Ok(())
}

/// Reserves one more attempt at an operation, at most `max` in all; true when it is granted. An outcome that is no count
/// of attempts, or does not decode, grants nothing: `Conflict` or `Undecodable`.
#[expect(clippy::too_many_arguments, reason = "the columns of one row")]
pub fn operation_reserve(
    txn: &mut WriteTxn<'_>,
    workspace: &WorkspaceId,
    operation: &str,
    request: &str,
    session: &SessionId,
    branch: &BranchId,
    max: u32,
    at: Millis,
) -> Result<bool, StoreError> {
    let stored = operation_get(txn, workspace, operation, request)?;
    let attempts = match &stored {
        None => 0,
        Some(stored) => {
            stored.result.get(ATTEMPTS).and_then(Value::as_u64).ok_or_else(|| StoreError::Conflict {
                message: format!("the outcome of {operation} {request} is no count of attempts"),
            })?
        }
    };
    if attempts >= u64::from(max) {
        return Ok(false);
    }
    let result = json!({ ATTEMPTS: attempts + 1 });
    if stored.is_none() {
        operation_put(txn, workspace, operation, request, &result, session, branch, at)?;
        return Ok(true);
    }
    diesel::update(durable_operations::table.find((workspace.as_str(), operation, request)))
        .set(durable_operations::result_json.eq(to_json(&result)?))
        .execute(txn.connection())?;
    Ok(true)
}
