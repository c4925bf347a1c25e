//! Requests and streams on one socket: bounds, cancels, what a closed connection ends.

use std::sync::atomic::Ordering::SeqCst;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{Server, WORKSPACE, run};
use crate::lifecycle::Phase;
use crate::rpc::calls::{REQUESTS, SUBSCRIPTIONS};

#[test]
fn malformed_frames_and_unknown_methods_are_answered_and_the_socket_stays() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        for (text, code, id) in [
            ("{", -32700, Value::Null),
            ("[]", -32600, Value::Null),
            (r#"{"jsonrpc":"1.0","id":7,"method":"x"}"#, -32600, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7,"method":"server.status","params":[]}"#, -32600, json!(7)),
            (r#"{"jsonrpc":"2.0","id":null,"method":"server.status"}"#, -32600, json!(null)),
            (r#"{"jsonrpc":"2.0","id":"a","method":"server.statu"}"#, -32601, json!("a")),
        ] {
            client.text(text).await;
            let answer = client.read().await;
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{text}");
            if code == -32601 {
                assert!(answer["error"]["message"].as_str().unwrap().contains("server.status"));
            }
        }
        client.request(1, "server.status", &json!({})).await;
        assert_eq!(client.read().await["result"], true);
    });
}

#[test]
fn a_missing_or_malformed_workspace_is_refused_on_streams_too_i30() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        for method in ["session.list", "message.send", "session.events", "auth.offer"] {
            client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method})).await;
            let answer = client.read().await;
            assert_eq!(answer["error"]["data"]["tag"], "WorkspaceHeaderError", "{method}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("missing"));
        }
        for (method, meta) in [
            ("session.list", json!({"workspace": "x"})),
            ("session.events", json!({"workspace": WORKSPACE.to_uppercase()})),
            ("server.status", json!({"workspace": "x"})),
            ("session.list", json!({"workspace": 5})),
            ("session.events", json!("x")),
        ] {
            client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "meta": meta})).await;
            let answer = client.read().await;
            assert_eq!(answer["error"]["data"]["tag"], "WorkspaceHeaderError", "{method}");
            assert_eq!(answer["id"], 1, "{method}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("invalid"));
        }
        client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "server.status"})).await;
        assert_eq!(client.read().await["result"], true);
    });
}

#[test]
fn the_257th_request_in_flight_is_refused_at_once_and_a_cancel_makes_room() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        for id in 0..REQUESTS as u64 {
            client.request(id, "message.send", &json!({})).await;
        }
        client.request(1000, "server.status", &json!({})).await;
        let answer = client.read().await;
        assert_eq!(answer["error"]["data"]["tag"], "LimitExceeded");
        assert_eq!((&answer["error"]["data"]["max"], &answer["id"]), (&json!(256), &json!(1000)));
        client.notify("rpc.cancel", &json!({"id": 7})).await;
        let answer = client.read().await;
        assert_eq!((&answer["id"], &answer["error"]["data"]["tag"]), (&json!(7), &json!("Interrupted")));
        client.request(7, "server.status", &json!({})).await;
        assert_eq!(client.read().await["result"], true);
        client.request(3, "server.status", &json!({})).await;
        assert_eq!(client.read_tag().await, "InvalidRequest", "an id in flight is not taken twice");
    });
}

#[test]
fn a_closed_connection_gives_up_its_waits_b171() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        client.request(1, "queue.get", &json!({})).await;
        client.request(2, "queue.get", &json!({})).await;
        server.played.until(|played| played.waiting.load(SeqCst) == 2).await;
        assert_eq!(server.connections.open(), 1);
        drop(client);
        server.played.until(|played| played.dropped.load(SeqCst) == 2).await;
        server.connections.open_until(|open| open == 0).await;
    });
}

/// A frame that calls `steer.command`.
fn steer(id: u64) -> Vec<u8> {
    let meta = json!({"workspace": WORKSPACE});
    masked(&json!({"jsonrpc": "2.0", "id": id, "method": "steer.command", "params": {}, "meta": meta}))
}

/// A text frame with a mask of zeros.
fn masked(frame: &Value) -> Vec<u8> {
    let text = frame.to_string();
    let mut bytes = vec![0x81, 0x80 | 126];
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(text.as_bytes());
    bytes
}

