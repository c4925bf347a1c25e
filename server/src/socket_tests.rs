//! Tests the door and the socket as a client meets them: a real listener, a made-up dispatch behind it.

mod attacks;
mod calls;
mod door;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, SinkExt, StreamExt};
use gent_protocol::{Method, RpcError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::http::access::Hosts;
use crate::http::connections::Connections;
use crate::http::{Door, listen, take_port};
use crate::lifecycle::Lifecycle;
use crate::rpc::detached::Detached;
use crate::rpc::dispatch::{Batches, Called, Dispatch, Failure};

const TOKEN: &str = "0123456789abcdef";
const WORKSPACE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// What the made-up dispatch was asked and may be told.
#[derive(Default)]
struct Played {
    /// Calls of `message.send` and `queue.get` that wait.
    waiting: AtomicUsize,
    /// Those of them that were given up.
    dropped: AtomicUsize,
    /// Calls of `session.getSnapshot` that were worked on.
    snapshots: AtomicUsize,
    /// Calls of `steer.command` that were done.
    steered: AtomicUsize,
    /// Rings at each change of the two.
    changed: Notify,
    /// Batches that streams have pulled.
    pulled: AtomicUsize,
}

impl Played {
    /// Returns once `is_wanted` is true.
    async fn until(&self, is_wanted: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if is_wanted(self) {
                return;
            }
            changed.await;
        }
    }
}

/// `server.status` answers `true`, `message.send` and `queue.get` never answer, `steer.command` takes a moment, `session.getSnapshot` answers 300 KB,
/// `branch.list` panics, `server.hello` refuses the
/// client, everything else is not found. A stream of session `endless` never ends, of `three` it has three items.
#[derive(Clone, Default)]
struct Play(Arc<Played>);

struct Wait(Arc<Played>);

impl Drop for Wait {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl Dispatch for Play {
    fn call(&self, called: Called) -> LocalBoxFuture<'static, Result<String, Failure>> {
        let played = Arc::clone(&self.0);
        async move {
            match called.method {
                Method::ServerStatus => Ok("true".to_owned()),
                Method::ServerHello => Err(Failure::Close(4426, "another protocol".to_owned())),
                Method::BranchList => panic!("a broken handler"),
                Method::SessionGetSnapshot => {
                    played.snapshots.fetch_add(1, Ordering::SeqCst);
                    Ok(format!("\"{}\"", "x".repeat(300_000)))
                }
                Method::SteerCommand => {
                    tokio::task::yield_now().await;
                    played.steered.fetch_add(1, Ordering::SeqCst);
                    Ok("{}".to_owned())
                }
                Method::MessageSend | Method::QueueGet => {
                    let _wait = Wait(Arc::clone(&played));
                    played.waiting.fetch_add(1, Ordering::SeqCst);
                    played.changed.notify_waiters();
                    std::future::pending().await
                }
                _ => Err(RpcError::NotFoundError { message: "nothing".into() }.into()),
            }
        }
        .boxed_local()
    }

    fn subscribe(&self, called: Called) -> LocalBoxFuture<'static, Result<Box<dyn Batches>, Failure>> {
        let params: Value = serde_json::from_str(called.params.get()).unwrap();
        let left = if params["sessionId"] == "three" { 3 } else { usize::MAX };
        let stream: Box<dyn Batches> = Box::new(Numbers { left, played: Arc::clone(&self.0) });
        async move { Ok(stream) }.boxed_local()
    }
}

struct Numbers {
    left: usize,
    played: Arc<Played>,
}

impl Batches for Numbers {
    fn ready(&mut self) -> LocalBoxFuture<'_, ()> {
        std::future::ready(()).boxed_local()
    }

    fn take(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<Arc<str>>>, RpcError>> {
        async move {
            if self.left == 0 {
                return Ok(None);
            }
            self.left -= 1;
            self.played.pulled.fetch_add(1, Ordering::SeqCst);
            // As large as a batch may be, so that a client that does not read is soon full.
            let item: Arc<str> =
                if self.left < 3 { "1".into() } else { format!("\"{}\"", "x".repeat(256 * 1024)).into() };
            Ok(Some(vec![item]))
        }
        .boxed_local()
    }
}

/// Runs a test on a system of its own, as the program does.
fn run(test: impl Future<Output = ()>) {
    actix_web::rt::System::new().block_on(test);
}

/// A listening server.
struct Server {
    address: SocketAddr,
    played: Arc<Played>,
    lifecycle: Arc<Lifecycle>,
    connections: Arc<Connections>,
    detached: Arc<Detached>,
}

impl Server {
    fn start() -> Self {
        let (listener, address) = take_port("127.0.0.1", 0).unwrap();
        let play = Play::default();
        let played = Arc::clone(&play.0);
        let lifecycle = Arc::new(Lifecycle::new());
        let connections = Arc::new(Connections::new());
        let detached = Arc::new(Detached::new());
        let door = Door {
            dispatch: Arc::new(play),
            detached: Arc::clone(&detached),
            token: TOKEN.to_owned(),
            hosts: Hosts::new("127.0.0.1", address.port()),
            port: address.port(),
            data_dir: "/data".to_owned(),
            connections: Arc::clone(&connections),
            lifecycle: Arc::clone(&lifecycle),
        };
        let listening = listen(listener, Arc::new(door)).unwrap();
        actix_web::rt::spawn(listening.server);
        Self { address, played, lifecycle, connections, detached }
    }

    /// A raw connection.
    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The head of an upgrade with further header lines.
    fn upgrade(&self, lines: &str) -> String {
        format!(
            "GET /rpc HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n{lines}\r\n",
            self.address
        )
    }

    /// A raw socket after its upgrade.
    async fn raw_socket(&self) -> TcpStream {
        let mut stream = self.dial().await;
        let head = self.upgrade(&format!("Authorization: Bearer {TOKEN}\r\n"));
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 101"));
        stream
    }

    async fn connect(&self) -> Client {
        let mut request = format!("ws://{}/rpc", self.address).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
        Client(connect_async(request).await.unwrap().0)
    }
}

/// The head of an answer, byte by byte, so that nothing after it is taken.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Sends a request and reads the whole answer.
async fn ask(server: &Server, request: &str) -> (u16, String) {
    let mut stream = server.dial().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head
        .to_lowercase()
        .split("content-length: ")
        .nth(1)
        .map(|rest| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.unwrap();
    (status, String::from_utf8(body).unwrap())
}

struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Client {
    async fn send(&mut self, value: &Value) {
        self.text(&value.to_string()).await;
    }

    async fn text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    async fn request(&mut self, id: u64, method: &str, params: &Value) {
        let meta = json!({"workspace": WORKSPACE});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params, "meta": meta}))
            .await;
    }

    async fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn read(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.0.next().await.unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    async fn read_tag(&mut self) -> String {
        self.read().await["error"]["data"]["tag"].as_str().unwrap_or("no error").to_owned()
    }

    /// Reads to the end; the code of the close, if one came.
    async fn read_close(&mut self) -> Option<u16> {
        let mut code = None;
        while let Some(message) = self.0.next().await {
            match message {
                Ok(Message::Close(frame)) => code = frame.map(|CloseFrame { code, .. }| code.into()),
                Ok(_) => {}
                Err(Error::ConnectionClosed | Error::Protocol(_) | Error::Io(_)) => return code,
                Err(other) => panic!("{other}"),
            }
        }
        code
    }
}
