//! Owns what is made of the chunks of a Chat Completions answer, with the tolerance that its many servers ask for.
//! Never ends an answer that just stopped as if it were whole. Tested in `tests/it/providers_chat.rs`.

use std::collections::VecDeque;

use gent_extension_api::protocol::{ProviderOptions, Usage};
use gent_extension_api::{FinishReason, ProviderFailure, StreamPart};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::answer::{Decoder, Progress};
use super::super::failure;
use super::super::json_text::{count, parse_lenient};
use super::super::peer::Peer;
use super::calls::{CallDelta, CallPieces, arguments_text};
use super::encode::ChatStyle;

/// A chunk. Leaves are left open where servers differ in type.
#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    /// A server that does not stream sends the whole message instead.
    #[serde(alias = "message")]
    delta: Option<Delta>,
    finish_reason: Option<Value>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    refusal: Option<Value>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    reasoning_text: Option<Value>,
    tool_calls: Option<Vec<RawCall>>,
}

#[derive(Deserialize)]
struct RawCall {
    index: Option<Value>,
    id: Option<Value>,
    function: Option<RawFunction>,
}

#[derive(Deserialize)]
struct RawFunction {
    name: Option<Value>,
    arguments: Option<Value>,
}

/// The state of one answer.
pub(super) struct ChatDecoder {
    peer: Peer,
    provider: String,
    model: String,
    calls: CallPieces,
    usage: Option<Usage>,
    reason: Option<FinishReason>,
    has_text: bool,
    /// The server said `[DONE]`.
    is_done: bool,
    is_over: bool,
    /// Number of the current thought, and whether the last part belongs to it.
    thought: u32,
    is_thinking: bool,
}

impl ChatDecoder {
    /// For an answer of `peer`.
    pub(super) fn new(peer: Peer, style: &ChatStyle) -> Self {
        Self {
            peer,
            provider: style.provider.clone(),
            model: style.model.clone(),
            calls: CallPieces::default(),
            usage: None,
            reason: None,
            has_text: false,
            is_done: false,
            is_over: false,
            thought: 0,
            is_thinking: false,
        }
    }

