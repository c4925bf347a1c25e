//! Owns the stage of a run: connections, the server's lines, what was written, signals.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use gent_client::{Client, Connector, LinkError, ServerUrl, connect_over};
use gent_protocol::{RequestId, Secret, SessionId};
use gent_tui::{
    AttachRequest, Grant, Interrupt, Keyboard, Output, OutputFormat, RunIds, RunOutcome, RunRequest,
    SessionChoice, Terminals, attach, run,
};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Hands out connections that the test has prepared; none left: nobody listens.
struct Prepared(VecDeque<Client>);

impl Connector for Prepared {
    async fn connect(&mut self) -> Result<Client, LinkError> {
        self.0.pop_front().ok_or_else(|| LinkError::Unreachable("nobody listens".into()))
    }
}

/// What was written, in order: `out: …` and `err: …`.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<String>>>);

impl Written {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn out(&self) -> String {
        self.all().iter().filter_map(|line| line.strip_prefix("out: ")).collect()
    }

    pub(crate) fn err(&self) -> Vec<String> {
        self.all().iter().filter_map(|line| line.strip_prefix("err: ").map(str::to_owned)).collect()
    }
}

/// How standard output behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdout {
    Open,
    Closed,
    Stuck,
}

struct Recorder {
    written: Written,
    stdout: Stdout,
}

impl Output for Recorder {
    async fn answer(&mut self, text: &str) -> std::io::Result<()> {
        match self.stdout {
            Stdout::Open => {}
            Stdout::Closed => return Err(std::io::ErrorKind::BrokenPipe.into()),
            Stdout::Stuck => {
                self.written.0.lock().unwrap().push("stuck".to_owned());
                std::future::pending().await
            }
        }
        self.written.0.lock().unwrap().push(format!("out: {text}"));
        Ok(())
    }

    async fn note(&mut self, line: &str) {
        self.written.0.lock().unwrap().push(format!("err: {line}"));
    }
}

/// A run, or an attached client, and the other ends of everything it touches.
pub(crate) struct Scene<T = RunOutcome> {
    pub(crate) peers: VecDeque<Peer>,
    pub(crate) written: Written,
    pub(crate) signals: mpsc::Sender<Interrupt>,
    /// What is typed.
    pub(crate) hands: DuplexStream,
    pub(crate) running: JoinHandle<T>,
}

pub(crate) fn request(format: OutputFormat) -> RunRequest {
    let id = |text: &str| RequestId::parse(text).unwrap();
    RunRequest {
        prompt: "Hello there\nfriend".into(),
        cwd: "/w".into(),
        session: SessionChoice::New { agent: None },
        model: None,
        grant: Grant::Nothing,
        env: Default::default(),
        keeps_session: true,
        format,
        timeout: None,
        ids: RunIds { create: id("create"), send: id("r"), cancel: id("cancel") },
        terminals: Terminals::default(),
        verbose: false,
    }
}

pub(crate) async fn begin(request: RunRequest, n_connections: usize) -> Scene {
    begin_with(request, n_connections, Stdout::Open).await
}

pub(crate) async fn begin_with(request: RunRequest, n_connections: usize, stdout: Stdout) -> Scene {
    stage(n_connections, stdout, |connector, mut interrupts, _lines, mut recorder| async move {
        run(connector, &request, &mut interrupts, &mut Keyboard::nobody(), &mut recorder).await
    })
    .await
}

/// A run with a person at its terminal.
pub(crate) async fn begin_asking(request: RunRequest, n_connections: usize) -> Scene {
    stage(n_connections, Stdout::Open, |connector, mut interrupts, lines, mut recorder| async move {
        let mut keyboard = Keyboard::new(lines, true);
        run(connector, &request, &mut interrupts, &mut keyboard, &mut recorder).await
    })
    .await
}

