//! Owns the log of what reached the scripted server: every request with its bytes and its times.
//! Times are nanoseconds of a monotonic clock that starts with the server.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::sync::watch;

use super::answer::Api;
use crate::harness::within;

/// A request's body, parsed.
#[derive(Debug, Clone, Default)]
pub struct Body(pub Value);

/// One request to the model.
#[derive(Debug)]
pub struct LoggedRequest {
    /// From 1, in the order in which the bodies were complete.
    pub number: usize,
    /// Its format.
    pub api: Api,
    /// Its path.
    pub path: String,
    /// The key it came with.
    pub key: Option<String>,
    /// The port of the client's end: requests of one connection share it.
    pub peer_port: u16,
    /// The body as it arrived.
    pub bytes: Vec<u8>,
    /// The body, parsed.
    pub body: Body,
    /// `ID:` of the marker.
    pub id: String,
    /// The round of the marker, from 1.
    pub round: usize,
    /// When the whole body was there.
    pub body_ns: u64,
    first_ns: OnceLock<u64>,
    end_ns: watch::Sender<Option<u64>>,
}

/// The log of one server.
#[derive(Debug, Clone)]
pub(crate) struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    requests: Mutex<Vec<Arc<LoggedRequest>>>,
    count: watch::Sender<usize>,
}

/// What is known of a request when its body is complete.
pub(crate) struct Arrived {
    pub(crate) api: Api,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) peer_port: u16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) body_ns: u64,
    pub(crate) id: String,
    pub(crate) round: usize,
    pub(crate) body: Body,
}

impl Log {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the log measures real time")]
        let start = Instant::now();
        Self(Arc::new(Inner { start, requests: Mutex::default(), count: watch::Sender::new(0) }))
    }

    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.0.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn push(&self, arrived: Arrived) -> Arc<LoggedRequest> {
        let mut requests = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let request = Arc::new(LoggedRequest {
            number: requests.len() + 1,
            api: arrived.api,
            path: arrived.path,
            key: arrived.key,
            peer_port: arrived.peer_port,
            bytes: arrived.bytes,
            body: arrived.body,
            id: arrived.id,
            round: arrived.round,
            body_ns: arrived.body_ns,
            first_ns: OnceLock::new(),
            end_ns: watch::Sender::new(None),
        });
        requests.push(Arc::clone(&request));
        drop(requests);
        self.0.count.send_modify(|count| *count += 1);
        request
    }

    pub(crate) fn all(&self) -> Vec<Arc<LoggedRequest>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn clear(&self) {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.0.count.send_replace(0);
    }

    pub(crate) async fn request(&self, number: usize) -> Result<Arc<LoggedRequest>> {
        let mut count = self.0.count.subscribe();
        within(&format!("request {number} at the model"), async {
            count.wait_for(|count| *count >= number).await?;
            self.all().get(number.saturating_sub(1)).cloned().context("the log was cleared")
        })
        .await
    }
}

impl LoggedRequest {
    pub(crate) fn mark_first(&self, at_ns: u64) {
        let _again = self.first_ns.set(at_ns).is_err();
    }

    pub(crate) fn mark_end(&self, at_ns: u64) {
        self.end_ns.send_replace(Some(at_ns));
    }

    /// When the first byte of the answer was written.
    pub fn first_ns(&self) -> Option<u64> {
        self.first_ns.get().copied()
    }

    /// When the last byte of the answer was written; none while it streams or when the client went away.
    pub fn end_ns(&self) -> Option<u64> {
        *self.end_ns.borrow()
    }

    /// The system prompt, as JSON text, whole.
    pub fn system(&self) -> String {
        match self.api {
            Api::Messages => self.body.0.get("system").map(Value::to_string).unwrap_or_default(),
            Api::Chat => {
                let messages = self.body.messages();
                let system = messages.iter().take_while(|m| role(m) == "system").map(Value::to_string);
                system.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// The tool declarations, as JSON text.
    pub fn tools(&self) -> String {
        self.body.0.get("tools").map(Value::to_string).unwrap_or_default()
    }

    /// The results of tool calls in the request, in order, as text.
    pub fn tool_results(&self) -> Vec<String> {
        let mut results = Vec::new();
        for message in self.body.messages() {
            match self.api {
                Api::Chat if role(message) == "tool" => results.push(text_of(message.get("content"))),
                Api::Chat => {}
                Api::Messages => {
                    let blocks = message.get("content").and_then(Value::as_array);
                    let blocks = blocks.into_iter().flatten();
                    let blocks = blocks.filter(|block| block.get("type") == Some(&"tool_result".into()));
                    results.extend(blocks.map(|block| text_of(block.get("content"))));
                }
            }
        }
        results
    }
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

impl Body {
    /// The conversation.
    pub fn messages(&self) -> &[Value] {
        self.0.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The text of the last user message that is no tool result.
    pub fn last_user(&self, api: Api) -> String {
        self.last_user_with(api, |text| !text.is_empty()).map(|(text, _)| text).unwrap_or_default()
    }

    /// The newest user message whose text `fits`, and how many tool results follow it.
    pub(crate) fn last_user_with(&self, api: Api, fits: impl Fn(&str) -> bool) -> Option<(String, usize)> {
        let mut results = 0;
        for message in self.messages().iter().rev() {
            let content = message.get("content");
            match api {
                Api::Chat if role(message) == "tool" => results += 1,
                Api::Chat => {}
                Api::Messages => {
                    let blocks = content.and_then(Value::as_array).into_iter().flatten();
                    results +=
                        blocks.filter(|block| block.get("type") == Some(&"tool_result".into())).count();
                }
            }
            let text = text_of(content);
            if role(message) == "user" && fits(&text) {
                return Some((text, results));
            }
        }
        None
    }

    /// The names of the tools that are offered.
    pub fn tool_names(&self, api: Api) -> Vec<String> {
        let tools = self.0.get("tools").and_then(Value::as_array).into_iter().flatten();
        let named = tools.filter_map(|tool| match api {
            Api::Chat => tool.get("function").and_then(|function| function.get("name")),
            Api::Messages => tool.get("name"),
        });
        named.filter_map(Value::as_str).map(str::to_owned).collect()
    }
}
