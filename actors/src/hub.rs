//! Owns delivery: a ring of the newest envelopes of each session that somebody follows, and the doorbell of
//! those who do. A ring is a shortcut: whoever it no longer reaches back to reads the store.
//! Never waits, never reads the store, never makes an envelope. Tested below and end to end.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use gent_protocol::{EventSeq, SessionId};
use gent_storage::{Published, Publisher};
use tokio::sync::watch;

use crate::limits::{RING_BYTES, RING_ENVELOPES};

/// Where committed envelopes are handed to subscribers. Clones share it.
#[derive(Clone, Default)]
pub struct Hub(Arc<Mutex<HashMap<SessionId, Ring>>>);

/// What a subscriber's doorbell says: a level, not a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bell {
    /// Look again.
    Ring(u64),
    /// The session is gone.
    Ended,
}

struct Ring {
    /// The newest number that was published since the ring began; 0 before the first.
    high: EventSeq,
    envelopes: VecDeque<Published>,
    bytes: usize,
    followers: usize,
    bell: watch::Sender<Bell>,
}

impl Ring {
    fn new() -> Self {
        Self {
            high: EventSeq(0),
            envelopes: VecDeque::new(),
            bytes: 0,
            followers: 0,
            bell: watch::Sender::new(Bell::Ring(0)),
        }
    }

    fn ring_bell(&self) {
        self.bell.send_modify(|bell| {
            if let Bell::Ring(count) = bell {
                *count = count.wrapping_add(1);
            }
        });
    }

    fn clear(&mut self) {
        self.envelopes.clear();
        self.bytes = 0;
    }

    fn push(&mut self, envelope: Published) {
        if envelope.id <= self.high {
            return;
        }
        if self.high != EventSeq(0) && envelope.id.0 != self.high.0 + 1 {
            self.clear();
        }
        self.high = envelope.id;
        self.bytes += envelope.json.len();
        self.envelopes.push_back(envelope);
        while self.envelopes.len() > RING_ENVELOPES || (self.bytes > RING_BYTES && self.envelopes.len() > 1) {
            if let Some(oldest) = self.envelopes.pop_front() {
                self.bytes -= oldest.json.len();
            }
        }
    }
}

/// What the ring has for a cursor.
#[derive(Debug)]
pub(crate) enum FromRing {
    /// The envelopes after the cursor, perhaps none.
    Envelopes(Vec<Published>),
    /// The ring does not reach back that far.
    Store,
}

/// Keeps a session's ring and hears its doorbell for as long as it lives.
pub(crate) struct Follower {
    hub: Hub,
    session: SessionId,
    bell: watch::Receiver<Bell>,
}

