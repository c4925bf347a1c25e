//! Owns the end of a session: a short write that marks the deletion set, then a sweep in portions.
//! A marked session stays deleted; nothing of it is written any more, and the sweep is resumed at start.
//! Tested in `storage/tests/it/delete.rs`.

use std::collections::HashSet;

use diesel::prelude::*;
use gent_protocol::{BranchId, Millis, SessionId, WorkspaceId};

use crate::codec::id;
use crate::connection::AnyConnection;
use crate::schema::{
    branch_metrics, branch_owners, branch_queue, branches, content_chunks, durable_operations, events,
    message_chunks, messages, questions, session_counters, sessions, stream_deltas, tool_call_bindings,
    turns,
};
use crate::sessions::{CREATE, session_get};
use crate::{Reader, StoreError, WriteTxn};

/// Marks a session as being deleted, with all it spawned and their own handoffs, and removes their owner rows: from
/// the commit on, opens, writes and creates under them are `Terminated`. A handoff that continues the session's own
/// thread stays; its parent link is cleared. Returns the set with its branches, the session first.
pub fn session_delete_begin(
    txn: &mut WriteTxn<'_>,
    workspace: &WorkspaceId,
    id: &SessionId,
    at: Millis,
) -> Result<Vec<(SessionId, Vec<BranchId>)>, StoreError> {
    let Some(row) = session_get(txn, workspace, id)? else {
        return Err(StoreError::NotFound { what: "session", id: id.to_string() });
    };
    let thread = row.session.thread_id.unwrap_or_else(|| id.clone());
    let set = deletion_set(txn.connection(), id, &thread)?;
    let mut ended = Vec::with_capacity(set.len());
    for session in &set {
        ended.push((session_id(session)?, mark(txn.connection(), session, at)?));
    }
    let survivors =
        sessions::table.filter(sessions::parent_session_id.eq_any(&set)).filter(sessions::id.ne_all(&set));
    diesel::update(survivors)
        .set((sessions::parent_session_id.eq(None::<String>), sessions::parent_branch_id.eq(None::<String>)))
        .execute(txn.connection())?;
    Ok(ended)
}

fn session_id(text: &str) -> Result<SessionId, StoreError> {
    id(text, || format!("session {text}"))
}

fn deletion_set(
    connection: &mut AnyConnection,
    first: &SessionId,
    thread: &SessionId,
) -> Result<Vec<String>, StoreError> {
    let mut set = vec![first.to_string()];
    let mut seen: HashSet<String> = set.iter().cloned().collect();
    let mut parents = set.clone();
    while !parents.is_empty() {
        let children: Vec<String> = sessions::table
            .filter(sessions::parent_session_id.eq_any(&parents))
            .filter(sessions::thread_id.ne(thread.as_str()))
            .select(sessions::id)
            .order(sessions::id)
            .load(connection)?;
        // Links that run in a circle, in a damaged store, must not make this endless.
        parents = children.into_iter().filter(|child| seen.insert(child.clone())).collect();
        set.extend(parents.iter().cloned());
    }
    Ok(set)
}

fn mark(connection: &mut AnyConnection, session: &str, at: Millis) -> Result<Vec<BranchId>, StoreError> {
    diesel::update(sessions::table.find(session).filter(sessions::deleting_at.is_null()))
        .set(sessions::deleting_at.eq(Some(at.0)))
        .execute(connection)?;
    let branch_ids: Vec<String> = branches::table
        .filter(branches::session_id.eq(session))
        .select(branches::id)
        .order(branches::ordinal)
        .load(connection)?;
    diesel::delete(branch_owners::table.filter(branch_owners::branch_id.eq_any(&branch_ids)))
        .execute(connection)?;
    // The outcome of the create goes at once: a repeat of it must not be answered with a session that is gone.
    let creates = durable_operations::table
        .filter(durable_operations::session_id.eq(session))
        .filter(durable_operations::operation.eq(CREATE));
    diesel::delete(creates).execute(connection)?;
    branch_ids.iter().map(|text| id(text, || format!("branch {text}"))).collect()
}

/// The sessions whose deletion has begun and not ended, oldest first.
pub fn sessions_deleting(r: &mut impl Reader) -> Result<Vec<SessionId>, StoreError> {
    let found: Vec<String> = sessions::table
        .filter(sessions::deleting_at.is_not_null())
        .select(sessions::id)
        .order((sessions::deleting_at, sessions::id))
        .load(r.connection())?;
    found.iter().map(|text| session_id(text)).collect()
}

/// Deletes about `max_rows` rows of a marked session, and the content that nothing else uses; true when nothing is
/// left of it. An unmarked session is refused; one that is gone is done.
pub fn session_delete_portion(
    txn: &mut WriteTxn<'_>,
    id: &SessionId,
    max_rows: usize,
) -> Result<bool, StoreError> {
    let connection = txn.connection();
    let marked: Option<Option<i64>> =
        sessions::table.find(id.as_str()).select(sessions::deleting_at).first(connection).optional()?;
    match marked {
        None => return Ok(true),
        Some(None) => {
            return Err(StoreError::Conflict {
                message: format!("session {id} is not marked as deleted: begin the deletion first"),
            });
        }
        Some(Some(_)) => {}
    }
    let mut room = i64::try_from(max_rows).unwrap_or(i64::MAX).max(1);
    room -= sweep_deltas(connection, id, room)?;
    room -= sweep_events(connection, id, room)?;
    room -= sweep_messages(connection, id, room)?;
    room -= sweep_questions(connection, id, room)?;
    room -= sweep_bindings(connection, id, room)?;
    room -= sweep_operations(connection, id, room)?;
    if room <= 0 {
        return Ok(false);
    }
    sweep_branches(connection, id)?;
    diesel::delete(sessions::table.find(id.as_str())).execute(connection)?;
    // The counter stays, so that its numbers are never given again; the list of sessions forgets it.
    diesel::update(session_counters::table.find(id.as_str()))
        .set(session_counters::workspace_id.eq(None::<String>))
        .execute(connection)?;
    Ok(true)
}

