//! Owns messages, their place in the branch, and their content, of which equal parts are stored once.
//! Never orders by time: the place is given by the inserting write.
//! Tested in `storage/tests/it/messages.rs`.

use std::collections::HashMap;

use diesel::prelude::*;
use gent_protocol::{
    AgentEvent, BranchId, EventSeq, Message, MessageId, Millis, Ordinal, Page, Part, WorkspaceId,
};
use sha2::{Digest, Sha256};

use crate::codec::{column, cursor_number, id, json, to_json, to_word, word};
use crate::connection::each;
use crate::schema::{content_chunks, message_chunks, messages, sessions};
use crate::{Reader, StoreError, WriteTxn};

/// A message and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    /// Its place in the branch.
    pub ordinal: Ordinal,
    /// The number of its `MessageReceived`; none for a copied one.
    pub event: Option<EventSeq>,
    /// The message.
    pub message: Message,
}

/// The outcome of `message_insert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInserted {
    /// Its place in the branch.
    pub ordinal: Ordinal,
    /// The number of its `MessageReceived`; 0 for a copied one, which has none.
    pub event: EventSeq,
    /// The branch had this id already; nothing was written, and the content was not compared.
    pub existed: bool,
}

/// Stores a message at the end of its branch, with its content and its `MessageReceived` at the message's time.
pub fn message_insert(txn: &mut WriteTxn<'_>, message: &Message) -> Result<MessageInserted, StoreError> {
    let branch = message.branch_id.as_str();
    let known: Option<(i64, Option<i64>)> = messages::table
        .filter(messages::branch_id.eq(branch))
        .filter(messages::id.eq(message.id.as_str()))
        .select((messages::ordinal, messages::event_seq))
        .first(txn.connection())
        .optional()?;
    if let Some((ordinal, event)) = known {
        let event = EventSeq(event.unwrap_or_default());
        return Ok(MessageInserted { ordinal: Ordinal(ordinal), event, existed: true });
    }
    // The event first: it also refuses a session that is gone.
    let event = txn.append(&AgentEvent::MessageReceived { message: message.clone() }, message.created_at)?;
    let newest: Option<i64> = messages::table
        .filter(messages::branch_id.eq(branch))
        .select(messages::ordinal)
        .order(messages::ordinal.desc())
        .first(txn.connection())
        .optional()?;
    let ordinal = newest.unwrap_or_default() + 1;
    let parts = message.parts.iter().map(to_json).collect::<Result<Vec<String>, StoreError>>()?;
    let bytes: usize = parts.iter().map(String::len).sum();
    diesel::insert_into(messages::table)
        .values((
            messages::branch_id.eq(branch),
            messages::ordinal.eq(ordinal),
            messages::id.eq(message.id.as_str()),
            messages::session_id.eq(message.session_id.as_str()),
            messages::kind.eq(to_word(&message.kind)?),
            messages::role.eq(to_word(&message.role)?),
            messages::created_at.eq(message.created_at.0),
            messages::turn_duration_ms.eq(message.turn_duration_ms.map(|duration| duration.0)),
            messages::metadata_json.eq(message.metadata.as_ref().map(to_json).transpose()?),
            messages::event_seq.eq(Some(event.0)),
            messages::bytes.eq(column(bytes as u64)),
        ))
        .execute(txn.connection())?;
    for (place, part) in (0_i64..).zip(&parts) {
        let chunk = Sha256::digest(part.as_bytes()).to_vec();
        each!(txn.connection(), c => diesel::insert_into(content_chunks::table)
            .values((content_chunks::id.eq(&chunk), content_chunks::part_json.eq(part)))
            .on_conflict_do_nothing()
            .execute(c))?;
        diesel::insert_into(message_chunks::table)
            .values((
                message_chunks::branch_id.eq(branch),
                message_chunks::message_ordinal.eq(ordinal),
                message_chunks::ordinal.eq(place),
                message_chunks::chunk_id.eq(&chunk),
            ))
            .execute(txn.connection())?;
    }
    Ok(MessageInserted { ordinal: Ordinal(ordinal), event, existed: false })
}

/// Reads one message of a branch.
pub fn message_get(
    r: &mut impl Reader,
    branch: &BranchId,
    id: &MessageId,
) -> Result<Option<StoredMessage>, StoreError> {
    let found: Option<MessageColumns> = messages::table
        .filter(messages::branch_id.eq(branch.as_str()))
        .filter(messages::id.eq(id.as_str()))
        .select(messages::all_columns)
        .first(r.connection())
        .optional()?;
    let Some(columns) = found else { return Ok(None) };
    let mut parts = parts_load(r, branch, columns.ordinal, columns.ordinal)?;
    columns.into_message(branch, &mut parts).map(Some)
}

/// Reads the newest messages before a place (the newest of all without one), oldest first: at most `limit`, and as
/// many as fit `max_bytes` of content, but at least one.
pub fn messages_before(
    r: &mut impl Reader,
    branch: &BranchId,
    before: Option<Ordinal>,
    limit: u32,
    max_bytes: usize,
) -> Result<Vec<StoredMessage>, StoreError> {
    let rows: Vec<MessageColumns> = messages::table
        .filter(messages::branch_id.eq(branch.as_str()))
        .filter(messages::ordinal.lt(before.map_or(i64::MAX, |before| before.0)))
        .select(messages::all_columns)
        .order(messages::ordinal.desc())
        .limit(i64::from(limit))
        .load(r.connection())?;
    let mut kept = within(rows, max_bytes);
    kept.reverse();
    messages_decode(r, branch, kept)
}