impl Hub {
    fn rings(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Ring>> {
        // A panic elsewhere cannot leave a ring half changed: every change is a plain move.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a session. Call it before the first read of the store: then nothing is missed in between.
    pub(crate) fn follow(&self, session: &SessionId) -> Follower {
        let mut rings = self.rings();
        let ring = rings.entry(session.clone()).or_insert_with(Ring::new);
        ring.followers += 1;
        Follower { hub: self.clone(), session: session.clone(), bell: ring.bell.subscribe() }
    }

    /// Tells the followers of a session that it is gone.
    pub(crate) fn end(&self, session: &SessionId) {
        if let Some(ring) = self.rings().get_mut(session) {
            ring.clear();
            ring.bell.send_replace(Bell::Ended);
        }
    }
}

impl Publisher for Hub {
    fn publish(&self, envelopes: Vec<Published>) {
        let mut rings = self.rings();
        let mut rung: Vec<SessionId> = Vec::new();
        for envelope in envelopes {
            let Some(ring) = rings.get_mut(&envelope.session_id) else { continue };
            if rung.last() != Some(&envelope.session_id) {
                rung.push(envelope.session_id.clone());
            }
            ring.push(envelope);
        }
        for session in rung {
            if let Some(ring) = rings.get(&session) {
                ring.ring_bell();
            }
        }
    }

    fn lost_track(&self) {
        for ring in self.rings().values_mut() {
            ring.clear();
            // The next envelope opens the ring anew, whatever its number: what lies before is in the store.
            ring.high = EventSeq(0);
            ring.ring_bell();
        }
    }
}

impl Follower {
    /// The envelopes after `cursor`, at most `limit` of them and `bytes` in all (one may be larger).
    pub(crate) fn take(&self, cursor: EventSeq, limit: usize, bytes: usize) -> FromRing {
        let rings = self.hub.rings();
        let Some(ring) = rings.get(&self.session) else { return FromRing::Store };
        match ring.envelopes.front() {
            None if ring.high == EventSeq(0) => FromRing::Store,
            None if ring.high <= cursor => FromRing::Envelopes(Vec::new()),
            None => FromRing::Store,
            Some(oldest) if oldest.id.0 > cursor.0 + 1 => FromRing::Store,
            Some(oldest) => {
                let skip = usize::try_from(cursor.0 + 1 - oldest.id.0).unwrap_or(usize::MAX);
                let mut size = 0;
                let batch = ring.envelopes.iter().skip(skip).take(limit).take_while(|envelope| {
                    let fits = size == 0 || size + envelope.json.len() <= bytes;
                    size += envelope.json.len();
                    fits
                });
                FromRing::Envelopes(batch.cloned().collect())
            }
        }
    }

    /// Marks the doorbell as heard; what rings after it is not lost. False when the session is gone.
    pub(crate) fn hear(&mut self) -> bool {
        *self.bell.borrow_and_update() != Bell::Ended
    }

    /// Waits for the doorbell. False when the session is gone.
    pub(crate) async fn wait(&mut self) -> bool {
        // The sender lives in the ring, and the ring as long as this follower.
        let rung = self.bell.changed().await.is_ok();
        rung && *self.bell.borrow() != Bell::Ended
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut rings = self.hub.rings();
        if let Some(ring) = rings.get_mut(&self.session) {
            ring.followers -= 1;
            if ring.followers == 0 {
                rings.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::parse("s").unwrap()
    }

    fn envelope(id: i64) -> Published {
        Published {
            id: EventSeq(id),
            session_id: session(),
            branch_id: None,
            tag: "SessionNameUpdated",
            perishable: false,
            json: format!("{{\"id\":{id}}}").into(),
        }
    }

    fn ids(taken: FromRing) -> Option<Vec<i64>> {
        match taken {
            FromRing::Envelopes(envelopes) => Some(envelopes.iter().map(|e| e.id.0).collect()),
            FromRing::Store => None,
        }
    }

    #[test]
    fn a_follower_gets_what_was_published_after_its_cursor_once_and_in_order() {
        let hub = Hub::default();
        let follower = hub.follow(&session());
        hub.publish((5..9).map(envelope).collect());
        hub.publish(vec![envelope(8), envelope(9)]);
        assert_eq!(ids(follower.take(EventSeq(6), 64, usize::MAX)), Some(vec![7, 8, 9]));
        assert_eq!(ids(follower.take(EventSeq(9), 64, usize::MAX)), Some(vec![]));
        assert_eq!(ids(follower.take(EventSeq(4), 2, usize::MAX)), Some(vec![5, 6]));
        assert_eq!(ids(follower.take(EventSeq(3), 64, usize::MAX)), None, "the ring begins at 5");
    }

    #[test]
    fn a_gap_starts_the_ring_anew_so_that_what_lies_before_is_read_from_the_store() {
        let hub = Hub::default();
        let follower = hub.follow(&session());
        hub.publish(vec![envelope(1), envelope(2), envelope(4)]);
        assert_eq!(ids(follower.take(EventSeq(1), 64, usize::MAX)), None);
        assert_eq!(ids(follower.take(EventSeq(3), 64, usize::MAX)), Some(vec![4]));
    }

    #[test]
    fn a_ring_is_bounded_and_freed_with_its_last_follower() {
        let hub = Hub::default();
        let follower = hub.follow(&session());
        hub.publish((1..=2_000).map(envelope).collect());
        assert_eq!(ids(follower.take(EventSeq(2_000 - 1_025), 64, usize::MAX)), None);
        assert!(ids(follower.take(EventSeq(2_000 - 1_024), 64, usize::MAX)).is_some());
        drop(follower);
        assert!(hub.rings().is_empty());
    }

    #[test]
    fn after_lost_track_followers_read_the_store() {
        let hub = Hub::default();
        let mut follower = hub.follow(&session());
        hub.publish(vec![envelope(1), envelope(2)]);
        assert!(follower.hear());
        hub.lost_track();
        assert_eq!(ids(follower.take(EventSeq(2), 64, usize::MAX)), None);
        assert!(follower.bell.has_changed().unwrap());
    }
}