/// A client attached to session `s`.
pub(crate) async fn begin_attached(n_connections: usize, is_terminal: bool, stdout: Stdout) -> Scene<u8> {
    let request = AttachRequest {
        session_id: SessionId::parse("s").unwrap(),
        branch_id: None,
        cwd: "/w".into(),
        id: RequestId::parse("k").unwrap(),
        dim: false,
        verbose: false,
    };
    stage(n_connections, stdout, move |connector, mut interrupts, lines, mut recorder| async move {
        let mut keyboard = Keyboard::new(lines, is_terminal);
        attach(connector, &request, &mut interrupts, &mut keyboard, &mut recorder).await
    })
    .await
}

async fn stage<T, F>(
    n_connections: usize,
    stdout: Stdout,
    play: impl FnOnce(Prepared, mpsc::Receiver<Interrupt>, BufReader<DuplexStream>, Recorder) -> F,
) -> Scene<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (mut clients, mut peers) = (VecDeque::new(), VecDeque::new());
    for _ in 0..n_connections {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (url, token) = (ServerUrl::new("127.0.0.1", 1), Secret::new("secret"));
        let (client, socket) =
            tokio::join!(connect_over(near, &url, &token), tokio_tungstenite::accept_async(far));
        clients.push_back(client.unwrap());
        peers.push_back(Peer { socket: socket.unwrap(), last: 0 });
    }
    let written = Written::default();
    let (signals, interrupts) = mpsc::channel(4);
    let (hands, lines) = tokio::io::duplex(4096);
    let recorder = Recorder { written: written.clone(), stdout };
    let running = tokio::spawn(play(Prepared(clients), interrupts, BufReader::new(lines), recorder));
    Scene { peers, written, signals, hands, running }
}

impl<T> Scene<T> {
    pub(crate) fn peer(&mut self) -> Peer {
        self.peers.pop_front().unwrap()
    }

