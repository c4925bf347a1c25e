//! Owns the reading of events and deltas by number. Never changes one; `WriteTxn::append` alone makes them.
//! Tested in `storage/tests/it/events.rs` and `storage/tests/it/damage.rs`.

use std::sync::Arc;

use diesel::connection::DefaultLoadingMode;
use diesel::prelude::*;
use gent_protocol::{
    AgentEvent, BranchId, DecodedEvent, EventSeq, MessageId, Millis, SessionId, ToolCallId, decode_event,
};

use crate::codec::{count, id, json, optional_id, to_json};
use crate::messages::message_get;
use crate::schema::{events, session_counters, sessions, stream_deltas};
use crate::txn::envelope_json;
use crate::{Published, Reader, StoreError};

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The events, by number.
    pub items: Vec<Published>,
    /// The cursor after this page: every number up to it was considered. On the last page that is the session's newest
    /// number, which may lie beyond the newest item: deleted deltas leave gaps.
    pub last: EventSeq,
    /// There are more.
    pub more: bool,
}

/// How a tool call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolTerminal {
    /// The call.
    pub call: ToolCallId,
    /// It failed or did not run.
    pub failed: bool,
    /// Its result, lossless.
    pub result_json: Option<String>,
}

/// Reads the events and deltas after a number, in order: those of `branch` and of no branch, or all. At most `limit`
/// and `max_bytes` of JSON, but at least one.
///
/// An unknown tag is skipped with a warning; a known one that does not decode is `Undecodable` and names its number.
/// An unknown session is `NotFound`, one that is being deleted `Terminated`, a cursor beyond the newest number
/// `CursorInvalid`.
pub fn events_after(
    r: &mut impl Reader,
    session: &SessionId,
    branch: Option<&BranchId>,
    after: EventSeq,
    limit: u32,
    max_bytes: usize,
) -> Result<EventPage, StoreError> {
    let newest = counter_read(r, session)?;
    if after > newest {
        return Err(StoreError::CursorInvalid { last: newest });
    }
    if after == newest {
        return Ok(EventPage { items: Vec::new(), last: after, more: false });
    }
    let bounds = Bounds { after, limit, max_bytes };
    let (stored, events_end) = event_rows(r, session, branch, bounds)?;
    let (deltas, deltas_end) = delta_rows(r, session, branch, bounds)?;
    // Beyond the end of the shorter of two cut lists the merge would have holes.
    let end = events_end.into_iter().chain(deltas_end).min();
    let mut rows: Vec<Row> = stored.into_iter().chain(deltas).collect();
    rows.retain(|row| end.is_none_or(|end| row.seq <= end));
    rows.sort_by_key(|row| row.seq);
    let n_rows = rows.len();
    let (rows, cut) = rows_within(rows.into_iter().map(Ok), bounds)?;
    let cut = cut.filter(|_| rows.len() < n_rows).or(end);
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let seq = row.seq;
        match publish_row(session, row) {
            Ok(item) => items.extend(item),
            // What comes before is still delivered; the read that begins here fails and names the number.
            Err(_) if !items.is_empty() => {
                return Ok(EventPage { items, last: EventSeq(seq.0 - 1), more: true });
            }
            Err(error) => return Err(error),
        }
    }
    let last = cut.filter(|cut| *cut < newest);
    Ok(EventPage { items, last: last.unwrap_or(newest), more: last.is_some() })
}

/// The number of a session's newest event; 0 before the first. Unknown: `NotFound`.
pub fn event_last(r: &mut impl Reader, session: &SessionId) -> Result<EventSeq, StoreError> {
    counter_read(r, session)
}

fn counter_read(r: &mut impl Reader, session: &SessionId) -> Result<EventSeq, StoreError> {
    let found: Option<(i64, Option<i64>)> = session_counters::table
        .inner_join(sessions::table.on(sessions::id.eq(session_counters::session_id)))
        .filter(session_counters::session_id.eq(session.as_str()))
        .select((session_counters::next_seq, sessions::deleting_at))
        .first(r.connection())
        .optional()?;
    match found {
        Some((next, None)) => Ok(EventSeq(next - 1)),
        Some((_, Some(_))) => Err(StoreError::Terminated { session: session.clone() }),
        None => Err(StoreError::NotFound { what: "session", id: session.to_string() }),
    }
}

/// How the calls of an assistant message ended, in the order in which they did; calls made by calls are left out.
/// None for a message that the branch does not have.
pub fn tool_terminals(
    r: &mut impl Reader,
    session: &SessionId,
    branch: &BranchId,
    assistant: &MessageId,
) -> Result<Vec<ToolTerminal>, StoreError> {
    let Some(received) = message_get(r, branch, assistant)?.and_then(|stored| stored.event) else {
        return Ok(Vec::new());
    };
    let rows: Vec<(i64, String)> = events::table
        .filter(events::session_id.eq(session.as_str()))
        .filter(events::seq.gt(received.0))
        .filter(events::branch_id.eq(branch.as_str()))
        .filter(events::tag.eq_any(["ToolCallSucceeded", "ToolCallFailed"]))
        .select((events::seq, events::event_json))
        .order(events::seq)
        .load(r.connection())?;
    let mut ended = Vec::new();
    for (seq, text) in rows {
        let event: AgentEvent = json(&text, || format!("event {seq} of session {session}"))?;
        let failed = matches!(event, AgentEvent::ToolCallFailed { .. });
        if let AgentEvent::ToolCallSucceeded {
            tool_call_id,
            result_json,
            parent_tool_call_id: None,
            assistant_message_id: Some(message),
            ..
        }
        | AgentEvent::ToolCallFailed {
            tool_call_id,
            result_json,
            parent_tool_call_id: None,
            assistant_message_id: Some(message),
            ..
        } = event
            && message == *assistant
        {
            ended.push(ToolTerminal { call: tool_call_id, failed, result_json });
        }
    }
    Ok(ended)
}

