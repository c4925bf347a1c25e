//! Owns the attacks after the upgrade: too much, too often, in pieces, and never reading.

use anyhow::Result;
use gent_protocol::{CreatedSession, SessionEvents};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::harness::{Gent, RawSocket, within};

/// First byte of a frame: text that is not the last of its message, a continuation, a whole text.
const TEXT_BEGUN: u8 = 0x01;
const CONTINUATION: u8 = 0x00;
const WHOLE_TEXT: u8 = 0x81;

/// The head of a masked frame with a mask of zeros, so that its payload is sent as it is.
fn frame_head(first: u8, length: u64) -> Vec<u8> {
    let mut head = vec![first];
    match length {
        0..126 => head.push(0x80 | u8::try_from(length).unwrap_or(0)),
        _ => {
            head.push(0x80 | 127);
            head.extend_from_slice(&length.to_be_bytes());
        }
    }
    head.extend_from_slice(&[0; 4]);
    head
}

/// Sends until everything is sent or the server has had enough; returns the bytes that went out.
async fn pour(socket: &mut RawSocket, frames: impl Iterator<Item = Vec<u8>>) -> usize {
    let mut sent = 0;
    for bytes in frames {
        if socket.stream().write_all(&bytes).await.is_err() {
            break;
        }
        sent += bytes.len();
    }
    sent
}

/// One frame that says it has 100 MB, and as much of it as is taken: closed with 1009.
pub(crate) async fn large_frame(gent: &Gent) -> Result<Value> {
    let mut socket = RawSocket::open(gent).await?;
    let head = std::iter::once(frame_head(WHOLE_TEXT, 100 << 20));
    let body = std::iter::repeat_n(vec![b' '; 64 << 10], 1600);
    let sent = pour(&mut socket, head.chain(body)).await;
    let code = socket.close_code().await?;
    Ok(json!({ "sentBytes": sent, "closeCode": code, "expected": 1009, "holds": code == Some(1009) }))
}

/// 100 MB in fragments of 1 MiB: closed with 1009.
pub(crate) async fn large_fragments(gent: &Gent) -> Result<Value> {
    let mut socket = RawSocket::open(gent).await?;
    let frames = (0..100).map(|number| {
        let mut frame = frame_head(if number == 0 { TEXT_BEGUN } else { CONTINUATION }, 1 << 20);
        frame.resize(frame.len() + (1 << 20), b' ');
        frame
    });
    let sent = pour(&mut socket, frames).await;
    let code = socket.close_code().await?;
    Ok(json!({ "sentBytes": sent, "closeCode": code, "expected": 1009, "holds": code == Some(1009) }))
}

/// A message of a hundred thousand empty fragments: closed with 1008.
pub(crate) async fn empty_fragments(gent: &Gent) -> Result<Value> {
    let mut socket = RawSocket::open(gent).await?;
    let begin = std::iter::once(frame_head(TEXT_BEGUN, 0));
    let more = std::iter::repeat_n(frame_head(CONTINUATION, 0).repeat(1000), 100);
    let sent = pour(&mut socket, begin.chain(more)).await;
    let code = socket.close_code().await?;
    Ok(json!({ "sentBytes": sent, "closeCode": code, "expected": 1008, "holds": code == Some(1008) }))
}

