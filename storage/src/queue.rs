//! Owns the rows of waiting messages, one each, in the order in which they came.
//! Never rewrites a row that it does not understand. Never bounds the queue: admission does.
//! Tested in `storage/tests/it/rows.rs` and `storage/tests/it/damage.rs`.

use diesel::prelude::*;
use gent_protocol::{Approval, BranchId, Message, MessageId, Millis, SessionId};
use serde::{Deserialize, Serialize};

use crate::codec::{id, json, to_json, to_word, word};
use crate::schema::branch_queue;
use crate::{Reader, StoreError, WriteTxn};

/// How a waiting message is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// At the next step boundary of the running turn.
    Steering,
    /// As a turn of its own.
    FollowUp,
}

impl QueueKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Steering => "steering",
            Self::FollowUp => "follow-up",
        }
    }
}

/// The branch whose turn queued a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSender {
    /// Its session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
}

/// A waiting message.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueItem {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The message.
    pub message: Message,
    /// How it is delivered.
    pub kind: QueueKind,
    /// It wakes an idle branch.
    pub wake: bool,
    /// For its turn alone.
    pub approval: Option<Approval>,
    /// When it was queued.
    pub queued_at: Millis,
    /// Who queued it, where that was a turn and not a client.
    pub sender: Option<QueueSender>,
}

/// Appends an item; one of the same message is replaced in its place.
pub fn queue_append(txn: &mut WriteTxn<'_>, item: &QueueItem) -> Result<(), StoreError> {
    let branch = item.branch_id.as_str();
    let columns = (
        branch_queue::session_id.eq(item.session_id.as_str()),
        branch_queue::kind.eq(item.kind.as_str()),
        branch_queue::wake.eq(item.wake),
        branch_queue::approval.eq(item.approval.as_ref().map(to_word).transpose()?),
        branch_queue::message_json.eq(to_json(&item.message)?),
        branch_queue::queued_at.eq(item.queued_at.0),
        branch_queue::sender_json.eq(item.sender.as_ref().map(to_json).transpose()?),
    );
    let same = branch_queue::table
        .filter(branch_queue::branch_id.eq(branch))
        .filter(branch_queue::message_id.eq(item.message.id.as_str()));
    let known: Option<i64> = same.select(branch_queue::ordinal).first(txn.connection()).optional()?;
    if let Some(ordinal) = known {
        diesel::update(branch_queue::table.find((branch, ordinal))).set(columns).execute(txn.connection())?;
        return Ok(());
    }
    let newest: Option<i64> = branch_queue::table
        .filter(branch_queue::branch_id.eq(branch))
        .select(branch_queue::ordinal)
        .order(branch_queue::ordinal.desc())
        .first(txn.connection())
        .optional()?;
    diesel::insert_into(branch_queue::table)
        .values((
            branch_queue::branch_id.eq(branch),
            branch_queue::ordinal.eq(newest.unwrap_or_default() + 1),
            branch_queue::message_id.eq(item.message.id.as_str()),
            columns,
        ))
        .execute(txn.connection())?;
    Ok(())
}

/// A branch's items in order. A row that does not decode is skipped with a warning and left as it is.
pub fn queue_items(r: &mut impl Reader, branch: &BranchId) -> Result<Vec<QueueItem>, StoreError> {
    Ok(numbered_items(r, branch)?.into_iter().map(|(_, item)| item).collect())
}

/// Removes all items of a branch and returns them in order. A row that does not decode stays, with a warning: nobody
/// could be handed it.
pub fn queue_clear(txn: &mut WriteTxn<'_>, branch: &BranchId) -> Result<Vec<QueueItem>, StoreError> {
    let found = numbered_items(txn, branch)?;
    let mut removed = Vec::with_capacity(found.len());
    for (ordinal, item) in found {
        diesel::delete(branch_queue::table.find((branch.as_str(), ordinal))).execute(txn.connection())?;
        removed.push(item);
    }
    Ok(removed)
}

/// The items that decode, each with its place.
fn numbered_items(r: &mut impl Reader, branch: &BranchId) -> Result<Vec<(i64, QueueItem)>, StoreError> {
    let rows: Vec<QueueColumns> = branch_queue::table
        .filter(branch_queue::branch_id.eq(branch.as_str()))
        .order(branch_queue::ordinal)
        .load(r.connection())?;
    Ok(rows
        .into_iter()
        .filter_map(|row| {
            let ordinal = row.ordinal;
            match row.into_item(branch) {
                Ok(item) => Some((ordinal, item)),
                Err(error) => {
                    tracing::warn!(%error, "queue.undecodable");
                    None
                }
            }
        })
        .collect())
}

/// Removes an item; false when there was none.
pub fn queue_remove(
    txn: &mut WriteTxn<'_>,
    branch: &BranchId,
    message: &MessageId,
) -> Result<bool, StoreError> {
    let item = branch_queue::table
        .filter(branch_queue::branch_id.eq(branch.as_str()))
        .filter(branch_queue::message_id.eq(message.as_str()));
    Ok(diesel::delete(item).execute(txn.connection())? > 0)
}

#[derive(Queryable)]
struct QueueColumns {
    _branch_id: String,
    ordinal: i64,
    session_id: String,
    _message_id: String,
    kind: String,
    wake: bool,
    approval: Option<String>,
    message_json: String,
    queued_at: i64,
    sender_json: Option<String>,
}

impl QueueColumns {
    fn into_item(self, branch: &BranchId) -> Result<QueueItem, StoreError> {
        let place = || format!("item {} of the queue of branch {branch}", self.ordinal);
        let kind = match self.kind.as_str() {
            "steering" => QueueKind::Steering,
            "follow-up" => QueueKind::FollowUp,
            other => {
                return Err(StoreError::Conflict { message: format!("{} is of kind {other:?}", place()) });
            }
        };
        Ok(QueueItem {
            session_id: id(&self.session_id, place)?,
            branch_id: branch.clone(),
            message: json(&self.message_json, place)?,
            kind,
            wake: self.wake,
            approval: self.approval.as_deref().map(|text| word(text, place)).transpose()?,
            queued_at: Millis(self.queued_at),
            sender: self.sender_json.as_deref().map(|text| json(text, place)).transpose()?,
        })
    }
}