/// Lists a branch's messages in order. A branch that is not of the workspace, or is being deleted, has none; a
/// message that does not decode hides itself, with a warning.
pub fn message_list(
    r: &mut impl Reader,
    workspace: &WorkspaceId,
    branch: &BranchId,
    limit: u32,
    cursor: Option<&str>,
) -> Result<Page<Message>, StoreError> {
    let after = cursor.map_or(Ok(0), |cursor| cursor_number(cursor, "messages"))?;
    let mut rows: Vec<MessageColumns> = messages::table
        .inner_join(sessions::table.on(sessions::id.eq(messages::session_id)))
        .filter(messages::branch_id.eq(branch.as_str()))
        .filter(messages::ordinal.gt(after))
        .filter(sessions::workspace_id.eq(workspace.as_str()))
        .filter(sessions::deleting_at.is_null())
        .select(messages::all_columns)
        .order(messages::ordinal)
        .limit(i64::from(limit) + 1)
        .load(r.connection())?;
    let loaded = rows.len();
    rows.truncate(limit as usize);
    let rows = within(rows, LIST_BYTES);
    let next = rows.last().filter(|_| rows.len() < loaded).map(|row| row.ordinal.to_string());
    let items = messages_decode(r, branch, rows)?.into_iter().map(|stored| stored.message).collect();
    Ok(Page { items, next })
}

/// Content of one page of `message_list`: the page of a snapshot (contract, "Wire").
const LIST_BYTES: usize = 8 << 20;

/// Marks the turn that a message opened as ended; false when it had ended or there is no such message.
pub fn message_settle(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    id: &MessageId,
    duration: Millis,
) -> Result<bool, StoreError> {
    let open = messages::table
        .filter(messages::branch_id.eq(branch.as_str()))
        .filter(messages::id.eq(id.as_str()))
        .filter(messages::turn_duration_ms.is_null());
    let settled = diesel::update(open)
        .set(messages::turn_duration_ms.eq(Some(duration.0)))
        .execute(txn.connection())?;
    Ok(settled > 0)
}

/// True when the branch has a message.
pub fn branch_has_history(r: &mut impl Reader, branch: &BranchId) -> Result<bool, StoreError> {
    let any: Option<i64> = messages::table
        .filter(messages::branch_id.eq(branch.as_str()))
        .select(messages::ordinal)
        .first(r.connection())
        .optional()?;
    Ok(any.is_some())
}

#[derive(Queryable)]
struct MessageColumns {
    _branch_id: String,
    ordinal: i64,
    id: String,
    session_id: String,
    kind: String,
    role: String,
    created_at: i64,
    turn_duration_ms: Option<i64>,
    metadata_json: Option<String>,
    event_seq: Option<i64>,
    bytes: i64,
}

type PartsByOrdinal = HashMap<i64, Vec<String>>;

impl MessageColumns {
    fn into_message(
        self,
        branch: &BranchId,
        parts: &mut PartsByOrdinal,
    ) -> Result<StoredMessage, StoreError> {
        let place = || format!("message {} of branch {branch}", self.id);
        let parts = parts
            .remove(&self.ordinal)
            .unwrap_or_default()
            .iter()
            .map(|text| json::<Part>(text, place))
            .collect::<Result<Vec<Part>, StoreError>>()?;
        Ok(StoredMessage {
            ordinal: Ordinal(self.ordinal),
            event: self.event_seq.map(EventSeq),
            message: Message {
                kind: word(&self.kind, place)?,
                id: id(&self.id, place)?,
                session_id: id(&self.session_id, place)?,
                branch_id: branch.clone(),
                role: word(&self.role, place)?,
                parts,
                created_at: Millis(self.created_at),
                turn_duration_ms: self.turn_duration_ms.map(Millis),
                metadata: self.metadata_json.as_deref().map(|text| json(text, place)).transpose()?,
            },
        })
    }
}

/// The first rows whose content fits, at least one.
fn within(rows: Vec<MessageColumns>, max_bytes: usize) -> Vec<MessageColumns> {
    let mut room = column(max_bytes as u64);
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows {
        room = room.saturating_sub(row.bytes);
        if room < 0 && !kept.is_empty() {
            break;
        }
        kept.push(row);
    }
    kept
}

/// Decodes neighbouring rows, which are in order; one that does not decode hides itself.
fn messages_decode(
    r: &mut impl Reader,
    branch: &BranchId,
    rows: Vec<MessageColumns>,
) -> Result<Vec<StoredMessage>, StoreError> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(Vec::new()) };
    let mut parts = parts_load(r, branch, first.ordinal, last.ordinal)?;
    Ok(rows
        .into_iter()
        .filter_map(|row| match row.into_message(branch, &mut parts) {
            Ok(message) => Some(message),
            Err(error) => {
                tracing::warn!(%error, "message.undecodable");
                None
            }
        })
        .collect())
}

fn parts_load(
    r: &mut impl Reader,
    branch: &BranchId,
    first: i64,
    last: i64,
) -> Result<PartsByOrdinal, StoreError> {
    let rows: Vec<(i64, String)> = message_chunks::table
        .inner_join(content_chunks::table.on(content_chunks::id.eq(message_chunks::chunk_id)))
        .filter(message_chunks::branch_id.eq(branch.as_str()))
        .filter(message_chunks::message_ordinal.between(first, last))
        .select((message_chunks::message_ordinal, content_chunks::part_json))
        .order((message_chunks::message_ordinal, message_chunks::ordinal))
        .load(r.connection())?;
    let mut parts = PartsByOrdinal::new();
    for (ordinal, part) in rows {
        parts.entry(ordinal).or_default().push(part);
    }
    Ok(parts)
}