/// Frames that are no requests and methods that are none: each answered with its code, the connection stays.
pub(crate) async fn malformed(gent: &Gent) -> Result<Value> {
    let mut socket = RawSocket::open(gent).await?;
    let deep = "[".repeat(100_000);
    let unknown = json!({ "jsonrpc": "2.0", "id": 1, "method": "no.such" }).to_string();
    let frames = [
        ("{", -32700),
        // No JSON reader goes as deep as it takes: to this one it is no JSON.
        (&deep, -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        ("3", -32600),
        (&unknown, -32601),
    ];
    let mut codes = Vec::new();
    for _ in 0..200 {
        for (frame, expected) in frames {
            socket.send(frame).await?;
            let code = socket.next().await?.pointer("/error/code").and_then(Value::as_i64);
            if code != Some(expected) {
                codes.push(json!({ "frame": frame.chars().take(20).collect::<String>(), "code": code }));
                codes.dedup();
            }
        }
    }
    Ok(json!({ "unexpected": codes, "holds": codes.is_empty() }))
}

async fn new_session(gent: &Gent) -> Result<CreatedSession> {
    Ok(gent.client().await?.call(gent.create()?).await?)
}

async fn session_with_a_long_message(gent: &Gent) -> Result<CreatedSession> {
    let (client, session) = (gent.client().await?, new_session(gent).await?);
    let send = gent_protocol::SendMessage {
        session_id: session.session_id.clone(),
        branch_id: session.branch_id.clone(),
        content: format!("TEXT:1 {}", "x".repeat(300_000)),
        request_id: session.session_id.as_str().parse().ok(),
        approval: None,
        env: Default::default(),
    };
    within("the turn", async { Ok(client.call(send).await?) }).await?;
    Ok(session)
}

fn request(gent: &Gent, id: usize, method: &str, params: &Value) -> String {
    let meta = json!({ "workspace": gent.place().workspace() });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params, "meta": meta }).to_string()
}

/// 10,000 prompts under one request id, whose turn takes its time: beyond 256 each is refused at once.
pub(crate) async fn requests_in_flight(gent: &Gent) -> Result<Value> {
    let session = new_session(gent).await?;
    let params = json!({
        "sessionId": session.session_id, "branchId": session.branch_id,
        "content": "TEXT:40 DELAY:250 ID:slow", "requestId": format!("{}-flood", session.session_id),
    });
    let mut socket = RawSocket::open(gent).await?;
    for id in 0..10_000 {
        socket.send(&request(gent, id, "message.send", &params)).await?;
    }
    let (mut refused, mut done, mut other) = (0, 0, Vec::new());
    for _ in 0..10_000 {
        let answer = socket.next().await?;
        match answer.pointer("/error/data/tag").and_then(Value::as_str) {
            Some("LimitExceeded") => refused += 1,
            Some(tag) => other.push(tag.to_owned()),
            None => done += 1,
        }
    }
    other.dedup();
    let holds = refused >= 9000 && done >= 1;
    Ok(json!({ "refused": refused, "done": done, "other": other, "holds": holds }))
}

/// A client that asks for large answers and reads none: it is cut off, and costs no memory meanwhile.
pub(crate) async fn unread_answers(gent: &Gent) -> Result<Value> {
    let session = session_with_a_long_message(gent).await?;
    let params = json!({ "sessionId": session.session_id, "branchId": session.branch_id });
    let mut socket = RawSocket::open(gent).await?;
    let frames = (0..2000).map(|id| {
        let text = request(gent, id, "session.getSnapshot", &params);
        let mut frame = frame_head(WHOLE_TEXT, text.len() as u64);
        frame.extend_from_slice(text.as_bytes());
        frame
    });
    // All of it fits the system's buffers: only who waits before it reads has not read.
    let sent = pour(&mut socket, frames).await;
    let code = close_code_after_patience(&mut socket).await?;
    Ok(json!({ "sentBytes": sent, "closeCode": code, "expected": 4408, "holds": code == Some(4408) }))
}

/// Reads nothing for longer than the server's patience of five seconds, then up to its close.
async fn close_code_after_patience(socket: &mut RawSocket) -> Result<Option<u16>> {
    let patience = std::time::Duration::from_secs(7);
    let _elapsed = tokio::time::timeout(patience, std::future::pending::<()>()).await.is_err();
    socket.close_code().await
}

/// A client that opens 64 streams over a large history and reads none of them: it is cut off.
pub(crate) async fn unread_stream(gent: &Gent) -> Result<Value> {
    let session = session_with_a_long_message(gent).await?;
    let mut socket = RawSocket::open(gent).await?;
    let from =
        SessionEvents { session_id: session.session_id.clone(), branch_id: None, after: None, store: None };
    for id in 0..64 {
        socket.send(&request(gent, id, "session.events", &serde_json::to_value(&from)?)).await?;
    }
    let code = close_code_after_patience(&mut socket).await?;
    Ok(json!({ "closeCode": code, "expected": 4408, "holds": code == Some(4408) }))
}
