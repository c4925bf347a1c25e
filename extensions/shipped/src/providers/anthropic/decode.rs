//! Owns what is made of the events of a Messages answer.
//! Never gives out a block that has not ended, but for text and thoughts as they come. Tested in `tests/it/providers_anthropic.rs`.

use std::collections::{HashMap, VecDeque};

use gent_extension_api::protocol::{ProviderOptions, Usage};
use gent_extension_api::{FinishReason, ProviderFailure, StreamPart, StreamedCall};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::answer::{Decoder, Progress};
use super::super::failure;
use super::super::json_text::{count, parse_lenient, parse_params};
use super::super::peer::Peer;
use super::ID;

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    index: Option<u64>,
    message: Option<Value>,
    content_block: Option<Value>,
    delta: Option<Delta>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

/// A block that has not ended.
enum Block {
    Text,
    Thought { signature: String },
    Call { id: Option<String>, name: String, input: Value, json: String },
    Other,
}

/// The state of one answer.
pub(super) struct MessagesDecoder {
    peer: Peer,
    model: String,
    blocks: HashMap<u64, Block>,
    usage: Map<String, Value>,
    reason: Option<FinishReason>,
    has_calls: bool,
    is_over: bool,
}

impl MessagesDecoder {
    /// For an answer of `peer` with the model that was asked for.
    pub(super) fn new(peer: Peer, model: &str) -> Self {
        Self {
            peer,
            model: model.to_owned(),
            blocks: HashMap::new(),
            usage: Map::new(),
            reason: None,
            has_calls: false,
            is_over: false,
        }
    }

    fn options(&self, field: Option<(&str, &str)>) -> Option<ProviderOptions> {
        let mut kept = Map::new();
        kept.insert("model".into(), self.model.as_str().into());
        if let Some((name, value)) = field {
            kept.insert(name.into(), value.into());
        }
        Some(Map::from_iter([(ID.to_owned(), Value::Object(kept))]))
    }

    fn start(&mut self, index: u64, block: &Value, parts: &mut VecDeque<StreamPart>) {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = index.to_string();
        let opened = match text("type") {
            "text" => {
                push_text(text("text").to_owned(), parts);
                Block::Text
            }
            "thinking" => {
                // The model's name marks the thought as one that needs a signature, should the stream be cut before it.
                parts.push_back(StreamPart::Reasoning {
                    id,
                    text: text("thinking").to_owned(),
                    options: self.options(None),
                });
                Block::Thought { signature: text("signature").to_owned() }
            }
            "redacted_thinking" => {
                let options = self.options(Some(("redacted", text("data"))));
                parts.push_back(StreamPart::Reasoning { id, text: String::new(), options });
                Block::Other
            }
            "tool_use" => Block::Call {
                id: Some(text("id").to_owned()).filter(|id| !id.is_empty()),
                name: text("name").to_owned(),
                input: block.get("input").cloned().unwrap_or_default(),
                json: String::new(),
            },
            _ => Block::Other,
        };
        self.blocks.insert(index, opened);
    }

    fn delta(&mut self, index: u64, delta: Delta, parts: &mut VecDeque<StreamPart>) {
        // Text for a block whose beginning never came is still text.
        match self.blocks.entry(index).or_insert(Block::Text) {
            Block::Text => push_text(delta.text.unwrap_or_default(), parts),
            Block::Thought { signature } => {
                if let Some(text) = delta.thinking.filter(|text| !text.is_empty()) {
                    parts.push_back(StreamPart::Reasoning { id: index.to_string(), text, options: None });
                }
                if let Some(piece) = delta.signature {
                    signature.push_str(&piece);
                }
            }
            Block::Call { json, .. } => json.push_str(&delta.partial_json.unwrap_or_default()),
            Block::Other => {}
        }
    }

