//! Clients that mean harm or have died: each is refused or bounded, and the socket is gone afterwards.

use std::sync::atomic::Ordering::SeqCst;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Server, TOKEN, run};

/// One frame with a mask of zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first, 0x80 | payload.len() as u8, 0, 0, 0, 0];
    bytes.extend(payload);
    bytes
}

/// Reads to the end and returns the code of the close frame in it.
async fn read_close(stream: &mut TcpStream) -> Option<u16> {
    let mut bytes = Vec::new();
    // A reset after the close frame loses nothing of it.
    let _reset = stream.read_to_end(&mut bytes).await.is_err();
    let at = bytes.iter().position(|byte| *byte == 0x88)?;
    Some(u16::from_be_bytes([*bytes.get(at + 2)?, *bytes.get(at + 3)?]))
}

#[test]
fn a_flood_of_empty_fragments_is_closed_with_1008_b165() {
    run(async {
        let server = Server::start();
        let mut stream = server.raw_socket().await;
        let mut flood = frame(0x01, b"");
        for _ in 0..20_000 {
            flood.extend(frame(0x00, b""));
        }
        flood.extend(frame(0x88, &1000u16.to_be_bytes()));
        stream.write_all(&flood).await.unwrap();
        assert_eq!(read_close(&mut stream).await, Some(1008));
        server.connections.open_until(|open| open == 0).await;
    });
}

#[test]
fn a_frame_of_100_mb_is_closed_with_1009_at_its_head() {
    run(async {
        let server = Server::start();
        let mut stream = server.raw_socket().await;
        let mut head = vec![0x81, 0x80 | 127];
        head.extend((100u64 * 1024 * 1024).to_be_bytes());
        head.extend([0; 4]);
        stream.write_all(&head).await.unwrap();
        let mut start = [0; 4];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!((start[0], u16::from_be_bytes([start[2], start[3]])), (0x88, 1009));
        // The client goes on all the same: it is skipped, not kept, and its close is understood.
        let megabyte = vec![b'x'; 1024 * 1024];
        for _ in 0..100 {
            stream.write_all(&megabyte).await.unwrap();
        }
        stream.write_all(&frame(0x88, &1009u16.to_be_bytes())).await.unwrap();
        server.connections.open_until(|open| open == 0).await;
    });
}

#[test]
fn binary_messages_bad_text_and_unmasked_frames_have_their_codes() {
    run(async {
        let server = Server::start();
        for (bytes, code) in
            [(frame(0x82, b"x"), 1003), (frame(0x81, &[0xff]), 1007), (vec![0x81, 1, b'x'], 1002)]
        {
            let mut stream = server.raw_socket().await;
            stream.write_all(&bytes).await.unwrap();
            stream.write_all(&frame(0x88, &u16::to_be_bytes(code))).await.unwrap();
            assert_eq!(read_close(&mut stream).await, Some(code));
        }
    });
}

#[test]
fn ten_thousand_requests_are_each_answered_or_refused_while_the_client_reads_late() {
    run(async {
        let server = Server::start();
        let client = server.connect().await;
        let (mut write, mut read) = futures_util::StreamExt::split(client.0);
        let writer = actix_web::rt::spawn(async move {
            for id in 0..10_000 {
                let text = json!({"jsonrpc": "2.0", "id": id, "method": "message.send", "meta": {"workspace": super::WORKSPACE}});
                let message = tokio_tungstenite::tungstenite::Message::text(text.to_string());
                futures_util::SinkExt::send(&mut write, message).await.unwrap();
            }
            write
        });
        let mut n_refused = 0;
        while n_refused < 10_000 - crate::rpc::calls::REQUESTS {
            let message = futures_util::StreamExt::next(&mut read).await.unwrap().unwrap();
            assert!(message.into_text().unwrap().contains("LimitExceeded"));
            n_refused += 1;
        }
        assert_eq!(server.played.waiting.load(SeqCst), crate::rpc::calls::REQUESTS);
        drop((writer.await.unwrap(), read));
        server.connections.open_until(|open| open == 0).await;
    });
}

#[test]
fn a_subscriber_that_never_reads_costs_a_bounded_queue_b163() {
    run(async {
        let server = Server::start();
        let mut stalled = server.raw_socket().await;
        let text =
            json!({"jsonrpc": "2.0", "id": 1, "method": "session.events", "params": {"sessionId": "endless"},
        "meta": {"workspace": super::WORKSPACE}})
            .to_string();
        let mut bytes = vec![0x81, 0x80 | 126];
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(text.as_bytes());
        stalled.write_all(&bytes).await.unwrap();
        // A neighbour that is answered a hundred times shows that the stalled one has been served as far as it goes.
        let mut client = server.connect().await;
        let mut pulled = 0;
        for id in 0..100 {
            client.request(id, "server.status", &json!({})).await;
            assert_eq!(client.read().await["result"], true);
            pulled = server.played.pulled.load(SeqCst);
        }
        // What is pulled lies in the kernel's buffers but for one batch that waits and one that is being written.
        assert!(pulled < 64, "{pulled} batches of 256 KiB were pulled for a client that reads none");
    });
}

#[test]
fn a_client_that_asks_for_large_answers_and_reads_none_costs_a_bounded_number_of_them() {
    run(async {
        let server = Server::start();
        let mut stalled = server.raw_socket().await;
        for id in 0..250 {
            let meta = json!({"workspace": super::WORKSPACE});
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "session.getSnapshot", "params": {}, "meta": meta});
            let text = request.to_string();
            let mut bytes = vec![0x81, 0x80 | 126];
            bytes.extend((text.len() as u16).to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(text.as_bytes());
            stalled.write_all(&bytes).await.unwrap();
        }
        // A neighbour that is answered a hundred times shows that the stalled one has been served as far as it goes.
        let mut client = server.connect().await;
        for id in 0..100 {
            client.request(id, "server.status", &json!({})).await;
            assert_eq!(client.read().await["result"], true);
        }
        let n_made = server.played.snapshots.load(SeqCst);
        // What is made lies in the kernel's buffers but for the few that wait.
        assert!(n_made < 100, "{n_made} answers of 300 KB were made for a client that reads none");
    });
}

#[test]
fn a_peer_that_dies_without_a_word_is_noticed() {
    run(async {
        let server = Server::start();
        let stream = server.raw_socket().await;
        server.connections.open_until(|open| open == 1).await;
        let stream = stream.into_std().unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(stream);
        server.connections.open_until(|open| open == 0).await;
    });
}

#[test]
fn a_slow_upgrade_with_the_token_in_the_query_is_no_way_in() {
    run(async {
        let server = Server::start();
        let request = server.upgrade("").replace("/rpc", &format!("/rpc?token={TOKEN}"));
        assert_eq!(super::ask(&server, &request).await.0, 401);
    });
}
