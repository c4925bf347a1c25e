//! Following a session over several connections.

use std::collections::VecDeque;

use gent_client::{Client, Connector, FollowError, FollowFrom, Followed, Following, Link, LinkError, follow};
use gent_protocol::SessionId;
use serde_json::{Value, json};

use crate::peer::{Peer, connected};

/// Hands out connections that the test has prepared; none left: nobody listens.
struct Prepared(VecDeque<Client>);

impl Connector for Prepared {
    async fn connect(&mut self) -> Result<Client, LinkError> {
        self.0.pop_front().ok_or_else(|| LinkError::Unreachable("nobody listens".into()))
    }
}

async fn following(n_connections: usize) -> (Following, VecDeque<Peer>) {
    let (mut clients, mut peers) = (VecDeque::new(), VecDeque::new());
    for _ in 0..n_connections {
        let (client, peer) = connected().await;
        clients.push_back(client);
        peers.push_back(peer);
    }
    let session_id = SessionId::parse("s").unwrap();
    let from = FollowFrom { session_id, branch_id: None, after: None, store: None };
    (follow(Link::new(Prepared(clients)), from), peers)
}

fn named(id: i64) -> Value {
    let event = json!({ "_tag": "SessionNameUpdated", "sessionId": "s", "name": "n" });
    json!({ "id": id, "sessionId": "s", "createdAt": 5, "event": event })
}

fn marker(id: i64) -> Value {
    let event = json!({ "_tag": "StreamSynchronized", "sessionId": "s", "lastEventId": id, "store": "st" });
    json!({ "id": id, "sessionId": "s", "createdAt": 5, "event": event })
}

async fn accept(peer: &mut Peer) -> Value {
    let frame = peer.receive().await;
    assert_eq!(frame["method"], "session.events");
    peer.answer(&frame, json!({ "subscription": "sub" })).await;
    frame["params"].clone()
}

/// What comes next, in one word.
async fn next(following: &mut Following) -> String {
    match following.next().await.unwrap().unwrap() {
        Followed::Linked(_) => "linked".into(),
        Followed::Event { envelope, .. } => format!("event {}", envelope.id),
        Followed::Unknown { id, tag } => format!("unknown {id} {tag}"),
        Followed::Synchronized { last_event_id } => format!("synchronized {last_event_id}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_goes_on_after_the_last_number_seen_without_a_repeat() {
    let (mut following, mut peers) = following(2).await;
    let mut first = peers.pop_front().unwrap();
    assert_eq!(accept(&mut first).await, json!({ "sessionId": "s" }));
    first.items("sub", json!([named(1), marker(1), named(4)])).await;
    for expected in ["linked", "event 1", "synchronized 1", "event 4"] {
        assert_eq!(next(&mut following).await, expected);
    }
    drop(first);
    let mut second = peers.pop_front().unwrap();
    assert_eq!(accept(&mut second).await, json!({ "sessionId": "s", "after": 4, "store": "st" }));
    // A stored event that is delivered again keeps its number.
    second.items("sub", json!([named(4), marker(4), named(5)])).await;
    for expected in ["linked", "synchronized 4", "event 5"] {
        assert_eq!(next(&mut following).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_because_the_server_goes_is_resumed_at_the_next_one() {
    let (mut following, mut peers) = following(2).await;
    let mut first = peers.pop_front().unwrap();
    accept(&mut first).await;
    first.end("sub", "going").await;
    let mut second = peers.pop_front().unwrap();
    accept(&mut second).await;
    assert_eq!(next(&mut following).await, "linked");
    assert_eq!(next(&mut following).await, "linked");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_back_is_given_up() {
    let (mut following, mut peers) = following(1).await;
    let mut first = peers.pop_front().unwrap();
    accept(&mut first).await;
    drop(first);
    assert_eq!(next(&mut following).await, "linked");
    let error = following.next().await.unwrap().unwrap_err();
    assert!(matches!(error, FollowError::Link(LinkError::GaveUp { seconds: 30, .. })), "{error:?}");
    assert!(following.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_after_each_replay_is_given_up_too() {
    let (mut following, peers) = following(64).await;
    let reading = tokio::spawn(async move {
        loop {
            if let Err(error) = following.next().await.unwrap() {
                return error;
            }
        }
    });
    for mut peer in peers {
        let frame = peer.receive().await;
        if frame == "closed" {
            // Given up: the connections that were left are let go.
            break;
        }
        peer.answer(&frame, json!({ "subscription": "sub" })).await;
        peer.items("sub", json!([marker(0)])).await;
    }
    let error = reading.await.unwrap();
    assert!(matches!(error, FollowError::Link(LinkError::GaveUp { .. })), "{error:?}");
}

#[tokio::test]
async fn an_unknown_tag_is_told_and_a_known_one_that_does_not_decode_ends_it() {
    let (mut following, mut peers) = following(1).await;
    let mut peer = peers.pop_front().unwrap();
    accept(&mut peer).await;
    let mut strange = named(1);
    strange["event"] = json!({ "_tag": "SomethingNew" });
    let mut broken = named(2);
    broken["event"] = json!({ "_tag": "TurnCompleted" });
    peer.items("sub", json!([strange, broken])).await;
    assert_eq!(next(&mut following).await, "linked");
    assert_eq!(next(&mut following).await, "unknown 1 SomethingNew");
    let error = following.next().await.unwrap().unwrap_err();
    assert!(matches!(&error, FollowError::Undecodable { tag, .. } if tag == "TurnCompleted"), "{error:?}");
}

#[tokio::test]
async fn a_cursor_of_another_store_and_a_deleted_session_are_final() {
    let (mut following, mut peers) = following(1).await;
    let mut peer = peers.pop_front().unwrap();
    let frame = peer.receive().await;
    peer.refuse(&frame, -32019, "CursorInvalid", json!({ "lastEventId": 3 })).await;
    let error = following.next().await.unwrap().unwrap_err();
    assert!(matches!(error, FollowError::CursorInvalid), "{error:?}");
    let (mut following, mut peers) = self::following(1).await;
    let mut peer = peers.pop_front().unwrap();
    accept(&mut peer).await;
    peer.end("sub", "deleted").await;
    assert_eq!(next(&mut following).await, "linked");
    let error = following.next().await.unwrap().unwrap_err();
    assert!(matches!(error, FollowError::Deleted), "{error:?}");
}
