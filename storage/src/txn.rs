//! Owns the two kinds of transactions and the one maker of envelopes.
//! Never commits: the writer does, once for a whole group. Never reads a clock.
//! Tested in `storage/tests/it/events.rs` and `storage/tests/it/metrics.rs`.

use std::sync::Arc;

use diesel::dsl::case_when;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use gent_protocol::{AgentEvent, BranchId, EventSeq, Millis, Role, SessionId};

use crate::codec::{column, to_json};
use crate::connection::AnyConnection;
use crate::schema::{events, session_counters, sessions, stream_deltas};
use crate::{Published, StoreError, metrics};

/// What can be read from: both kinds of transactions.
pub trait Reader {
    /// The connection the transaction is open on.
    #[doc(hidden)]
    fn connection(&mut self) -> &mut AnyConnection;
}

/// A read: one consistent snapshot.
pub struct ReadTxn<'c> {
    connection: &'c mut AnyConnection,
}

/// A write: everything in it is stored, or nothing. Its envelopes die with it when it is not committed.
pub struct WriteTxn<'c> {
    connection: &'c mut AnyConnection,
    envelopes: Vec<Published>,
    /// The session that was last found to be open.
    open: Option<SessionId>,
}

impl Reader for ReadTxn<'_> {
    fn connection(&mut self) -> &mut AnyConnection {
        self.connection
    }
}

impl Reader for WriteTxn<'_> {
    fn connection(&mut self) -> &mut AnyConnection {
        self.connection
    }
}

impl<'c> ReadTxn<'c> {
    pub(crate) fn new(connection: &'c mut AnyConnection) -> Self {
        Self { connection }
    }
}

impl<'c> WriteTxn<'c> {
    pub(crate) fn new(connection: &'c mut AnyConnection) -> Self {
        Self { connection, envelopes: Vec::new(), open: None }
    }

    pub(crate) fn into_envelopes(self) -> Vec<Published> {
        self.envelopes
    }

    /// Stores an event under the session's next number and makes its envelope, which is published if this write is
    /// committed. A `StreamChunk` is perishable; `StreamSynchronized` is refused, it is never stored. Keeps the
    /// branch's metrics. Fails with `NotFound` or `Terminated` when the session is gone or going.
    pub fn append(&mut self, event: &AgentEvent, at: Millis) -> Result<EventSeq, StoreError> {
        let perishable = match event {
            AgentEvent::StreamSynchronized { .. } => {
                return Err(StoreError::Conflict {
                    message: "a synchronize marker belongs to one subscription and is never stored"
                        .to_owned(),
                });
            }
            AgentEvent::StreamChunk { .. } => true,
            _ => false,
        };
        let session = event.session_id();
        let seq = self.take_number(session, at, is_change(event))?;
        let json = to_json(event)?;
        if let AgentEvent::StreamChunk { branch_id, message_id, step, run, offset, chunk, .. } = event {
            diesel::insert_into(stream_deltas::table)
                .values((
                    stream_deltas::session_id.eq(session.as_str()),
                    stream_deltas::seq.eq(seq.0),
                    stream_deltas::branch_id.eq(branch_id.as_str()),
                    stream_deltas::message_id.eq(message_id.as_str()),
                    stream_deltas::step.eq(i64::from(*step)),
                    stream_deltas::run.eq(run.as_str()),
                    stream_deltas::byte_offset.eq(column(*offset)),
                    // As JSON: a NUL in the text is no text for PostgreSQL.
                    stream_deltas::text_json.eq(to_json(chunk)?),
                    stream_deltas::created_at.eq(at.0),
                ))
                .execute(self.connection)?;
        } else {
            diesel::insert_into(events::table)
                .values((
                    events::session_id.eq(session.as_str()),
                    events::seq.eq(seq.0),
                    events::branch_id.eq(event.branch_id().map(BranchId::as_str)),
                    events::tag.eq(event.tag()),
                    events::event_json.eq(&json),
                    events::created_at.eq(at.0),
                ))
                .execute(self.connection)?;
            metrics::fold_into_row(self, event, seq)?;
        }
        self.envelopes.push(Published {
            id: seq,
            session_id: session.clone(),
            branch_id: event.branch_id().cloned(),
            tag: event.tag(),
            perishable,
            json: envelope_json(seq, session, event.branch_id(), at, &json)?,
        });
        Ok(seq)
    }