    /// Types a line.
    pub(crate) async fn type_line(&mut self, line: &str) {
        self.hands.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Waits until something was written.
    pub(crate) async fn see(&self, text: &str) {
        let is_there = |written: &Written| {
            written.out().contains(text) || written.all().iter().any(|line| line.contains(text))
        };
        while !is_there(&self.written) {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn end(self) -> (T, Written) {
        (self.running.await.unwrap(), self.written)
    }
}

/// The server's end of one connection.
pub(crate) struct Peer {
    socket: WebSocketStream<DuplexStream>,
    /// The number of the last event said.
    pub(crate) last: i64,
}

impl Peer {
    pub(crate) async fn receive(&mut self) -> Value {
        loop {
            match self.socket.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(_) => return json!({ "method": "closed" }),
                _ => {}
            }
        }
    }

    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let frame = self.receive().await;
        assert_eq!(frame["method"], method, "{frame}");
        frame
    }

    async fn say(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, tag: &str, fields: Value) {
        let mut data = fields;
        data["tag"] = json!(tag);
        let error = json!({ "code": -32001, "message": format!("refused as {tag}"), "data": data });
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    /// Says the next event of the session.
    pub(crate) async fn event(&mut self, event: Value) {
        self.last += 1;
        let envelope = envelope(self.last, event);
        let params = json!({ "subscription": "sub", "items": [envelope] });
        self.say(json!({ "jsonrpc": "2.0", "method": "stream.item", "params": params })).await;
    }

    /// Says several events in one frame.
    pub(crate) async fn events(&mut self, events: Vec<Value>) {
        let mut items = Vec::new();
        for event in events {
            self.last += 1;
            items.push(envelope(self.last, event));
        }
        let params = json!({ "subscription": "sub", "items": items });
        self.say(json!({ "jsonrpc": "2.0", "method": "stream.item", "params": params })).await;
    }

    /// Opens the stream of the session; answers with its parameters.
    pub(crate) async fn follow(&mut self) -> Value {
        let events = self.expect("session.events").await;
        self.answer(&events, json!({ "subscription": "sub" })).await;
        events["params"].clone()
    }

    /// Makes the session, opens its stream, takes the prompt and tells the model.
    pub(crate) async fn open(&mut self) -> Value {
        let create = self.expect("session.create").await;
        self.answer(&create, json!({ "sessionId": "s", "branchId": "b", "name": "Hello there" })).await;
        self.follow().await;
        let send = self.expect("message.send").await;
        self.tell_model().await;
        send
    }

    /// Answers which model it is.
    pub(crate) async fn tell_model(&mut self) {
        let ask = self.expect("session.getSnapshot").await;
        self.answer(&ask, snapshot(0)).await;
    }

    pub(crate) async fn prompt_received(&mut self) {
        self.event(message("message:r", "user", json!([{ "type": "text", "text": "Hello" }]))).await;
    }

    pub(crate) async fn step_started(&mut self, step: u32, run: &str) {
        self.event(json!({
            "_tag": "StreamStarted", "sessionId": "s", "branchId": "b", "messageId": "message:r",
            "step": step, "run": run,
        }))
        .await;
    }

    pub(crate) async fn chunk(&mut self, step: u32, run: &str, offset: usize, chunk: &str) {
        self.event(json!({
            "_tag": "StreamChunk", "sessionId": "s", "branchId": "b", "messageId": "message:r",
            "step": step, "run": run, "offset": offset, "chunk": chunk,
        }))
        .await;
    }

    pub(crate) async fn answered(&mut self, step: u32, text: &str) {
        let id = format!("message:r:assistant:{step}");
        self.event(message(&id, "assistant", json!([{ "type": "text", "text": text }]))).await;
    }

    pub(crate) async fn tool(&mut self, tag: &str, id: &str, summary: Option<&str>) {
        let mut event = json!({
            "_tag": tag, "sessionId": "s", "branchId": "b", "toolCallId": id, "toolName": "read",
        });
        if let Some(summary) = summary {
            event["summary"] = json!(summary);
        }
        self.event(event).await;
    }

    /// Shows a question about a command.
    pub(crate) async fn question(&mut self, id: &str) {
        self.event(json!({
            "_tag": "InteractionPresented", "sessionId": "s", "branchId": "b", "requestId": id,
            "text": "Run it?", "metadata": guardrail(),
        }))
        .await;
    }

    /// A question is over.
    pub(crate) async fn resolved(&mut self, id: &str, fields: Value) {
        let mut event = json!({
            "_tag": "InteractionResolved", "sessionId": "s", "branchId": "b", "requestId": id, "approved": true,
        });
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        self.event(event).await;
    }

    pub(crate) async fn error(&mut self, text: &str) {
        self.event(json!({ "_tag": "ErrorOccurred", "sessionId": "s", "branchId": "b", "error": text }))
            .await;
    }

    pub(crate) async fn completed(&mut self, fields: Value) {
        let mut event = json!({
            "_tag": "TurnCompleted", "sessionId": "s", "branchId": "b", "messageId": "message:r",
            "durationMs": 12, "streamFailed": false,
        });
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        self.event(event).await;
    }
}

/// What a question about a command carries.
pub(crate) fn guardrail() -> Value {
    json!({ "type": "bash-guardrail", "class": "destructive", "reason": "it removes files", "command": "rm -rf x" })
}

pub(crate) fn envelope(id: i64, event: Value) -> Value {
    json!({ "id": id, "sessionId": "s", "branchId": "b", "createdAt": 7, "event": event })
}

pub(crate) fn message(id: &str, role: &str, parts: Value) -> Value {
    let message = json!({
        "_tag": "regular", "id": id, "sessionId": "s", "branchId": "b", "role": role, "parts": parts,
        "createdAt": 7,
    });
    json!({ "_tag": "MessageReceived", "message": message })
}

pub(crate) fn snapshot(last: i64) -> Value {
    json!({
        "sessionId": "s", "branchId": "b", "messages": [], "truncated": false, "lastEventId": last, "store": "st",
        "agent": "main", "resolvedModelId": "demo/demo", "resolvedModelReason": "it was asked for",
        "runtime": { "_tag": "Idle", "queue": { "steering": [], "followUp": [] } },
        "metrics": { "turns": 0, "durationMs": 0, "costUsd": 0.0, "lastInputTokens": 0 },
    })
}
