//! Owns the scripted model server: it listens on loopback, answers by the book and logs what arrives.
//! Never guesses: a request the script has no answer for is refused.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::answer::{Answer, Api, Ending, Piece};
use super::book::{Book, Script};
use super::chat::ChatEncoder;
use super::gate::{Gate, Gates};
use super::http::{HttpConnection, HttpRequest};
use super::log::{Arrived, Body, Log, LoggedRequest};
use super::messages::MessagesEncoder;
use super::scenario::Scenario;

/// Bytes that are gathered before a write, where no delay is asked for.
const WRITE_BYTES: usize = 16 << 10;

/// Answers by what a whole request says; none leaves it to the script.
type Rule = fn(&Body) -> Option<Answer>;

/// How a scripted server is set up.
#[derive(Debug, Default)]
pub struct Scripted {
    script: Script,
    rule: Option<Rule>,
    key: Option<String>,
    port: u16,
}

impl Scripted {
    /// A server that answers with `script`.
    pub fn new(script: Script) -> Self {
        Self { script, ..Self::default() }
    }

    /// Asks this rule before the script, so that a request which is repeated after a restart is answered as before.
    pub fn ruled_by(mut self, rule: Rule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Refuses every request that does not come with this key.
    pub fn demanding_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Listens on this port; any when it is 0.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Starts it on the current runtime. It ends when the value is dropped.
    pub async fn start(self) -> Result<ScriptedServer> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], self.port))).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            book: Mutex::new(Book::new(self.script)),
            rule: self.rule,
            gates: Gates::default(),
            log: Log::new(),
            key: self.key,
            refused: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(ScriptedServer { address, shared, running: Running::Task(serving.abort_handle()) })
    }

    /// Starts it on a thread of its own, for measurements.
    pub fn start_on_thread(self) -> Result<ScriptedServer> {
        let (answer, started) = std::sync::mpsc::sync_channel(1);
        std::thread::Builder::new().name("scripted-model".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async move {
                if answer.send(self.start().await).is_ok() {
                    std::future::pending::<()>().await;
                }
            });
        })?;
        let mut server = started.recv().context("the scripted server did not start")??;
        server.running = Running::Thread;
        Ok(server)
    }
}

/// A scripted server that runs.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: Running,
}

enum Running {
    Task(tokio::task::AbortHandle),
    Thread,
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        match &self.running {
            Running::Task(task) => task.abort(),
            Running::Thread => {}
        }
    }
}

struct Shared {
    book: Mutex<Book>,
    rule: Option<Rule>,
    gates: Gates,
    log: Log,
    key: Option<String>,
    refused: AtomicUsize,
}

impl ScriptedServer {
    /// Where it listens, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The key it demands.
    pub fn key(&self) -> Option<&str> {
        self.shared.key.as_deref()
    }