    /// Bumps the session's counter inside this transaction, so that numbers are dense at commit.
    fn take_number(
        &mut self,
        session: &SessionId,
        at: Millis,
        is_change: bool,
    ) -> Result<EventSeq, StoreError> {
        self.check_open(session)?;
        let counter = session_counters::table.find(session.as_str());
        let bumped = session_counters::next_seq.eq(session_counters::next_seq + 1);
        let next: Option<i64> = if is_change {
            let later = case_when(session_counters::updated_at.lt(at.0), at.0.into_sql::<BigInt>())
                .otherwise(session_counters::updated_at);
            diesel::update(counter)
                .set((bumped, session_counters::updated_at.eq(later)))
                .returning(session_counters::next_seq)
                .get_result(self.connection)
                .optional()?
        } else {
            diesel::update(counter)
                .set(bumped)
                .returning(session_counters::next_seq)
                .get_result(self.connection)
                .optional()?
        };
        match next {
            Some(next) => Ok(EventSeq(next - 1)),
            None => Err(StoreError::NotFound { what: "session", id: session.to_string() }),
        }
    }

    /// Refuses a session that is gone or going. Looked up once in a write: nothing in it can change the answer.
    fn check_open(&mut self, session: &SessionId) -> Result<(), StoreError> {
        if self.open.as_ref() == Some(session) {
            return Ok(());
        }
        let found: Option<Option<i64>> = sessions::table
            .find(session.as_str())
            .select(sessions::deleting_at)
            .first(self.connection)
            .optional()?;
        match found {
            Some(None) => {
                self.open = Some(session.clone());
                Ok(())
            }
            Some(Some(_)) => Err(StoreError::Terminated { session: session.clone() }),
            None => Err(StoreError::NotFound { what: "session", id: session.to_string() }),
        }
    }
}

/// Whether an event moves its session to the head of the list: what a user does and what a turn comes to. The steps
/// between would rewrite the list's index several times a second, for an order nobody could see.
fn is_change(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::SessionStarted { .. }
        | AgentEvent::TurnCompleted { .. }
        | AgentEvent::InteractionPresented { .. }
        | AgentEvent::InteractionResolved { .. }
        | AgentEvent::SessionNameUpdated { .. }
        | AgentEvent::SessionSettingsUpdated { .. }
        | AgentEvent::BranchCreated { .. }
        | AgentEvent::BranchSwitched { .. } => true,
        AgentEvent::MessageReceived { message } => message.role == Role::User && !message.is_runtime(),
        AgentEvent::ModelContextProjected { .. }
        | AgentEvent::StreamStarted { .. }
        | AgentEvent::StreamChunk { .. }
        | AgentEvent::ProviderRetrying { .. }
        | AgentEvent::StreamEnded { .. }
        | AgentEvent::ToolCallStarted { .. }
        | AgentEvent::ToolCallSucceeded { .. }
        | AgentEvent::ToolCallFailed { .. }
        | AgentEvent::ErrorOccurred { .. }
        | AgentEvent::ExtensionStateChanged { .. }
        | AgentEvent::StreamSynchronized { .. } => false,
    }
}

/// The whole envelope around an event's JSON, byte for byte what serde makes of an `EventEnvelope`.
pub(crate) fn envelope_json(
    seq: EventSeq,
    session: &SessionId,
    branch: Option<&BranchId>,
    at: Millis,
    event_json: &str,
) -> Result<Arc<str>, StoreError> {
    let session = to_json(session)?;
    let branch = match branch {
        Some(branch) => format!(",\"branchId\":{}", to_json(branch)?),
        None => String::new(),
    };
    Ok(format!("{{\"id\":{seq},\"sessionId\":{session}{branch},\"createdAt\":{at},\"event\":{event_json}}}")
        .into())
}

#[cfg(test)]
mod tests {
    use gent_protocol::EventEnvelope;

    use super::*;

    #[test]
    fn an_envelope_is_byte_for_byte_what_serde_makes_of_it() {
        let session_id = SessionId::parse("s \"1\"").unwrap();
        let from = BranchId::parse("b\\").unwrap();
        for event in [
            AgentEvent::SessionStarted { session_id: session_id.clone(), branch_id: from.clone() },
            AgentEvent::SessionNameUpdated { session_id: session_id.clone(), name: "n".into() },
        ] {
            let branch_id = event.branch_id().cloned();
            let json = envelope_json(
                EventSeq(7),
                &session_id,
                branch_id.as_ref(),
                Millis(12),
                &to_json(&event).unwrap(),
            )
            .unwrap();
            let whole = EventEnvelope {
                id: EventSeq(7),
                session_id: session_id.clone(),
                branch_id,
                created_at: Millis(12),
                event,
                trace_id: None,
            };
            assert_eq!(*json, *serde_json::to_string(&whole).unwrap());
        }
    }
}
