//! Owns what one client saw of a session: every event, in order, and how its stream ended.
//! Never asks again: what it holds is what was delivered.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use gent_client::{Client, StreamError};
use gent_protocol::{AgentEvent, EventEnvelope, MessageId, SessionEvents};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::trace::trace;
use super::within;

#[derive(Default)]
struct Seen {
    events: Vec<EventEnvelope>,
    end: Option<String>,
}

/// A subscription that is read all the time.
pub struct Recorder {
    seen: Arc<Mutex<Seen>>,
    changed: watch::Receiver<usize>,
    reading: JoinHandle<()>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Recorder {
    /// Subscribes and reads from now on.
    pub async fn start(client: &Client, from: SessionEvents) -> Result<Self> {
        let mut subscription = client.subscribe(from).await?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (change, changed) = watch::channel(0);
        let writer = Arc::clone(&seen);
        let reading = tokio::spawn(async move {
            loop {
                let next = subscription.next().await;
                let is_over = next.is_err();
                let mut seen = writer.lock().unwrap_or_else(PoisonError::into_inner);
                match next {
                    Ok(event) => seen.events.push(event),
                    Err(StreamError::Ended { reason, .. }) => seen.end = Some(format!("{reason:?}")),
                    Err(error) => seen.end = Some(error.to_string()),
                }
                drop(seen);
                change.send_modify(|count| *count += 1);
                if is_over {
                    return;
                }
            }
        });
        Ok(Self { seen, changed, reading })
    }

    /// Everything seen so far.
    pub fn events(&self) -> Vec<EventEnvelope> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).events.clone()
    }

    /// What the store must hold of what was seen, under the same numbers: all but text, which is perishable, and the
    /// marker, which is never stored.
    pub fn lasting(&self) -> Vec<EventEnvelope> {
        let is_stored = |event: &AgentEvent| {
            !matches!(event, AgentEvent::StreamChunk { .. } | AgentEvent::StreamSynchronized { .. })
        };
        self.events().into_iter().filter(|envelope| is_stored(&envelope.event)).collect()
    }

    /// Waits until `find` finds something in what was seen.
    pub async fn wait<T>(
        &self,
        what: &str,
        mut find: impl FnMut(&[EventEnvelope]) -> Option<T>,
    ) -> Result<T> {
        let mut changed = self.changed.clone();
        let waiting = within(what, async {
            loop {
                let (found, end) = {
                    let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                    (find(&seen.events), seen.end.clone())
                };
                match (found, end) {
                    (Some(found), _) => return Ok(found),
                    (None, Some(end)) => anyhow::bail!("the stream ended: {end}"),
                    (None, None) => changed.changed().await?,
                }
            }
        });
        waiting.await.with_context(|| format!("seen so far: {}", trace(&self.events(), None)))
    }

    /// Waits for the first event that `fits`.
    pub async fn wait_for(&self, what: &str, fits: impl Fn(&AgentEvent) -> bool) -> Result<EventEnvelope> {
        self.wait(what, |events| events.iter().find(|envelope| fits(&envelope.event)).cloned()).await
    }

    /// Waits until the turn of this message has ended.
    pub async fn turn_completed(&self, message: &MessageId) -> Result<EventEnvelope> {
        self.wait_for(
            &format!("the end of the turn {message}"),
            |event| matches!(event, AgentEvent::TurnCompleted { message_id, .. } if message_id == message),
        )
        .await
    }

    /// Waits for the end of the stream and returns its reason.
    pub async fn ended(&self) -> Result<String> {
        let mut changed = self.changed.clone();
        within("the end of the stream", async {
            loop {
                let end = self.seen.lock().unwrap_or_else(PoisonError::into_inner).end.clone();
                if let Some(end) = end {
                    return Ok(end);
                }
                changed.changed().await?;
            }
        })
        .await
    }
}
