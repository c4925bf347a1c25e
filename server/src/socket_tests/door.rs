//! Who is let in, in which order it is checked, and what the plain addresses answer.

use gent_client::identity_proof;
use gent_protocol::Identity;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Server, TOKEN, ask, read_head, run};
use crate::http::connections::WAITING;
use crate::lifecycle::Phase;

#[test]
fn host_is_checked_before_origin_and_origin_before_the_token() {
    run(async {
        let server = Server::start();
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let foreign_host = server.upgrade("").replace(&format!("Host: {}", server.address), "Host: evil.com");
        for (request, status) in [
            (foreign_host.replace("\r\n\r\n", "\r\nOrigin: http://evil.com\r\n\r\n"), 403),
            (server.upgrade("Origin: http://evil.com\r\n"), 403),
            (server.upgrade(&format!("Origin: null\r\n{bearer}")), 403),
            (server.upgrade(""), 401),
            (server.upgrade("Authorization: Bearer wrong\r\n"), 401),
            (server.upgrade("Sec-WebSocket-Protocol: gent.token.wrong\r\n"), 401),
            (server.upgrade(&bearer).replace("Upgrade: websocket\r\n", ""), 426),
            (server.upgrade(&bearer).replace("Version: 13", "Version: 7"), 426),
            (server.upgrade(&bearer).replace("HTTP/1.1", "HTTP/1.0").replace("Host:", "X:"), 403),
            (server.upgrade(&bearer).replace("/rpc", "/rpc/x"), 404),
        ] {
            let (found, body) = ask(&server, &request).await;
            assert_eq!(found, status, "{request}");
            assert!(body.ends_with('.') && !body.contains(TOKEN) && body.lines().count() == 1, "{body}");
        }
    });
}

#[test]
fn a_browser_s_subprotocol_brings_the_token_and_is_answered() {
    run(async {
        let server = Server::start();
        let mut stream = server.dial().await;
        let head = server.upgrade(&format!("Sec-WebSocket-Protocol: gent.token.{TOKEN}\r\n"));
        stream.write_all(head.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 101") && head.contains(&format!("gent.token.{TOKEN}")), "{head}");
    });
}

#[test]
fn the_identity_is_a_proof_for_this_port_and_says_more_only_to_the_owner_i19() {
    run(async {
        let server = Server::start();
        let get = |query: &str, lines: &str| {
            format!("GET /_gent/identity{query} HTTP/1.1\r\nHost: {}\r\n{lines}\r\n", server.address)
        };
        let nonce = "00112233445566778899aabbccddeeff";
        let (status, body) = ask(&server, &get(&format!("?nonce={nonce}"), "")).await;
        let identity: Identity = serde_json::from_str(&body).unwrap();
        assert_eq!((status, identity.pid, identity.data_dir), (200, None, None));
        assert_eq!(identity.proof, identity_proof(TOKEN, nonce, server.address.port()));
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let (_, body) = ask(&server, &get(&format!("?nonce={nonce}"), &bearer)).await;
        let identity: Identity = serde_json::from_str(&body).unwrap();
        assert_eq!((identity.pid, identity.data_dir), (Some(std::process::id()), Some("/data".into())));
        let long = format!("?nonce={}", "0".repeat(65));
        for query in ["", "?nonce=", "?nonce=0011", "?nonce=zz112233445566778899aabbccddeeff", &long] {
            assert_eq!(ask(&server, &get(query, "")).await.0, 400, "{query}");
        }
        assert_eq!(ask(&server, &get("", "Origin: null\r\n")).await.0, 403);
    });
}

#[test]
fn probes_need_no_token_and_readiness_goes_with_the_drain() {
    run(async {
        let server = Server::start();
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
        assert_eq!(ask(&server, &get("/livez")).await, (200, "alive".into()));
        assert_eq!(ask(&server, &get("/readyz")).await, (200, "ready".into()));
        server.lifecycle.enter(Phase::Draining);
        assert_eq!(ask(&server, &get("/readyz")).await.0, 503);
        assert_eq!(ask(&server, &get("/livez")).await.0, 200);
        let foreign = get("/livez").replace(&server.address.to_string(), "evil.com");
        assert_eq!(ask(&server, &foreign).await.0, 403);
    });
}

#[test]
fn beyond_32_connections_without_an_upgrade_the_oldest_makes_room_for_the_newest() {
    run(async {
        let server = Server::start();
        let mut socket = server.connect().await;
        let mut waiting = Vec::new();
        for _ in 0..WAITING {
            let mut stream = server.dial().await;
            // Half a request: it is being served, and waits.
            stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
            waiting.push(stream);
        }
        // A client that means it comes in at once.
        let mut newest = server.connect().await;
        newest.request(1, "server.status", &json!({})).await;
        assert_eq!(newest.read().await["result"], true);
        let mut displaced = waiting.remove(0);
        let closed = displaced.read(&mut [0; 1]).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
        // Neither those that came later nor what has been let in are touched.
        let rest = format!("Host: {}\r\nConnection: close\r\n\r\n", server.address);
        let mut second = waiting.remove(0);
        second.write_all(rest.as_bytes()).await.unwrap();
        let mut answer = String::new();
        second.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        socket.request(1, "server.status", &json!({})).await;
        assert_eq!(socket.read().await["result"], true);
        drop(waiting);
    });
}