#[test]
fn what_changes_something_is_done_once_it_is_read_though_its_socket_closes_in_the_same_breath() {
    run(async {
        let server = Server::start();
        let mut stream = server.raw_socket().await;
        // All of it comes in one piece: nothing of the calls has run when the close is read.
        let mut bytes: Vec<u8> = (0..3).flat_map(steer).collect();
        bytes.extend([0x88, 0x80, 0, 0, 0, 0]);
        stream.write_all(&bytes).await.unwrap();
        drop(stream);
        server.connections.open_until(|open| open == 0).await;
        server.detached.none().await;
        assert_eq!(server.played.steered.load(SeqCst), 3);
    });
}

#[test]
fn a_cancelled_call_that_changes_something_is_answered_interrupted_and_done_all_the_same() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        let mut bytes = steer(1);
        bytes.extend(masked(&json!({"jsonrpc": "2.0", "method": "rpc.cancel", "params": {"id": 1}})));
        client.0.get_mut().write_all(&bytes).await.unwrap();
        assert_eq!(client.read_tag().await, "Interrupted");
        // It has no second answer.
        client.request(2, "server.status", &json!({})).await;
        assert_eq!(client.read().await["id"], 2);
        server.detached.none().await;
        assert_eq!(server.played.steered.load(SeqCst), 1);
    });
}

#[test]
fn a_handler_that_panics_fails_its_call_alone() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        client.request(1, "branch.list", &json!({"sessionId": "s"})).await;
        assert_eq!(client.read_tag().await, "InternalError");
        client.request(2, "server.status", &json!({})).await;
        assert_eq!(client.read().await["result"], true);
    });
}

#[test]
fn the_answer_that_names_a_stream_comes_before_its_items_and_its_end_last() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        client.request(1, "session.events", &json!({"sessionId": "three"})).await;
        let subscription = client.read().await["result"]["subscription"].clone();
        for _ in 0..3 {
            let item = client.read().await;
            assert_eq!(item["method"], "stream.item");
            assert_eq!(item["params"], json!({"subscription": subscription, "items": [1]}));
        }
        let end = client.read().await;
        assert_eq!(end["params"], json!({"subscription": subscription, "reason": "deleted"}));
    });
}

#[test]
fn a_cancelled_stream_says_so_and_sends_nothing_more() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        client.request(1, "session.events", &json!({"sessionId": "endless"})).await;
        let subscription = client.read().await["result"]["subscription"].clone();
        client.notify("stream.cancel", &json!({"subscription": subscription})).await;
        loop {
            let frame = client.read().await;
            if frame["method"] == "stream.end" {
                assert_eq!(frame["params"]["reason"], "cancelled");
                break;
            }
        }
        client.request(2, "server.status", &json!({})).await;
        assert_eq!(client.read().await["id"], 2);
    });
}

#[test]
fn the_65th_stream_is_refused() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        for id in 0..=SUBSCRIPTIONS as u64 {
            client.request(id, "session.events", &json!({"sessionId": "endless"})).await;
        }
        loop {
            let frame = client.read().await;
            if let Some(error) = frame.get("error") {
                assert_eq!(
                    (&error["data"]["limit"], &error["data"]["max"]),
                    (&json!("subscriptions"), &json!(64))
                );
                return;
            }
        }
    });
}

#[test]
fn a_client_of_another_major_version_is_closed_with_4426() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        client.request(1, "server.hello", &json!({})).await;
        assert_eq!(client.read_close().await, Some(4426));
    });
}

#[test]
fn a_server_that_goes_ends_the_streams_and_closes_with_1001() {
    run(async {
        let server = Server::start();
        let mut client = server.connect().await;
        client.request(1, "session.events", &json!({"sessionId": "three"})).await;
        client.request(2, "message.send", &json!({})).await;
        server.played.until(|played| played.waiting.load(SeqCst) == 1).await;
        server.lifecycle.enter(Phase::Going);
        assert_eq!(client.read_close().await, Some(1001));
        server.connections.open_until(|open| open == 0).await;
    });
}
