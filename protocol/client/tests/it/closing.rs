//! The end of a connection: close codes, silence, garbage, goodbye.

use gent_client::{CallError, CloseReason, StreamError};
use gent_protocol::{GetSession, SessionEvents, SessionId};
use serde_json::json;

use crate::peer::connected;

fn get() -> GetSession {
    GetSession { session_id: SessionId::parse("s").unwrap() }
}

#[tokio::test]
async fn a_close_code_reaches_every_call_and_stream() {
    let table = [
        (1001, CloseReason::Going, true),
        (1008, CloseReason::Policy, false),
        (1009, CloseReason::TooLarge, false),
        (4408, CloseReason::Slow, true),
        (4426, CloseReason::ProtocolMajor, false),
        (4000, CloseReason::Code(4000), true),
    ];
    for (code, expected, may_reconnect) in table {
        assert_eq!(expected.may_reconnect(), may_reconnect, "{code}");
        let (client, mut peer) = connected().await;
        let events = SessionEvents {
            session_id: SessionId::parse("s").unwrap(),
            branch_id: None,
            after: None,
            store: None,
        };
        let (stream, ()) = tokio::join!(client.subscribe(events), async {
            let frame = peer.receive().await;
            peer.answer(&frame, json!({ "subscription": "sub" })).await;
        });
        let mut stream = stream.unwrap();
        let (reply, ()) = tokio::join!(client.call(get()), async {
            peer.receive().await;
            peer.close(code, "because").await;
        });
        let closed = CallError::Closed { reason: expected, text: "because".into() };
        assert_eq!(reply.unwrap_err(), closed);
        let end = stream.next_raw().await.unwrap_err();
        assert!(matches!(end, StreamError::Closed(error) if error == closed), "{code}");
        assert_eq!(client.call(get()).await.unwrap_err(), closed);
    }
}

#[tokio::test]
async fn a_server_that_dies_is_a_lost_connection() {
    let (client, mut peer) = connected().await;
    let (reply, ()) = tokio::join!(client.call(get()), async {
        peer.receive().await;
        drop(peer);
    });
    let error = reply.unwrap_err();
    assert!(matches!(error, CallError::Closed { reason: CloseReason::Lost, .. }), "{error:?}");
}

#[tokio::test]
async fn a_frame_of_another_protocol_ends_the_connection_and_says_so() {
    for frame in [json!([1]), json!({ "jsonrpc": "2.0", "id": null, "error": null }), json!({ "id": "x" })] {
        let (client, mut peer) = connected().await;
        let (reply, ()) = tokio::join!(client.call(get()), async {
            peer.receive().await;
            peer.say(frame).await;
        });
        let error = reply.unwrap_err();
        assert!(matches!(error, CallError::Closed { reason: CloseReason::Garbage, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_unknown_notification_is_skipped() {
    let (client, mut peer) = connected().await;
    let (reply, ()) = tokio::join!(client.call(get()), async {
        let frame = peer.receive().await;
        peer.say(json!({ "jsonrpc": "2.0", "method": "server.news", "params": {} })).await;
        peer.answer(&frame, json!(null)).await;
    });
    assert_eq!(reply.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_for_ninety_seconds_is_gone() {
    let (client, mut peer) = connected().await;
    let (reply, _frame) = tokio::join!(client.call(get()), peer.receive());
    let error = reply.unwrap_err();
    assert!(matches!(error, CallError::Closed { reason: CloseReason::Lost, .. }), "{error:?}");
}

#[tokio::test]
async fn the_last_handle_says_goodbye() {
    let (client, mut peer) = connected().await;
    let other = client.clone();
    drop(client);
    drop(other);
    assert_eq!(peer.receive().await, json!("closed"));
}
