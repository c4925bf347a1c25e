//! Owns a subscription: a cursor over one session's events that replays, says when it has caught up, and goes on.
//! Never holds more than one batch: a slow reader costs a cursor. Tested end to end (B1–B5, B10).

use gent_protocol::{
    AgentEvent, BranchId, EventEnvelope, EventSeq, SessionEvents, SessionId, StoreIncarnation, WorkspaceId,
};
use gent_storage::{Published, StoreError, event_last, events_after, session_get};

use crate::env::Env;
use crate::error::EngineError;
use crate::hub::{Follower, FromRing, Hub};
use crate::limits::{BATCH_BYTES, BATCH_ITEMS};
use crate::store::StoreHandle;

/// A subscription. Dropping it ends it.
pub struct EventStream {
    store: StoreHandle,
    env: Env,
    follower: Follower,
    session: SessionId,
    branch: Option<BranchId>,
    cursor: EventSeq,
    phase: Phase,
    /// The store had nothing more after the cursor when it was last read.
    has_read_all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Reading what was there.
    Replay,
    /// Following what comes.
    Live,
    /// The session is gone.
    Ended,
}

impl EventStream {
    /// Opens a subscription; fails when the session is not of this workspace or the cursor not of this store.
    pub(crate) async fn open(
        store: StoreHandle,
        hub: &Hub,
        env: Env,
        workspace: &WorkspaceId,
        ask: SessionEvents,
    ) -> Result<Self, EngineError> {
        let follower = hub.follow(&ask.session_id);
        let (workspace, session) = (workspace.clone(), ask.session_id.clone());
        let last = store
            .read("session.events", move |txn| {
                Ok(match session_get(txn, &workspace, &session)? {
                    Some(_) => Some(event_last(txn, &session)?),
                    None => None,
                })
            })
            .await
            .map_err(unreadable)?;
        let Some(last) = last else {
            return Err(EngineError::EventStore {
                message: format!("no such session: {}", ask.session_id),
                source: None,
            });
        };
        let is_foreign = ask.store.as_ref().is_some_and(|of: &StoreIncarnation| of != store.incarnation());
        let cursor = ask.after.unwrap_or_default();
        if is_foreign || cursor > last || cursor < EventSeq(0) {
            return Err(EngineError::CursorInvalid { last });
        }
        Ok(Self {
            store,
            env,
            follower,
            session: ask.session_id,
            branch: ask.branch_id,
            cursor,
            phase: Phase::Replay,
            has_read_all: false,
        })
    }

    /// The next batch, never empty, at most 64 items or 256 KiB; waits for one. `None` when the session is gone.
    /// Dropping the future loses nothing.
    pub async fn next_batch(&mut self) -> Result<Option<Vec<Published>>, EngineError> {
        loop {
            self.ready().await;
            match self.take().await? {
                Some(batch) if batch.is_empty() => {}
                batch => return Ok(batch),
            }
        }
    }

    /// Waits until there may be something to [`take`](Self::take), or the session is gone. Holds nothing meanwhile.
    pub async fn ready(&mut self) {
        while self.phase == Phase::Live {
            let limit = 1;
            let is_there = match self.follower.take(self.cursor, limit, BATCH_BYTES) {
                FromRing::Envelopes(envelopes) => !envelopes.is_empty(),
                FromRing::Store => !self.has_read_all,
            };
            if is_there {
                return;
            }
            if !self.follower.wait().await {
                self.phase = Phase::Ended;
            }
            self.has_read_all = false;
        }
    }

    /// Takes the next batch without waiting for news: empty when there is none. `None` when the session is gone.
    pub async fn take(&mut self) -> Result<Option<Vec<Published>>, EngineError> {
        if !self.follower.hear() {
            self.phase = Phase::Ended;
        }
        match self.phase {
            Phase::Ended => Ok(None),
            Phase::Replay => {
                let (mut batch, more) = self.read_store().await?;
                if !more && self.phase == Phase::Replay {
                    self.phase = Phase::Live;
                    batch.push(self.marker()?);
                }
                Ok(Some(batch))
            }
            Phase::Live => {
                let limit = usize::try_from(BATCH_ITEMS).unwrap_or(usize::MAX);
                match self.follower.take(self.cursor, limit, BATCH_BYTES) {
                    FromRing::Envelopes(envelopes) => {
                        if let Some(newest) = envelopes.last() {
                            self.cursor = newest.id;
                        }
                        Ok(Some(self.of_branch(envelopes)))
                    }
                    FromRing::Store => {
                        let (batch, more) = self.read_store().await?;
                        self.has_read_all = !more;
                        Ok(Some(batch))
                    }
                }
            }
        }
    }

    fn of_branch(&self, envelopes: Vec<Published>) -> Vec<Published> {
        let Some(branch) = &self.branch else { return envelopes };
        let is_ours = |of: &Published| of.branch_id.as_ref().is_none_or(|b| b == branch);
        envelopes.into_iter().filter(is_ours).collect()
    }

    async fn read_store(&mut self) -> Result<(Vec<Published>, bool), EngineError> {
        let (session, branch, after) = (self.session.clone(), self.branch.clone(), self.cursor);
        let page = self
            .store
            .read("events.after", move |txn| {
                events_after(txn, &session, branch.as_ref(), after, BATCH_ITEMS, BATCH_BYTES)
            })
            .await;
        match page {
            Ok(page) => {
                self.cursor = page.last;
                Ok((page.items, page.more))
            }
            Err(StoreError::NotFound { .. } | StoreError::Terminated { .. }) => {
                self.phase = Phase::Ended;
                Ok((Vec::new(), true))
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Says that the replay is over; its number is the cursor, also when nothing was read.
    fn marker(&self) -> Result<Published, EngineError> {
        let event = AgentEvent::StreamSynchronized {
            session_id: self.session.clone(),
            branch_id: self.branch.clone(),
            last_event_id: self.cursor,
            store: self.store.incarnation().clone(),
        };
        let tag = event.tag();
        let envelope = EventEnvelope {
            id: self.cursor,
            session_id: self.session.clone(),
            branch_id: self.branch.clone(),
            created_at: self.env.now(),
            event,
            trace_id: None,
        };
        let json = serde_json::to_string(&envelope).map_err(|error| EngineError::EventStore {
            message: format!("the synchronize marker does not encode: {error}"),
            source: None,
        })?;
        Ok(Published {
            id: self.cursor,
            session_id: self.session.clone(),
            branch_id: self.branch.clone(),
            tag,
            perishable: true,
            json: json.into(),
        })
    }
}

fn unreadable(error: StoreError) -> EngineError {
    match error {
        StoreError::CursorInvalid { last } => EngineError::CursorInvalid { last },
        error => EngineError::EventStore {
            message: format!("the events could not be read: {error}"),
            source: Some(error),
        },
    }
}
