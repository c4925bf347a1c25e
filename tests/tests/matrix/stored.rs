//! Owns what a killed server left in its database. Reads a copy, so that looking changes nothing for the next start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use gent_e2e::harness::Place;
use gent_protocol::{
    AgentEvent, BranchId, EventEnvelope, EventSeq, MessageId, Millis, SessionId, StoreIncarnation,
    ToolOutcome, WorkspaceId,
};
use gent_storage::{
    Location, Mode, Published, Publisher, QuestionRow, QueueItem, Store, StoreConfig, StoreError,
    StoredMessage, Synchronous, TurnRow, WriteTxn, branch_take, events_after, messages_before, operation_get,
    question_get, queue_items, session_find, turn_get,
};

/// The database's file in its directory.
const FILE: &str = "data.db";

struct Nobody;

impl Publisher for Nobody {
    fn publish(&self, _envelopes: Vec<Published>) {}
    fn lost_track(&self) {}
}

/// Whose rows are read.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) workspace: WorkspaceId,
    pub(crate) session: SessionId,
    pub(crate) branch: BranchId,
    /// The message whose stop is looked for.
    pub(crate) stopped: MessageId,
}

/// What is there; nothing when the session is not.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) has_session: bool,
    pub(crate) events: Vec<EventEnvelope>,
    pub(crate) messages: Vec<StoredMessage>,
    pub(crate) queue: Vec<QueueItem>,
    pub(crate) turn: Option<TurnRow>,
    pub(crate) question: Option<QuestionRow>,
    pub(crate) has_stop: bool,
    pub(crate) epoch: i64,
}

/// Copies the database of a place whose server is gone, and says where the copy is.
pub(crate) fn copy(place: &Place, name: &str) -> Result<PathBuf> {
    let to = place.root().join(name);
    std::fs::create_dir_all(&to)?;
    for suffix in ["", "-wal"] {
        let file = format!("{FILE}{suffix}");
        let from = place.data().join(&file);
        if from.exists() {
            std::fs::copy(from, to.join(&file))?;
        }
    }
    Ok(to)
}

/// Reads a copy.
pub(crate) fn read(copy: &Path, keys: &Keys) -> Result<Stored> {
    let store = Store::open(
        StoreConfig {
            location: Location::Sqlite(copy.join(FILE)),
            synchronous: Synchronous::Normal,
            readers: 1,
            mode: Mode::Threaded,
            new_incarnation: StoreIncarnation::parse("copy")?,
            boot_id: None,
            backups: None,
            now: Millis(1),
        },
        Arc::new(Nobody),
    )?;
    let keys = keys.clone();
    let read = store.write_blocking("test.read", move |txn| {
        let Some(mut stored) = rows(txn, &keys)? else { return Ok((Stored::default(), Vec::new())) };
        let events = events(txn, &keys.session)?;
        let asked = events.iter().find_map(|json| match serde_json::from_str(json) {
            Ok(EventEnvelope { event: AgentEvent::InteractionPresented { request_id, .. }, .. }) => {
                Some(request_id)
            }
            _ => None,
        });
        if let Some(asked) = asked {
            stored.question = question_get(txn, &asked)?;
        }
        Ok((stored, events))
    });
    store.close();
    let (mut stored, events) = read?;
    stored.events = events.iter().map(|json| serde_json::from_str(json)).collect::<Result<_, _>>()?;
    Ok(stored)
}

fn rows(txn: &mut WriteTxn<'_>, keys: &Keys) -> Result<Option<Stored>, StoreError> {
    if session_find(txn, &keys.session)?.is_none() {
        return Ok(None);
    }
    let stop = format!("{}:{}", keys.branch, keys.stopped);
    Ok(Some(Stored {
        has_session: true,
        messages: messages_before(txn, &keys.branch, None, 1000, 1 << 30)?,
        queue: queue_items(txn, &keys.branch)?,
        turn: turn_get(txn, &keys.branch)?,
        has_stop: operation_get(txn, &keys.workspace, "turn.cancel", &stop)?.is_some(),
        // It is a copy: taking the next one says which was the last.
        epoch: branch_take(txn, &keys.session, &keys.branch, "copy")? - 1,
        ..Stored::default()
    }))
}

fn events(txn: &mut WriteTxn<'_>, session: &SessionId) -> Result<Vec<String>, StoreError> {
    let (mut found, mut after) = (Vec::new(), EventSeq(0));
    loop {
        let page = events_after(txn, session, None, after, 1000, 1 << 24)?;
        found.extend(page.items.iter().map(|item| item.json.to_string()));
        after = page.last;
        if !page.more {
            return Ok(found);
        }
    }
}

impl Stored {
    /// The events that are stored for good: all but text.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = &EventEnvelope> {
        self.events.iter().filter(|envelope| !matches!(envelope.event, AgentEvent::StreamChunk { .. }))
    }

    /// How often the message is in the transcript or waits.
    pub(crate) fn count(&self, message: &MessageId) -> usize {
        self.messages.iter().filter(|stored| stored.message.id == *message).count()
            + self.queue.iter().filter(|item| item.message.id == *message).count()
    }

    /// The events that end a call: its number, its result, whether it failed.
    pub(crate) fn ends(&self, call: &str) -> Vec<(EventSeq, String, bool)> {
        let ends = self.events.iter().filter_map(|envelope| match &envelope.event {
            AgentEvent::ToolCallSucceeded { tool_call_id, result_json, .. }
                if tool_call_id.as_str() == call =>
            {
                Some((envelope.id, result_json.clone().unwrap_or_default(), false))
            }
            AgentEvent::ToolCallFailed { tool_call_id, result_json, .. } if tool_call_id.as_str() == call => {
                Some((envelope.id, result_json.clone().unwrap_or_default(), true))
            }
            _ => None,
        });
        ends.collect()
    }

    /// The results of a call in the transcript.
    pub(crate) fn results(&self, call: &str) -> Vec<&ToolOutcome> {
        let parts = self.messages.iter().flat_map(|stored| &stored.message.parts);
        let results = parts.filter_map(|part| match part {
            gent_protocol::Part::ToolResult(outcome) if outcome.id.as_str() == call => Some(outcome),
            _ => None,
        });
        results.collect()
    }

    /// The call is in the transcript.
    pub(crate) fn has_call(&self, call: &str) -> bool {
        let calls = self.messages.iter().flat_map(|stored| stored.message.tool_calls());
        calls.into_iter().any(|found| found.id.as_str() == call)
    }
}
