//! Calls: frames, workspace, errors, concurrency, cancel on drop.

use gent_client::{CallError, ConnectError, FRAME_BYTES, REQUESTS_IN_FLIGHT};
use gent_protocol::{BranchId, GetSession, Retire, RpcError, SendMessage, SessionId, WorkspaceId};
use serde_json::json;

use crate::peer::{connect_with, connected};

fn get(id: &str) -> GetSession {
    GetSession { session_id: SessionId::parse(id).unwrap() }
}

#[tokio::test]
async fn a_call_is_one_frame_with_its_workspace_and_no_other_handle_s() {
    let (client, mut peer) = connected().await;
    let workspace = WorkspaceId::parse("a".repeat(64)).unwrap();
    let named = client.with_workspace(&workspace);
    let (reply, frame) = tokio::join!(named.call(get("s")), async {
        let frame = peer.receive().await;
        peer.answer(&frame, json!(null)).await;
        frame
    });
    assert_eq!(reply.unwrap(), None);
    let expected = json!({
        "jsonrpc": "2.0", "id": 1, "method": "session.get",
        "params": { "sessionId": "s" }, "meta": { "workspace": "a".repeat(64) },
    });
    assert_eq!(frame, expected);
    let (reply, frame) = tokio::join!(client.call(Retire {}), async {
        let frame = peer.receive().await;
        peer.answer(&frame, json!({ "running": 1, "withinMs": 60000 })).await;
        frame
    });
    assert_eq!(reply.unwrap().running, 1);
    assert_eq!(frame.get("meta"), None);
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (client, mut peer) = connected().await;
    let (first, second, ()) = tokio::join!(client.call(get("one")), client.call(Retire {}), async {
        let one = peer.receive().await;
        let two = peer.receive().await;
        peer.answer(&two, json!({ "running": 2, "withinMs": 1 })).await;
        peer.answer(&one, json!(null)).await;
    });
    assert_eq!((first.unwrap(), second.unwrap().running), (None, 2));
}

#[tokio::test]
async fn an_error_keeps_its_tag_and_fields_and_an_unknown_one_its_sentence() {
    let (client, mut peer) = connected().await;
    let (reply, ()) = tokio::join!(client.call(get("s")), async {
        let frame = peer.receive().await;
        peer.refuse(&frame, -32020, "Draining", json!({ "retryAfterMs": 70 })).await;
    });
    let error = reply.unwrap_err();
    assert!(matches!(error, CallError::Rpc(RpcError::Draining { .. })), "{error:?}");
    assert_eq!((error.tag(), error.to_string().as_str()), ("Draining", "no: Draining"));
    assert_eq!(error.repeat_after().unwrap().wait.unwrap().as_millis(), 70);
    let (reply, ()) = tokio::join!(client.call(get("s")), async {
        let frame = peer.receive().await;
        peer.refuse(&frame, -32999, "SomethingNew", json!({})).await;
    });
    assert_eq!(reply.unwrap_err().to_string(), "no: SomethingNew");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_fails_its_call_alone() {
    let (client, mut peer) = connected().await;
    let (reply, ()) = tokio::join!(client.call(Retire {}), async {
        let frame = peer.receive().await;
        peer.answer(&frame, json!({ "running": "many" })).await;
    });
    assert!(matches!(reply, Err(CallError::Protocol { method: "server.retire", .. })), "{reply:?}");
    assert!(!client.is_closed());
}

#[tokio::test]
async fn a_read_that_is_dropped_is_cancelled_at_the_server() {
    let (client, mut peer) = connected().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call(get("s")).await }
    });
    let frame = peer.receive().await;
    waiting.abort();
    let cancel = peer.receive().await;
    assert_eq!(cancel, json!({ "jsonrpc": "2.0", "method": "rpc.cancel", "params": { "id": frame["id"] } }));
    // The late answer is nobody's, and the connection goes on.
    peer.answer(&frame, json!(null)).await;
    let (reply, ()) = tokio::join!(client.call(get("s")), async {
        let frame = peer.receive().await;
        peer.answer(&frame, json!(null)).await;
    });
    assert_eq!(reply.unwrap(), None);
}

#[tokio::test]
async fn a_call_that_changes_something_is_only_no_longer_waited_for() {
    let (client, mut peer) = connected().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call(Retire {}).await }
    });
    let frame = peer.receive().await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    // The next frame is the next call, not a cancel; the late answer is nobody's.
    let (reply, ()) = tokio::join!(client.call(get("s")), async {
        let next = peer.receive().await;
        assert_eq!(next["method"], "session.get");
        peer.answer(&frame, json!({ "running": 1, "withinMs": 1 })).await;
        peer.answer(&next, json!(null)).await;
    });
    assert_eq!(reply.unwrap(), None);
}

#[tokio::test]
async fn the_257th_call_waits_for_a_place_instead_of_failing() {
    let (client, mut peer) = connected().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..=REQUESTS_IN_FLIGHT {
        let client = client.clone();
        calls.spawn(async move { client.call(get("s")).await });
    }
    let mut frames = Vec::new();
    for _ in 0..REQUESTS_IN_FLIGHT {
        frames.push(peer.receive().await);
    }
    // The one that waits is sent only after an answer made room.
    peer.answer(&frames[0], json!(null)).await;
    frames.push(peer.receive().await);
    for frame in &frames[1..] {
        peer.answer(frame, json!(null)).await;
    }
    assert_eq!(calls.join_all().await.len(), REQUESTS_IN_FLIGHT + 1);
}

#[tokio::test]
async fn a_request_that_the_server_would_close_for_is_not_sent() {
    let (client, _peer) = connected().await;
    let message = SendMessage {
        session_id: SessionId::parse("s").unwrap(),
        branch_id: BranchId::parse("b").unwrap(),
        content: "x".repeat(FRAME_BYTES),
        request_id: None,
        approval: None,
        env: Default::default(),
    };
    let error = client.call(message).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { .. }), "{error:?}");
    assert!(!client.is_closed());
}

#[tokio::test]
async fn a_wrong_token_is_told_from_a_dead_server() {
    let (near, far) = tokio::io::duplex(4096);
    drop(far);
    let url = gent_client::ServerUrl::new("127.0.0.1", 1);
    let dead = gent_client::connect_over(near, &url, &gent_protocol::Secret::new("secret")).await;
    assert!(!matches!(dead, Err(ConnectError::Unauthorized { .. })), "{dead:?}");
}

#[tokio::test]
async fn a_wrong_token_is_refused_without_showing_it() {
    let (near, far) = tokio::io::duplex(4096);
    let url = gent_client::ServerUrl::new("127.0.0.1", 1);
    let token = gent_protocol::Secret::new("wrong-secret");
    let (refused, accepted) = tokio::join!(
        gent_client::connect_over(near, &url, &token),
        tokio_tungstenite::accept_hdr_async(far, crate::peer::check_token)
    );
    assert!(accepted.is_err());
    let error = refused.unwrap_err();
    assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("wrong-secret"));
    assert!(connect_with("secret").await.is_ok());
}
