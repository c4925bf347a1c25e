//! Owns the one read behind a snapshot: everything in it is of the same instant.
//! Never reads more than its page, whatever the length of the history.
//! Tested in `storage/tests/it/messages.rs`.

use gent_protocol::{Branch, BranchId, EventSeq, Ordinal, SessionId, StreamingText, WorkspaceId};

use crate::branches::branch_get;
use crate::codec::cursor_number;
use crate::deltas::streaming_text;
use crate::events::event_last;
use crate::messages::messages_before;
use crate::metrics::metrics_get;
use crate::questions::question_shown;
use crate::queue::queue_items;
use crate::sessions::session_get;
use crate::turns::turn_get;
use crate::{BranchMetrics, QuestionRow, QueueItem, Reader, SessionRow, StoreError, StoredMessage, TurnRow};

/// The rows of a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotRows {
    /// The session.
    pub session: SessionRow,
    /// The branch.
    pub branch: Branch,
    /// The page of messages, oldest first.
    pub messages: Vec<StoredMessage>,
    /// Older messages exist.
    pub truncated: bool,
    /// The cursor for them.
    pub before: Option<String>,
    /// The session's newest event.
    pub last_event: EventSeq,
    /// The branch's totals.
    pub metrics: BranchMetrics,
    /// The text that streams.
    pub streaming: Option<StreamingText>,
    /// The unfinished turn.
    pub turn: Option<TurnRow>,
    /// What waits.
    pub queue: Vec<QueueItem>,
    /// The question that a person may answer.
    pub question: Option<QuestionRow>,
}

/// Reads a snapshot whose page ends at the newest message, or before the cursor `before`. A session or branch that is
/// not there, not of the workspace or being deleted is `NotFound`.
pub fn snapshot_read(
    r: &mut impl Reader,
    workspace: &WorkspaceId,
    session: &SessionId,
    branch: &BranchId,
    before: Option<&str>,
    limit: u32,
    max_bytes: usize,
) -> Result<SnapshotRows, StoreError> {
    let Some(session_row) = session_get(r, workspace, session)? else {
        return Err(StoreError::NotFound { what: "session", id: session.to_string() });
    };
    let Some(branch_row) = branch_get(r, workspace, session, branch)? else {
        return Err(StoreError::NotFound { what: "branch", id: branch.to_string() });
    };
    let place = before.map(|cursor| cursor_number(cursor, "messages")).transpose()?.map(Ordinal);
    let messages = messages_before(r, branch, place, limit, max_bytes)?;
    let oldest = messages.first().map(|message| message.ordinal).filter(|oldest| oldest.0 > 1);
    Ok(SnapshotRows {
        truncated: oldest.is_some(),
        before: oldest.map(|oldest| oldest.to_string()),
        messages,
        last_event: event_last(r, session)?,
        metrics: metrics_get(r, branch)?,
        streaming: streaming_text(r, branch)?,
        turn: turn_get(r, branch)?,
        queue: queue_items(r, branch)?,
        question: question_shown(r, branch)?,
        session: session_row,
        branch: branch_row,
    })
}
