//! Owns a small HTTP server over raw TCP that answers as told, in pieces of a chosen size, and keeps what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// With the last chunk.
    Clean,
    /// With a closed connection where more was promised.
    Cut,
    /// Not at all.
    Silent,
    /// With keep-alive comments without end.
    Comments,
    /// With `ping` events without end.
    Pings,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub piece: usize,
    pub end: End,
}

impl Reply {
    pub(crate) fn stream(body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, body: body.into(), piece: usize::MAX, end: End::Clean }
    }

    pub(crate) fn json(status: u16, body: Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: body.to_string().into_bytes(), piece: usize::MAX, end: End::Clean }
    }

    pub(crate) fn pieces(mut self, piece: usize) -> Self {
        self.piece = piece;
        self
    }

    pub(crate) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A recorded stream.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/streams").join(name);
    std::fs::read(path).unwrap()
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub connection: usize,
    pub line: String,
    /// In lower case.
    pub head: String,
    pub body: String,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Answer = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The server; it lives as long as the test's runtime.
pub(crate) struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    closed: Arc<Notify>,
}

impl Server {
    /// Answers each request with the next of `replies`, then with 404.
    pub(crate) async fn script(replies: Vec<Reply>) -> Self {
        let replies = Mutex::new(VecDeque::from(replies));
        Self::start(move |_| {
            let next = replies.lock().unwrap().pop_front();
            next.unwrap_or_else(|| Reply::json(404, Value::Null))
        })
        .await
    }

    /// Answers each request with what `answer` makes of it.
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer): (_, Arc<Answer>) = (Arc::clone(&seen), Arc::new(answer));
        let closed = Arc::new(Notify::new());
        let ended = Arc::clone(&closed);
        tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                connection += 1;
                let (log, answer, ended) = (Arc::clone(&log), Arc::clone(&answer), Arc::clone(&ended));
                tokio::spawn(async move {
                    serve(stream, connection, log, answer).await;
                    ended.notify_one();
                });
            }
        });
        Self { port, seen, closed }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until a connection has ended.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, connection: usize, log: Arc<Mutex<Vec<Seen>>>, answer: Arc<Answer>) {
    while let Some(seen) = read_request(&mut stream, connection).await {
        log.lock().unwrap().push(seen.clone());
        if write_reply(&mut stream, answer(&seen)).await.is_none() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, connection: usize) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let line = head.lines().next().unwrap().to_owned();
    let head = head.to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes[head_end..].to_vec()).unwrap();
    Some(Seen { connection, line, head, body })
}

/// None when the connection is over.
async fn write_reply(stream: &mut TcpStream, reply: Reply) -> Option<()> {
    let mut head = format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    for piece in reply.body.chunks(reply.piece.min(reply.body.len().max(1))) {
        write_chunk(stream, piece).await?;
    }
    match reply.end {
        End::Clean => stream.write_all(b"0\r\n\r\n").await.ok(),
        End::Cut => None,
        // Until the other side closes.
        End::Silent => {
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest).await);
            None
        }
        End::Comments => loop {
            write_chunk(stream, b": ping\n\n").await?;
        },
        End::Pings => loop {
            write_chunk(stream, b"event: ping\ndata: {\"type\":\"ping\"}\n\n").await?;
        },
    }
}

async fn write_chunk(stream: &mut TcpStream, piece: &[u8]) -> Option<()> {
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend_from_slice(piece);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk).await.ok()
}
