//! A client of another major version than the server it meets: it takes over from an older one and leaves a newer alone.

use std::fs::File;
use std::path::PathBuf;

use futures_util::{SinkExt, StreamExt};
use gent_client::{Entry, entry_path, identity_proof, token_path};
use gent_protocol::{Millis, PROTOCOL, ProtocolVersion};
use gent_server::{StartError, ensure_server};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::Place;

/// A server of another version that holds the data directory and answers `server.retire` with `reply`.
struct Other {
    data_dir: PathBuf,
    reply: Value,
    major: u32,
    lock: Option<File>,
}

impl Other {
    /// Serves until it has handed over; tells what it was asked.
    async fn start(place: &Place, major: u32, reply: Value) -> JoinHandle<Vec<String>> {
        let data_dir = place.data_dir();
        std::fs::create_dir_all(&data_dir).unwrap();
        let lock = File::create(data_dir.join("gent.lock")).unwrap();
        lock.try_lock().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        std::fs::write(token_path(&data_dir), "its token").unwrap();
        let entry = Entry {
            url: format!("http://127.0.0.1:{port}"),
            pid: std::process::id(),
            protocol: ProtocolVersion { major, minor: 0 },
            build: "b".into(),
            started: Millis(1),
            token_file: token_path(&data_dir),
        };
        std::fs::write(entry_path(&data_dir), serde_json::to_string(&entry).unwrap()).unwrap();
        let mut other = Self { data_dir, reply, major, lock: Some(lock) };
        tokio::spawn(async move {
            let mut asked = Vec::new();
            while other.lock.is_some() {
                let (stream, _) = listener.accept().await.unwrap();
                other.serve(stream, port, &mut asked).await;
            }
            asked
        })
    }

    async fn serve(&mut self, mut stream: TcpStream, port: u16, asked: &mut Vec<String>) {
        let mut head = vec![0; 4096];
        let n_read = stream.peek(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..n_read]).into_owned();
        if let Some(nonce) = head.split("nonce=").nth(1) {
            let nonce: String = nonce.chars().take_while(char::is_ascii_hexdigit).collect();
            let proof = identity_proof("its token", &nonce, port);
            let protocol = json!({ "major": self.major, "minor": 0 });
            let body = json!({ "protocol": protocol, "build": "b", "proof": proof }).to_string();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            // What was only peeked at would turn the end into a reset.
            tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await.unwrap();
            return;
        }
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(Message::Text(text))) = socket.next().await {
            let request: Value = serde_json::from_str(&text).unwrap();
            asked.push(request["method"].as_str().unwrap().to_owned());
            let mut answer = json!({ "jsonrpc": "2.0", "id": request["id"] });
            answer.as_object_mut().unwrap().extend(self.reply.as_object().unwrap().clone());
            let hands_over = self.reply.get("result").is_some();
            if hands_over {
                std::fs::remove_file(entry_path(&self.data_dir)).unwrap();
            }
            socket.send(Message::text(answer.to_string())).await.unwrap();
            if hands_over {
                self.lock = None;
                return;
            }
        }
    }
}

#[tokio::test]
async fn an_older_server_is_asked_to_retire_and_its_lock_waited_for() {
    let place = Place::new();
    let reply = json!({ "result": { "running": 1, "withinMs": 60_000 } });
    let other = Other::start(&place, PROTOCOL.major - 1, reply).await;
    let attached = ensure_server(&place.paths(), &place.environment()).await.unwrap();
    assert_ne!(attached.pid, Some(std::process::id()));
    assert_eq!(attached.identity.protocol.major, PROTOCOL.major);
    assert_eq!(other.await.unwrap(), ["server.retire"]);
}

#[tokio::test]
async fn an_older_server_that_refuses_is_named_in_one_sentence_and_left_alone() {
    let place = Place::new();
    let message = "there is no method \"server.retire\"";
    let data = json!({ "tag": "MethodNotFound", "message": message });
    let reply = json!({ "error": { "code": -32601, "message": message, "data": data } });
    let other = Other::start(&place, PROTOCOL.major - 1, reply).await;
    let refused = ensure_server(&place.paths(), &place.environment()).await.unwrap_err();
    assert!(matches!(refused, StartError::NotRetired { .. }), "{refused}");
    let sentence = refused.to_string();
    let pid = format!("(pid {})", std::process::id());
    assert!(sentence.contains(&pid) && sentence.contains(message), "{sentence}");
    assert!(sentence.contains("gent server stop") && !sentence.contains('\n'), "{sentence}");
    other.abort();
}

#[tokio::test]
async fn a_newer_server_is_not_asked_to_go() {
    let place = Place::new();
    let other = Other::start(&place, PROTOCOL.major + 1, json!({})).await;
    let refused = ensure_server(&place.paths(), &place.environment()).await.unwrap_err();
    assert!(matches!(refused, StartError::Newer { .. }), "{refused}");
    assert!(refused.to_string().contains("update gent"), "{refused}");
    other.abort();
}