    fn choice(&mut self, choice: Choice, parts: &mut VecDeque<StreamPart>) -> Result<(), ProviderFailure> {
        if let Some(usage) = &choice.usage {
            self.take_usage(usage);
        }
        if choice.index.unwrap_or(0) != 0 {
            return Ok(());
        }
        if let Some(delta) = choice.delta {
            self.delta(delta, parts);
        }
        match choice.finish_reason.as_ref().and_then(Value::as_str) {
            None | Some("") => {}
            Some("error" | "network_error") => {
                return Err(failure::broken(&self.peer, "was broken off by the server; try again"));
            }
            Some(word) => self.reason = Some(finish_reason(word)),
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, parts: &mut VecDeque<StreamPart>) {
        let thoughts = [
            ("reasoning_content", delta.reasoning_content),
            ("reasoning", delta.reasoning),
            ("reasoning_text", delta.reasoning_text),
        ];
        // Servers that send the same thought under two names exist: the first that is not empty counts.
        let thought = thoughts.into_iter().find_map(|(field, value)| match value {
            Some(Value::String(text)) if !text.is_empty() => Some((field, text)),
            _ => None,
        });
        if let Some((field, text)) = thought {
            self.think(field, text, parts);
        }
        for value in [delta.content, delta.refusal].into_iter().flatten() {
            match value {
                Value::String(text) => self.say(text, parts),
                Value::Array(blocks) => {
                    for block in blocks {
                        if let Some(text) = block.get("text").and_then(Value::as_str) {
                            self.say(text.to_owned(), parts);
                        }
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
            }
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.is_thinking = false;
            let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
            let (name, arguments) = match call.function {
                Some(function) => (text(function.name), function.arguments.and_then(arguments_text)),
                None => (None, None),
            };
            self.calls.add(CallDelta {
                index: call.index.as_ref().and_then(Value::as_u64),
                id: text(call.id),
                name,
                arguments,
            });
        }
    }

    fn say(&mut self, text: String, parts: &mut VecDeque<StreamPart>) {
        if text.is_empty() {
            return;
        }
        self.is_thinking = false;
        self.has_text = true;
        parts.push_back(StreamPart::Text { text });
    }

    fn think(&mut self, field: &str, text: String, parts: &mut VecDeque<StreamPart>) {
        let mut options = None;
        if !self.is_thinking {
            self.is_thinking = true;
            self.thought += 1;
            let mut kept = ProviderOptions::new();
            kept.insert(self.provider.clone(), json!({"field": field, "model": self.model}));
            options = Some(kept);
        }
        parts.push_back(StreamPart::Reasoning { id: self.thought.to_string(), text, options });
    }

    fn take_usage(&mut self, usage: &Value) {
        let Some(input) = count(usage.get("prompt_tokens")) else { return };
        let mut output = count(usage.get("completion_tokens")).unwrap_or(0);
        // Some servers count thinking beside the output and not in it: their own total gives it away.
        let thinking =
            count(usage.pointer("/completion_tokens_details/reasoning_tokens")).filter(|count| *count > 0);
        if let (Some(total), Some(thinking)) = (count(usage.get("total_tokens")), thinking)
            && total == input.saturating_add(output).saturating_add(thinking)
        {
            output = output.saturating_add(thinking);
        }
        let cached = count(usage.pointer("/prompt_tokens_details/cached_tokens"))
            .or_else(|| count(usage.get("prompt_cache_hit_tokens")));
        self.usage = Some(Usage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: cached.map(|cached| cached.min(input)),
            cache_write_tokens: None,
        });
    }

    fn truncated(&self) -> ProviderFailure {
        failure::broken(&self.peer, "stopped before its end; try again")
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, data: &str, parts: &mut VecDeque<StreamPart>) -> Result<Progress, ProviderFailure> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(Progress::Ping);
        }
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(Progress::Over);
        }
        let mut scratch = String::new();
        let chunk: Chunk = match parse_lenient(data, &mut scratch) {
            Ok(chunk) => chunk,
            Err(error) => {
                return Err(failure::broken(
                    &self.peer,
                    &format!("holds what is no chunk ({error}); try again"),
                ));
            }
        };
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure::of_event(&self.peer, &error));
        }
        if let Some(usage) = &chunk.usage {
            self.take_usage(usage);
        }
        for choice in chunk.choices.into_iter().flatten() {
            self.choice(choice, parts)?;
        }
        Ok(Progress::Data)
    }

    fn end(&mut self, parts: &mut VecDeque<StreamPart>) -> Result<(), ProviderFailure> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        // With a word of its end the answer is whole, whatever its arguments look like; without one only what is
        // visibly whole counts.
        let is_told = self.reason.is_some();
        let may_be_bare = is_told || self.is_done;
        let calls = if is_told || self.calls.has_complete(may_be_bare) {
            self.calls.finish(!is_told, may_be_bare)
        } else {
            Vec::new()
        };
        let reason = match (self.reason, calls.is_empty()) {
            (Some(FinishReason::ToolCalls), true) if !self.has_text => return Err(self.truncated()),
            (Some(FinishReason::ToolCalls), true) => FinishReason::Stop,
            (Some(FinishReason::Stop | FinishReason::Unknown | FinishReason::ToolCalls) | None, false) => {
                FinishReason::ToolCalls
            }
            (Some(reason), _) => reason,
            (None, true) if self.is_done && self.has_text => FinishReason::Unknown,
            (None, true) => return Err(self.truncated()),
        };
        parts.extend(calls.into_iter().map(StreamPart::ToolCall));
        parts.extend(self.usage.take().map(StreamPart::Usage));
        parts.push_back(StreamPart::Finish { reason });
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.reason.is_some()
    }
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        "stop" | "end" | "eos" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "length" | "max_tokens" => FinishReason::Length,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "content_filter" | "refusal" => FinishReason::ContentFilter,
        "model_context_window_exceeded" => FinishReason::WindowFull,
        _ => FinishReason::Unknown,
    }
}
