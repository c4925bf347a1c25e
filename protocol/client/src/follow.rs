//! Owns following a session's events over any number of connections: resumed from the last number seen, in order,
//! without a repeat. Never guesses what happened in between: the store replays it.
//! Tested in `protocol/client/tests/it`.

use gent_protocol::{
    AgentEvent, BranchId, DecodedEvent, EventEnvelope, EventSeq, Millis, RpcError, SessionEvents, SessionId,
    StoreIncarnation, StreamEndReason, decode_event,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::limits::FOLLOWED;
use crate::{CallError, Client, CloseReason, Connector, Link, LinkError, StreamError};

/// Where to begin.
#[derive(Debug, Clone)]
pub struct FollowFrom {
    /// The session.
    pub session_id: SessionId,
    /// Only events of this branch, and those of no branch.
    pub branch_id: Option<BranchId>,
    /// The last event seen; from the start when absent.
    pub after: Option<EventSeq>,
    /// The store in which it was seen.
    pub store: Option<StoreIncarnation>,
}

/// What a follower sees.
#[derive(Debug)]
pub enum Followed {
    /// A connection is up and the stream is open on it: what was asked on an earlier one must be asked again.
    Linked(Client),
    /// The next event.
    Event {
        /// The event.
        envelope: Box<EventEnvelope>,
        /// As it stands on the wire.
        raw: Box<RawValue>,
    },
    /// An event of a tag that this build does not know.
    Unknown {
        /// Its number.
        id: EventSeq,
        /// Its tag.
        tag: String,
    },
    /// The replay is over; live from here.
    Synchronized {
        /// The cursor.
        last_event_id: EventSeq,
    },
}

/// Why a session is no longer followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// There is no server, or its answer is final.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The cursor means nothing in this store: take a new snapshot.
    #[error("the events seen so far are not those of this store: start again from a snapshot")]
    CursorInvalid,
    /// The session was deleted.
    #[error("the session was deleted")]
    Deleted,
    /// The server could not read its events.
    #[error("the events could not be read on: {}", .0.as_ref().map_or("no reason was given", RpcError::message))]
    Failed(Option<RpcError>),
    /// An event of a known tag does not decode.
    #[error("event {id} ({tag}) does not decode: use the client of the server's version")]
    Undecodable {
        /// Its number.
        id: EventSeq,
        /// Its tag.
        tag: String,
    },
    /// An item is no envelope.
    #[error("the server sent an item that is no event: use the client of the server's version")]
    NoEnvelope,
}

/// A session that is being followed. Dropping it stops that.
#[derive(Debug)]
pub struct Following {
    items: mpsc::Receiver<Result<Followed, FollowError>>,
    task: JoinHandle<()>,
}

impl Following {
    /// What comes next; none after an error. Safe to drop: nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Followed, FollowError>> {
        self.items.recv().await
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows a session, on the same or a restarted server, as long as the link's patience lasts. Up to 64 events wait
/// for the reader; beyond them the stream is not read on. Must be called within a tokio runtime.
pub fn follow<C: Connector + 'static>(link: Link<C>, from: FollowFrom) -> Following {
    let (sender, items) = mpsc::channel(FOLLOWED);
    let task = tokio::spawn(async move {
        let mut follower = Follower { link, from, sender };
        if let Err(Stop::Failed(error)) = follower.run().await {
            let _gone = follower.sender.send(Err(error)).await;
        }
    });
    Following { items, task }
}

enum Stop {
    /// Nobody listens any more.
    Unwanted,
    Failed(FollowError),
}

impl<E: Into<FollowError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct Follower<C> {
    link: Link<C>,
    from: FollowFrom,
    sender: mpsc::Sender<Result<Followed, FollowError>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEnvelope<'a> {
    id: EventSeq,
    session_id: SessionId,
    branch_id: Option<BranchId>,
    created_at: Millis,
    #[serde(borrow)]
    event: &'a RawValue,
    trace_id: Option<String>,
}

impl<C: Connector> Follower<C> {
    async fn run(&mut self) -> Result<(), Stop> {
        loop {
            let client = self.link.client().await?;
            let params = SessionEvents {
                session_id: self.from.session_id.clone(),
                branch_id: self.from.branch_id.clone(),
                after: self.from.after,
                store: self.from.store.clone(),
            };
            let mut stream = match client.subscribe(params).await {
                Ok(stream) => stream,
                Err(CallError::Rpc(RpcError::CursorInvalid { .. })) => {
                    return Err(FollowError::CursorInvalid.into());
                }
                Err(error) => {
                    self.link.failed(error).await?;
                    continue;
                }
            };
            self.hand(Followed::Linked(client)).await?;
            loop {
                match stream.next_raw().await {
                    Ok(raw) => self.take(raw).await?,
                    Err(StreamError::Closed(error)) => {
                        self.link.failed(error).await?;
                        break;
                    }
                    Err(StreamError::Ended { reason, error }) => {
                        match reason {
                            StreamEndReason::Deleted => return Err(FollowError::Deleted.into()),
                            StreamEndReason::Failed => return Err(FollowError::Failed(error).into()),
                            StreamEndReason::Going | StreamEndReason::Cancelled => {}
                        }
                        drop(stream);
                        self.link.disconnect();
                        let text = String::new();
                        self.link.failed(CallError::Closed { reason: CloseReason::Going, text }).await?;
                        break;
                    }
                    Err(StreamError::Decode(_)) => return Err(FollowError::NoEnvelope.into()),
                }
            }
        }
    }

    async fn hand(&mut self, item: Followed) -> Result<(), Stop> {
        self.sender.send(Ok(item)).await.map_err(|_gone| Stop::Unwanted)
    }

    async fn take(&mut self, raw: Box<RawValue>) -> Result<(), Stop> {
        let decoded: RawEnvelope<'_> =
            serde_json::from_str(raw.get()).map_err(|_unfit| FollowError::NoEnvelope)?;
        let id = decoded.id;
        let event = match decode_event(decoded.event.get()) {
            Ok(DecodedEvent::Known(event)) => *event,
            Ok(DecodedEvent::Unknown { tag }) => {
                return if self.advance(id) {
                    self.hand(Followed::Unknown { id, tag }).await
                } else {
                    Ok(())
                };
            }
            Err(error) => return Err(FollowError::Undecodable { id, tag: error.tag }.into()),
        };
        if let AgentEvent::StreamSynchronized { last_event_id, store, .. } = event {
            // The marker shares its number with the last event of the replay: it is the cursor, not a repeat.
            self.from.after = Some(last_event_id);
            self.from.store = Some(store);
            return self.hand(Followed::Synchronized { last_event_id }).await;
        }
        if !self.advance(id) {
            return Ok(());
        }
        let envelope = Box::new(EventEnvelope {
            id,
            session_id: decoded.session_id,
            branch_id: decoded.branch_id,
            created_at: decoded.created_at,
            event,
            trace_id: decoded.trace_id,
        });
        self.hand(Followed::Event { envelope, raw }).await
    }

    /// Moves the cursor; false for an event that was seen before.
    fn advance(&mut self, id: EventSeq) -> bool {
        if self.from.after.is_some_and(|seen| id <= seen) {
            return false;
        }
        self.from.after = Some(id);
        // Only a new event shows that the server lives: one that dies after each replay must not be tried for ever.
        self.link.progressed();
        true
    }
}