/// Deletes the rows of one table up to the `room`-th number, by a range over its key.
macro_rules! sweep_by_seq {
    ($connection:ident, $table:ident, $session:ident, $room:ident) => {{
        let numbers: Vec<i64> = $table::table
            .filter($table::session_id.eq($session.as_str()))
            .select($table::seq)
            .order($table::seq)
            .limit($room.max(0))
            .load($connection)?;
        let Some(last) = numbers.last() else { return Ok(0) };
        let deleted = diesel::delete(
            $table::table.filter($table::session_id.eq($session.as_str())).filter($table::seq.le(*last)),
        )
        .execute($connection)?;
        Ok(i64::try_from(deleted).unwrap_or(i64::MAX))
    }};
}

fn sweep_deltas(c: &mut AnyConnection, session: &SessionId, room: i64) -> Result<i64, StoreError> {
    sweep_by_seq!(c, stream_deltas, session, room)
}

fn sweep_events(c: &mut AnyConnection, session: &SessionId, room: i64) -> Result<i64, StoreError> {
    sweep_by_seq!(c, events, session, room)
}

fn sweep_messages(c: &mut AnyConnection, session: &SessionId, room: i64) -> Result<i64, StoreError> {
    let rows: Vec<(String, i64)> = messages::table
        .inner_join(branches::table.on(branches::id.eq(messages::branch_id)))
        .filter(branches::session_id.eq(session.as_str()))
        .select((messages::branch_id, messages::ordinal))
        .order((messages::branch_id, messages::ordinal))
        .limit(room.max(0))
        .load(c)?;
    let mut removed = 0;
    for (branch, ordinal) in rows {
        let of_message = message_chunks::table
            .filter(message_chunks::branch_id.eq(&branch))
            .filter(message_chunks::message_ordinal.eq(ordinal));
        let chunks: Vec<Vec<u8>> = of_message.select(message_chunks::chunk_id).load(c)?;
        diesel::delete(of_message).execute(c)?;
        diesel::delete(messages::table.find((&branch, ordinal))).execute(c)?;
        // A part that another message has too stays.
        for chunk in &chunks {
            let used: Option<i64> = message_chunks::table
                .filter(message_chunks::chunk_id.eq(chunk))
                .select(message_chunks::ordinal)
                .first(c)
                .optional()?;
            if used.is_none() {
                diesel::delete(content_chunks::table.find(chunk)).execute(c)?;
            }
        }
        removed += 1 + i64::try_from(chunks.len()).unwrap_or(i64::MAX);
        if removed >= room {
            return Ok(room);
        }
    }
    Ok(removed)
}

fn sweep_questions(c: &mut AnyConnection, session: &SessionId, room: i64) -> Result<i64, StoreError> {
    let keys: Vec<String> = questions::table
        .inner_join(branches::table.on(branches::id.eq(questions::branch_id)))
        .filter(branches::session_id.eq(session.as_str()))
        .select(questions::request_id)
        .limit(room.max(0))
        .load(c)?;
    let mut removed = 0;
    for request in keys {
        diesel::delete(questions::table.find(request)).execute(c)?;
        removed += 1;
    }
    Ok(removed)
}

fn sweep_bindings(c: &mut AnyConnection, session: &SessionId, room: i64) -> Result<i64, StoreError> {
    let keys: Vec<(String, String, String)> = tool_call_bindings::table
        .inner_join(branches::table.on(branches::id.eq(tool_call_bindings::branch_id)))
        .filter(branches::session_id.eq(session.as_str()))
        .select((
            tool_call_bindings::branch_id,
            tool_call_bindings::assistant_message_id,
            tool_call_bindings::tool_call_id,
        ))
        .limit(room.max(0))
        .load(c)?;
    let mut removed = 0;
    for (branch, assistant, call) in keys {
        diesel::delete(tool_call_bindings::table.find((branch, assistant, call))).execute(c)?;
        removed += 1;
    }
    Ok(removed)
}

fn sweep_operations(c: &mut AnyConnection, session: &SessionId, room: i64) -> Result<i64, StoreError> {
    let keys: Vec<(String, String, String)> = durable_operations::table
        .filter(durable_operations::session_id.eq(session.as_str()))
        .select((
            durable_operations::workspace_id,
            durable_operations::operation,
            durable_operations::request_id,
        ))
        .limit(room.max(0))
        .load(c)?;
    let mut removed = 0;
    for (workspace, operation, request) in keys {
        diesel::delete(durable_operations::table.find((workspace, operation, request))).execute(c)?;
        removed += 1;
    }
    Ok(removed)
}

fn sweep_branches(c: &mut AnyConnection, session: &SessionId) -> Result<(), StoreError> {
    let ids: Vec<String> =
        branches::table.filter(branches::session_id.eq(session.as_str())).select(branches::id).load(c)?;
    diesel::delete(turns::table.filter(turns::branch_id.eq_any(&ids))).execute(c)?;
    diesel::delete(branch_queue::table.filter(branch_queue::branch_id.eq_any(&ids))).execute(c)?;
    diesel::delete(branch_metrics::table.filter(branch_metrics::branch_id.eq_any(&ids))).execute(c)?;
    diesel::delete(branch_owners::table.filter(branch_owners::branch_id.eq_any(&ids))).execute(c)?;
    diesel::delete(branches::table.filter(branches::session_id.eq(session.as_str()))).execute(c)?;
    Ok(())
}