/// A row of either table on its way to an envelope.
struct Row {
    seq: EventSeq,
    branch: Option<String>,
    at: Millis,
    content: Content,
}

enum Content {
    Event { tag: String, json: String },
    Delta { message: String, step: i64, run: String, offset: i64, text_json: String },
}

impl Row {
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Event { json, .. } => json.len(),
            Content::Delta { text_json, .. } => text_json.len(),
        }
    }
}

/// Which part of the numbers is read.
#[derive(Clone, Copy)]
struct Bounds {
    after: EventSeq,
    limit: u32,
    max_bytes: usize,
}

/// The first rows, and the number of the last of them where there may be more.
type RowsRead = Result<(Vec<Row>, Option<EventSeq>), StoreError>;

fn event_rows(
    r: &mut impl Reader,
    session: &SessionId,
    branch: Option<&BranchId>,
    bounds: Bounds,
) -> RowsRead {
    type Columns = (i64, Option<String>, i64, String, String);
    let mut query = events::table
        .filter(events::session_id.eq(session.as_str()))
        .filter(events::seq.gt(bounds.after.0))
        .select((events::seq, events::branch_id, events::created_at, events::tag, events::event_json))
        .order(events::seq)
        .limit(i64::from(bounds.limit))
        .into_boxed();
    if let Some(branch) = branch {
        query = query.filter(events::branch_id.eq(branch.as_str()).or(events::branch_id.is_null()));
    }
    let rows = query.load_iter::<Columns, DefaultLoadingMode>(r.connection())?;
    let rows = rows.map(|row| {
        let (seq, branch, at, tag, json) = row?;
        Ok(Row { seq: EventSeq(seq), branch, at: Millis(at), content: Content::Event { tag, json } })
    });
    rows_within(rows, bounds)
}

fn delta_rows(
    r: &mut impl Reader,
    session: &SessionId,
    branch: Option<&BranchId>,
    bounds: Bounds,
) -> RowsRead {
    type Columns = (i64, String, i64, String, i64, String, i64, String);
    let mut query = stream_deltas::table
        .filter(stream_deltas::session_id.eq(session.as_str()))
        .filter(stream_deltas::seq.gt(bounds.after.0))
        .select((
            stream_deltas::seq,
            stream_deltas::branch_id,
            stream_deltas::created_at,
            stream_deltas::message_id,
            stream_deltas::step,
            stream_deltas::run,
            stream_deltas::byte_offset,
            stream_deltas::text_json,
        ))
        .order(stream_deltas::seq)
        .limit(i64::from(bounds.limit))
        .into_boxed();
    if let Some(branch) = branch {
        query = query.filter(stream_deltas::branch_id.eq(branch.as_str()));
    }
    let rows = query.load_iter::<Columns, DefaultLoadingMode>(r.connection())?;
    let rows = rows.map(|row| {
        let (seq, branch, at, message, step, run, offset, text_json) = row?;
        let content = Content::Delta { message, step, run, offset, text_json };
        Ok(Row { seq: EventSeq(seq), branch: Some(branch), at: Millis(at), content })
    });
    rows_within(rows, bounds)
}

/// Takes rows while they fit, at least one; a row that does not fit is not read into memory with its successors.
fn rows_within(rows: impl Iterator<Item = Result<Row, StoreError>>, bounds: Bounds) -> RowsRead {
    let mut room = bounds.max_bytes;
    let mut kept: Vec<Row> = Vec::new();
    for row in rows {
        let row = row?;
        if row.bytes() > room && !kept.is_empty() {
            let last = kept.last().map(|row| row.seq);
            return Ok((kept, last));
        }
        room = room.saturating_sub(row.bytes());
        kept.push(row);
        if kept.len() >= bounds.limit as usize {
            let last = kept.last().map(|row| row.seq);
            return Ok((kept, last));
        }
    }
    Ok((kept, None))
}

fn publish_row(session: &SessionId, row: Row) -> Result<Option<Published>, StoreError> {
    let seq = row.seq;
    let place = || format!("event {seq} of session {session}");
    let branch_id: Option<BranchId> = optional_id(row.branch.as_deref(), place)?;
    let (tag, event_json, perishable) = match row.content {
        Content::Event { tag, json } => match decode_event(&json) {
            Ok(DecodedEvent::Known(event)) => (event.tag(), json, false),
            Ok(DecodedEvent::Unknown { .. }) => {
                tracing::warn!(session.id = %session, event.seq = %seq, event.tag = tag, "event.unknown_tag");
                return Ok(None);
            }
            Err(source) => {
                return Err(StoreError::Undecodable { what: place(), source: Arc::new(source) });
            }
        },
        Content::Delta { message, step, run, offset, text_json } => {
            let event = AgentEvent::StreamChunk {
                session_id: session.clone(),
                branch_id: id(row.branch.as_deref().unwrap_or_default(), place)?,
                message_id: id(&message, place)?,
                step: count(step, place)?,
                run: id(&run, place)?,
                offset: count(offset, place)?,
                chunk: json(&text_json, place)?,
            };
            (event.tag(), to_json(&event)?, true)
        }
    };
    Ok(Some(Published {
        id: seq,
        session_id: session.clone(),
        json: envelope_json(seq, session, branch_id.as_ref(), row.at, &event_json)?,
        branch_id,
        tag,
        perishable,
    }))
}