    fn stop(&mut self, index: u64, parts: &mut VecDeque<StreamPart>) {
        match self.blocks.remove(&index) {
            Some(Block::Thought { signature }) if !signature.is_empty() => {
                let options = self.options(Some(("signature", &signature)));
                parts.push_back(StreamPart::Reasoning {
                    id: index.to_string(),
                    text: String::new(),
                    options,
                });
            }
            Some(Block::Call { id, name, input, json }) if !name.is_empty() => {
                let params =
                    if json.trim().is_empty() && input.is_object() { input } else { parse_params(&json) };
                self.has_calls = true;
                parts.push_back(StreamPart::ToolCall(StreamedCall { id, name, params, options: None }));
            }
            Some(Block::Text | Block::Thought { .. } | Block::Call { .. } | Block::Other) | None => {}
        }
    }

    /// Later counts replace earlier ones, but only where there is one.
    fn take_usage(&mut self, usage: Option<&Value>) {
        let Some(Value::Object(counts)) = usage else { return };
        for (name, value) in counts {
            if count(Some(value)).is_some() {
                self.usage.insert(name.clone(), value.clone());
            }
        }
    }

    /// The provider counts cached input apart; here input is all of it.
    fn usage(&self) -> Option<Usage> {
        let of = |name: &str| count(self.usage.get(name));
        let (read, written) = (of("cache_read_input_tokens"), of("cache_creation_input_tokens"));
        let fresh = of("input_tokens")?;
        Some(Usage {
            input_tokens: fresh.saturating_add(read.unwrap_or(0)).saturating_add(written.unwrap_or(0)),
            output_tokens: of("output_tokens").unwrap_or(0),
            cache_read_tokens: read,
            cache_write_tokens: written,
        })
    }
}

fn push_text(text: String, parts: &mut VecDeque<StreamPart>) {
    if !text.is_empty() {
        parts.push_back(StreamPart::Text { text });
    }
}

impl Decoder for MessagesDecoder {
    fn event(&mut self, data: &str, parts: &mut VecDeque<StreamPart>) -> Result<Progress, ProviderFailure> {
        if data.trim().is_empty() {
            return Ok(Progress::Ping);
        }
        if data.trim() == "[DONE]" {
            return Ok(Progress::Over);
        }
        let mut scratch = String::new();
        let event: Event = match parse_lenient(data, &mut scratch) {
            Ok(event) => event,
            Err(error) => {
                return Err(failure::broken(
                    &self.peer,
                    &format!("holds what is no event ({error}); try again"),
                ));
            }
        };
        if let Some(error) = event.error.filter(|error| !error.is_null()) {
            return Err(failure::of_event(&self.peer, &error));
        }
        let index = event.index.unwrap_or(0);
        match event.kind.as_deref().unwrap_or_default() {
            "ping" => return Ok(Progress::Ping),
            "message_start" => {
                self.take_usage(event.message.as_ref().and_then(|message| message.get("usage")))
            }
            "content_block_start" => {
                if let Some(block) = &event.content_block {
                    self.start(index, block, parts);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.delta(index, delta, parts);
                }
            }
            "content_block_stop" => self.stop(index, parts),
            "message_delta" => {
                self.take_usage(event.usage.as_ref());
                if let Some(word) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.reason = Some(finish_reason(&word));
                }
            }
            "message_stop" => return Ok(Progress::Over),
            _ => {}
        }
        Ok(Progress::Data)
    }

    fn end(&mut self, parts: &mut VecDeque<StreamPart>) -> Result<(), ProviderFailure> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        let reason = match (self.reason, self.has_calls) {
            (Some(FinishReason::Stop | FinishReason::Unknown) | None, true) => FinishReason::ToolCalls,
            (Some(FinishReason::ToolCalls), false) | (None, false) => {
                return Err(failure::broken(&self.peer, "stopped before its end; try again"));
            }
            (Some(reason), _) => reason,
        };
        parts.extend(self.usage().map(StreamPart::Usage));
        parts.push_back(StreamPart::Finish { reason });
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.reason.is_some()
    }
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        "end_turn" | "stop_sequence" | "pause_turn" => FinishReason::Stop,
        "max_tokens" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" | "sensitive" => FinishReason::ContentFilter,
        "model_context_window_exceeded" => FinishReason::WindowFull,
        _ => FinishReason::Unknown,
    }
}