    /// How many requests came without the key it demands. They are not among the [`requests`](Self::requests).
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Its gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        self.shared.gates.get(name)
    }

    /// Adds answers for requests whose last user message contains `word`.
    pub fn script_for(&self, word: &str, script: Script) {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner).put(Some(word), script);
    }

    /// Adds answers after the last one.
    pub fn script(&self, script: Script) {
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner).put(None, script);
    }

    /// Waits until the model was asked `number` times and returns that request.
    pub async fn request(&self, number: usize) -> Result<Arc<LoggedRequest>> {
        self.shared.log.request(number).await
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Arc<LoggedRequest>> {
        self.shared.log.all()
    }

    /// Forgets the requests so far; numbers begin at 1 again.
    pub fn forget(&self) {
        self.shared.log.clear();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        if let Ok(connection) = HttpConnection::new(stream) {
            connections.spawn(async move {
                // A client that goes away in the middle of an answer is what many scripts are about.
                let _gone = converse(connection, &shared).await.is_err();
            });
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(mut connection: HttpConnection, shared: &Shared) -> Result<()> {
    while let Some(request) = connection.request().await? {
        let body_ns = shared.log.now_ns();
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        if !key_fits(&request, shared.key.as_deref()) {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            let error = json!({ "error": { "type": "authentication_error", "message": "the key is wrong" } });
            connection.json(401, &error, &[]).await?;
        } else if request.method == "GET" && path.ends_with("/models") {
            let model = json!({ "id": "scripted", "object": "model", "created": 0, "owned_by": "scripted" });
            connection.json(200, &json!({ "object": "list", "data": [model] }), &[]).await?;
        } else if request.method == "POST" && path.ends_with("/chat/completions") {
            answer(&mut connection, request, Api::Chat, body_ns, shared).await?;
        } else if request.method == "POST" && path.ends_with("/messages") {
            answer(&mut connection, request, Api::Messages, body_ns, shared).await?;
        } else {
            connection.json(404, &json!({ "error": { "message": "no such path" } }), &[]).await?;
        }
    }
    Ok(())
}

fn given_key(request: &HttpRequest) -> Option<&str> {
    let bearer = request.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
    bearer.or_else(|| request.headers.get("x-api-key").map(String::as_str))
}

fn key_fits(request: &HttpRequest, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| given_key(request) == Some(wanted))
}

async fn answer(
    connection: &mut HttpConnection,
    request: HttpRequest,
    api: Api,
    body_ns: u64,
    shared: &Shared,
) -> Result<()> {
    let key = given_key(&request).map(str::to_owned);
    let body = Body(serde_json::from_slice(&request.body).unwrap_or(Value::Null));
    let scenario = Scenario::of(api, &body);
    let answer = shared.rule.and_then(|rule| rule(&body)).unwrap_or_else(|| {
        let mut book = shared.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.answer(&body.last_user(api), scenario.clone())
    });
    let (id, round) = scenario.map(|scenario| (scenario.id, scenario.round)).unwrap_or_default();
    let logged = shared.log.push(Arrived {
        api,
        path: request.path,
        key,
        peer_port: connection.peer_port,
        bytes: request.body,
        body_ns,
        id,
        round,
        body,
    });
    if let Some(refusal) = &answer.refusal {
        connection.json(refusal.status, &refusal.body, &refusal.headers).await?;
        logged.mark_end(shared.log.now_ns());
        return Ok(());
    }
    stream(connection, &answer, &logged, shared).await
}

enum Encoder {
    Chat(ChatEncoder),
    Messages(MessagesEncoder),
}

impl Encoder {
    fn piece(&mut self, piece: &Piece) -> String {
        match self {
            Self::Chat(encoder) => encoder.piece(piece),
            Self::Messages(encoder) => encoder.piece(piece),
        }
    }
}

async fn stream(
    connection: &mut HttpConnection,
    answer: &Answer,
    logged: &LoggedRequest,
    shared: &Shared,
) -> Result<()> {
    let (mut encoder, opening) = match logged.api {
        Api::Chat => {
            let encoder = ChatEncoder::new(&logged.body.0);
            let opening = encoder.opening();
            (Encoder::Chat(encoder), opening)
        }
        Api::Messages => {
            let encoder = MessagesEncoder::new(&logged.body.0);
            let opening = encoder.opening(answer);
            (Encoder::Messages(encoder), opening)
        }
    };
    connection.begin_stream().await?;
    logged.mark_first(shared.log.now_ns());
    let mut waiting = opening;
    for piece in answer.sent_pieces() {
        if let Some(delay) = answer.delay {
            connection.chunk(&std::mem::take(&mut waiting)).await?;
            pause(delay).await;
        }
        if let Piece::Gate(name) = piece {
            connection.chunk(&std::mem::take(&mut waiting)).await?;
            shared.gates.get(name).pass().await;
        }
        waiting += &encoder.piece(piece);
        if waiting.len() >= WRITE_BYTES {
            connection.chunk(&std::mem::take(&mut waiting)).await?;
        }
    }
    if let Ending::CutAfter(_) = answer.ending {
        connection.chunk(&waiting).await?;
        anyhow::bail!("the script cuts the connection");
    }
    waiting += &match &mut encoder {
        Encoder::Chat(encoder) => encoder.ending(answer),
        Encoder::Messages(encoder) => encoder.ending(answer),
    };
    connection.last_chunk(&waiting).await?;
    logged.mark_end(shared.log.now_ns());
    Ok(())
}

/// The delay between deltas that a scenario asks for: part of the scripted model, not a wait for something. What is
/// shorter than the timer's millisecond is passed by yielding.
async fn pause(delay: Duration) {
    if delay >= Duration::from_millis(2) {
        let _elapsed = tokio::time::timeout(delay, std::future::pending::<()>()).await.is_err();
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "a model's own pace is real time")]
    let start = Instant::now();
    while start.elapsed() < delay {
        tokio::task::yield_now().await;
    }
}
