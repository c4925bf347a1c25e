//! Streams: opening, batches, end, cancel on drop, backpressure.

use gent_client::{Client, StreamError, Subscription};
use gent_protocol::{EventEnvelope, GetSession, SessionEvents, SessionId, StreamEndReason};
use serde_json::{Value, json};

use crate::peer::{Peer, connected};

fn events() -> SessionEvents {
    SessionEvents { session_id: SessionId::parse("s").unwrap(), branch_id: None, after: None, store: None }
}

fn named(id: i64) -> Value {
    let event = json!({ "_tag": "SessionNameUpdated", "sessionId": "s", "name": format!("n{id}") });
    json!({ "id": id, "sessionId": "s", "createdAt": 5, "event": event })
}

async fn open(client: &Client, peer: &mut Peer) -> Subscription<EventEnvelope> {
    let (stream, ()) = tokio::join!(client.subscribe(events()), async {
        let frame = peer.receive().await;
        assert_eq!(frame["method"], "session.events");
        peer.answer(&frame, json!({ "subscription": "sub" })).await;
        // In the very next frame: the stream must be known by then.
        peer.items("sub", json!([named(1), named(2)])).await;
    });
    stream.unwrap()
}

#[tokio::test]
async fn items_come_in_order_and_as_they_stand_on_the_wire() {
    let (client, mut peer) = connected().await;
    let mut stream = open(&client, &mut peer).await;
    assert_eq!(stream.next_raw().await.unwrap().get(), named(1).to_string());
    assert_eq!(stream.next().await.unwrap().id.0, 2);
    peer.items("sub", json!([named(3)])).await;
    peer.end("sub", "deleted").await;
    assert_eq!(stream.next().await.unwrap().id.0, 3);
    let end = stream.next().await.unwrap_err();
    assert!(matches!(end, StreamError::Ended { reason: StreamEndReason::Deleted, .. }), "{end:?}");
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_cancelled_at_the_server() {
    let (client, mut peer) = connected().await;
    drop(open(&client, &mut peer).await);
    let cancel = peer.receive().await;
    let expected =
        json!({ "jsonrpc": "2.0", "method": "stream.cancel", "params": { "subscription": "sub" } });
    assert_eq!(cancel, expected);
}

#[tokio::test]
async fn a_stream_given_up_before_its_id_is_known_is_cancelled_when_it_is() {
    let (client, mut peer) = connected().await;
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.subscribe(events()).await.map(drop) }
    });
    let frame = peer.receive().await;
    opening.abort();
    assert_eq!(peer.receive().await["method"], "rpc.cancel");
    peer.answer(&frame, json!({ "subscription": "late" })).await;
    let cancel = peer.receive().await;
    assert_eq!(
        (&cancel["method"], &cancel["params"]["subscription"]),
        (&json!("stream.cancel"), &json!("late"))
    );
}

#[tokio::test]
async fn a_reader_that_is_behind_stops_the_socket_and_loses_nothing() {
    const N_FRAMES: i64 = 200;
    let (client, mut peer) = connected().await;
    let mut stream = open(&client, &mut peer).await;
    let pushing = tokio::spawn(async move {
        for id in 3..N_FRAMES {
            let mut item = named(id);
            item["event"]["name"] = json!("x".repeat(1000));
            peer.items("sub", json!([item])).await;
        }
        peer
    });
    // 200 KB do not fit into four batches and a 4 KiB pipe: the peer must be waiting.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(!pushing.is_finished());
    for id in 1..N_FRAMES {
        assert_eq!(stream.next().await.unwrap().id.0, id);
    }
    let mut peer = pushing.await.unwrap();
    let session_id = SessionId::parse("s").unwrap();
    let (reply, ()) = tokio::join!(client.call(GetSession { session_id }), async {
        let frame = peer.receive().await;
        peer.answer(&frame, json!(null)).await;
    });
    assert_eq!(reply.unwrap(), None);
}
