//! Owns the reading of branch rows. Never makes one: a session's first branch comes with the session.
//! Tested in `storage/tests/it/sessions.rs`.

use diesel::prelude::*;
use gent_protocol::{Branch, BranchId, Millis, Page, SessionId, WorkspaceId};

use crate::codec::{cursor_number, id, optional_id};
use crate::schema::{branches, sessions};
use crate::{Reader, StoreError};

type BranchColumns = (String, String, i64, Option<String>, Option<String>, Option<String>, i64);

/// Reads a branch of a session of a workspace; none where any of the three does not fit or the session is being
/// deleted.
pub fn branch_get(
    r: &mut impl Reader,
    workspace: &WorkspaceId,
    session: &SessionId,
    branch: &BranchId,
) -> Result<Option<Branch>, StoreError> {
    let found: Option<BranchColumns> = branches::table
        .inner_join(sessions::table.on(sessions::id.eq(branches::session_id)))
        .filter(branches::id.eq(branch.as_str()))
        .filter(branches::session_id.eq(session.as_str()))
        .filter(sessions::workspace_id.eq(workspace.as_str()))
        .filter(sessions::deleting_at.is_null())
        .select(branches::all_columns)
        .first(r.connection())
        .optional()?;
    found.map(branch_decode).transpose()
}

/// Lists the branches of a session in creation order. A row that does not decode hides itself, with a warning.
/// A session that is not of the workspace, or is being deleted, has none.
pub fn branch_list(
    r: &mut impl Reader,
    workspace: &WorkspaceId,
    session: &SessionId,
    limit: u32,
    cursor: Option<&str>,
) -> Result<Page<Branch>, StoreError> {
    let after = cursor.map_or(Ok(0), |cursor| cursor_number(cursor, "branches"))?;
    let mut rows: Vec<BranchColumns> = branches::table
        .inner_join(sessions::table.on(sessions::id.eq(branches::session_id)))
        .filter(branches::session_id.eq(session.as_str()))
        .filter(branches::ordinal.gt(after))
        .filter(sessions::workspace_id.eq(workspace.as_str()))
        .filter(sessions::deleting_at.is_null())
        .select(branches::all_columns)
        .order(branches::ordinal)
        .limit(i64::from(limit) + 1)
        .load(r.connection())?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|row| row.2.to_string());
    let items = rows
        .into_iter()
        .filter_map(|row| match branch_decode(row) {
            Ok(branch) => Some(branch),
            Err(error) => {
                tracing::warn!(%error, "branch.undecodable");
                None
            }
        })
        .collect();
    Ok(Page { items, next })
}

/// Finds the workspace and session of a branch; none for one of a session that is being deleted.
pub fn branch_locate(
    r: &mut impl Reader,
    branch: &BranchId,
) -> Result<Option<(WorkspaceId, SessionId)>, StoreError> {
    let found: Option<(String, String)> = branches::table
        .inner_join(sessions::table.on(sessions::id.eq(branches::session_id)))
        .filter(branches::id.eq(branch.as_str()))
        .filter(sessions::deleting_at.is_null())
        .select((sessions::workspace_id, sessions::id))
        .first(r.connection())
        .optional()?;
    let Some((workspace, session)) = found else { return Ok(None) };
    let place = || format!("branch {branch}");
    Ok(Some((id(&workspace, place)?, id(&session, place)?)))
}

fn branch_decode(columns: BranchColumns) -> Result<Branch, StoreError> {
    let (branch, session, _, name, parent_branch, parent_message, created_at) = columns;
    let place = || format!("branch {branch}");
    Ok(Branch {
        id: id(&branch, place)?,
        session_id: id(&session, place)?,
        parent_branch_id: optional_id(parent_branch.as_deref(), place)?,
        parent_message_id: optional_id(parent_message.as_deref(), place)?,
        name,
        created_at: Millis(created_at),
    })
}
