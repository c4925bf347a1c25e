//! Owns what tests put into a database while no server runs: states that a healthy server never makes.
//! Uses the store's own writes, so that only the wanted fact is unusual.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use gent_e2e::harness::Place;
use gent_protocol::{
    AgentEvent, BranchId, EventEnvelope, EventSeq, Message, MessageId, MessageKind, Millis, Part, Role,
    SessionId, StoreIncarnation, ToolCallId,
};
use gent_storage::{
    Location, Mode, Published, Publisher, Store, StoreConfig, StoreError, Synchronous, WriteTxn,
    events_after, inspect, message_insert, messages_before, session_find, turns_unfinished,
};

struct Nobody;

impl Publisher for Nobody {
    fn publish(&self, _envelopes: Vec<Published>) {}
    fn lost_track(&self) {}
}

fn write<T: Send + 'static>(
    place: &Place,
    write: impl Fn(&mut WriteTxn<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T> {
    let store = Store::open(
        StoreConfig {
            location: Location::Sqlite(place.data().join("data.db")),
            synchronous: Synchronous::Normal,
            readers: 1,
            mode: Mode::Threaded,
            new_incarnation: StoreIncarnation::parse("offline")?,
            boot_id: None,
            backups: None,
            now: Millis(1),
        },
        Arc::new(Nobody),
    )?;
    let written = store.write_blocking("test.offline", write);
    store.close();
    Ok(written?)
}

/// Every event of a session that the store holds, in order; perishable text went with its turns.
pub(crate) fn stored_events(place: &Place, session: &SessionId) -> Result<Vec<EventEnvelope>> {
    let session = session.clone();
    let stored = write(place, move |txn| {
        let (mut items, mut after) = (Vec::new(), EventSeq(0));
        loop {
            let page = events_after(txn, &session, None, after, 100, 1 << 20)?;
            items.extend(page.items);
            after = page.last;
            if !page.more {
                return Ok(items);
            }
        }
    })?;
    stored.iter().map(|item| Ok(serde_json::from_str(&item.json)?)).collect()
}

/// How many rows of a session are left: its own and those of its messages. A server may run beside. Its events go
/// before them, and none can be left without it: `dangling` of the inspection would name them.
pub(crate) fn rows_left(place: &Place, session: &SessionId, branch: &BranchId) -> Result<usize> {
    let (of, branch) = (session.clone(), branch.clone());
    write(place, move |txn| {
        let messages = messages_before(txn, &branch, None, 1000, 1 << 30)?.len();
        Ok(messages + usize::from(session_find(txn, &of)?.is_some()))
    })
}

/// Rows that point nowhere.
pub(crate) fn dangling_rows(place: &Place) -> Result<Vec<String>> {
    Ok(inspect(&Location::Sqlite(place.data().join("data.db")))?.dangling)
}

/// Appends an event of another branch and returns its number.
pub(crate) async fn append_to_another_branch(place: &Place, session: &SessionId) -> Result<EventSeq> {
    let event = AgentEvent::BranchCreated {
        session_id: session.clone(),
        branch_id: BranchId::parse("another-branch")?,
        parent_branch_id: None,
        parent_message_id: None,
    };
    write(place, move |txn| txn.append(&event, Millis(1)))
}

/// Tries to store a synchronize marker and returns the refusal.
pub(crate) async fn append_marker(place: &Place, session: &SessionId) -> Result<String> {
    let event = AgentEvent::StreamSynchronized {
        session_id: session.clone(),
        branch_id: None,
        last_event_id: EventSeq(1),
        store: StoreIncarnation::parse("offline")?,
    };
    let refused = write(place, move |txn| txn.append(&event, Millis(1)));
    Ok(refused.err().context("the marker was stored")?.to_string())
}

/// Stores a prompt that no turn was ever made of.
pub(crate) async fn insert_user_message(
    place: &Place,
    session: &SessionId,
    branch: &BranchId,
    id: &str,
) -> Result<()> {
    let message = Message {
        kind: MessageKind::Regular,
        id: MessageId::parse(id)?,
        session_id: session.clone(),
        branch_id: branch.clone(),
        role: Role::User,
        parts: vec![Part::text("nobody runs this")],
        created_at: Millis(1),
        turn_duration_ms: None,
        metadata: None,
    };
    write(place, move |txn| message_insert(txn, &message).map(|_| ()))
}

/// Stores an end of `call`, of the first step of the one unfinished turn, whose result does not decode.
pub(crate) async fn append_corrupt_result(place: &Place, call: &str) -> Result<()> {
    let call = ToolCallId::parse(call)?;
    let found = write(place, move |txn| {
        let Some(turn) = turns_unfinished(txn)?.into_iter().next() else { return Ok(None) };
        let event = AgentEvent::ToolCallSucceeded {
            session_id: turn.row.session_id.clone(),
            branch_id: turn.row.branch_id.clone(),
            tool_call_id: call.clone(),
            tool_name: "bash".into(),
            summary: None,
            output: None,
            result_json: Some("{\"stdout\": ".into()),
            parent_tool_call_id: None,
            assistant_message_id: Some(gent_protocol::assistant_message_id(&turn.row.message_id, 1)),
        };
        txn.append(&event, Millis(1)).map(Some)
    });
    found?.map(|_| ()).context("no turn is unfinished")
}
