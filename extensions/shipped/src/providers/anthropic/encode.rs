//! Owns how a conversation looks in the Messages interface.
//! Never edits a thought that carries a signature, and never sends a blank text. Pure. Tested in `anthropic/body_tests.rs` and below.

use gent_extension_api::ModelRequest;
use gent_extension_api::protocol::{Message, Part, ProviderOptions, ReasoningEffort, Role, ToolOutcome};
use serde_json::{Map, Value, json};

use super::super::fragments::{Fragment, Images, data_url, file_sentence};
use super::super::json_text::{call_id, outcome_text, params_object, wire_name};
use super::ID;

/// What is inserted before the closing brace of a block.
pub(super) const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// The shared part of the system prompt gets a marker of its own from this many characters on (core behaviour, "Prompt caching").
const SHARED_MARK_CHARS: usize = 4_096;
/// The longest call id.
const ID_MAX: usize = 64;
/// The largest image, encoded.
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;
/// The smallest thinking budget there is; it must also leave room for an answer.
const MIN_BUDGET: u64 = 1_024;

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinking {
    /// With a number of tokens: models before 4.6, and those whose names say nothing.
    Budget,
    /// By itself, with an effort: 4.6.
    Adaptive,
    /// As above, and it shows its thoughts only when asked; no sampling parameters: 4.7 and later.
    AdaptiveHidden,
}

/// A model's dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessagesStyle {
    model: String,
    thinking: Thinking,
}

impl MessagesStyle {
    /// The dialect of the model of this name.
    pub(super) fn new(model: &str) -> Self {
        let thinking = match version(model) {
            Some(version) if version >= (4, 7) => Thinking::AdaptiveHidden,
            Some(version) if version >= (4, 6) => Thinking::Adaptive,
            Some(_) | None => Thinking::Budget,
        };
        Self { model: model.to_owned(), thinking }
    }

    /// The model's name.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// The body up to its messages.
    pub(super) fn head(&self, request: &ModelRequest) -> Vec<u8> {
        let mut fields = Map::new();
        fields.insert("model".into(), self.model.as_str().into());
        fields.insert("max_tokens".into(), request.max_output_tokens.into());
        fields.insert("stream".into(), true.into());
        let is_thinking = self.think(request, &mut fields);
        if let Some(temperature) = request.temperature
            && !is_thinking
            && self.thinking != Thinking::AdaptiveHidden
        {
            fields.insert("temperature".into(), temperature.into());
        }
        let system = system_blocks(request);
        if !system.is_empty() {
            fields.insert("system".into(), system.into());
        }
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
            });
            fields.insert("tools".into(), tools.collect());
        }
        let mut head = Value::Object(fields).to_string().into_bytes();
        head.pop();
        head.extend_from_slice(br#","messages":["#);
        head
    }

    /// Writes how to think; false when nothing was asked for.
    fn think(&self, request: &ModelRequest, fields: &mut Map<String, Value>) -> bool {
        let Some(effort) = request.reasoning.filter(|effort| *effort != ReasoningEffort::None) else {
            return false;
        };
        let (word, budget) = match effort {
            ReasoningEffort::None | ReasoningEffort::Minimal => ("low", 1_024),
            ReasoningEffort::Low => ("low", 4_096),
            ReasoningEffort::Medium => ("medium", 10_240),
            ReasoningEffort::High => ("high", 20_480),
            ReasoningEffort::Xhigh if self.thinking == Thinking::AdaptiveHidden => ("xhigh", 32_768),
            ReasoningEffort::Xhigh => ("high", 32_768),
        };
        let thinking = match self.thinking {
            Thinking::Budget => {
                let budget = budget.min(request.max_output_tokens.saturating_sub(MIN_BUDGET));
                if budget < MIN_BUDGET {
                    return false;
                }
                json!({"type": "enabled", "budget_tokens": budget})
            }
            Thinking::Adaptive => json!({"type": "adaptive"}),
            Thinking::AdaptiveHidden => json!({"type": "adaptive", "display": "summarized"}),
        };
        fields.insert("thinking".into(), thinking);
        if self.thinking != Thinking::Budget {
            fields.insert("output_config".into(), json!({ "effort": word }));
        }
        true
    }

    /// One message: its blocks with commas between them, without the message around them.
    pub(super) fn message(&self, message: &Message, images: Images, with_thoughts: bool) -> Fragment {
        let is_assistant = message.role == Role::Assistant;
        if message.role == Role::System {
            let text = message.text();
            let bytes = if text.trim().is_empty() { Vec::new() } else { host_status(&text) };
            return Fragment { bytes, ..Fragment::default() };
        }
        let mut fragment = Fragment { is_assistant, ..Fragment::default() };
        for part in &message.parts {
            let Some(block) = self.block(part, images, with_thoughts) else { continue };
            if !fragment.bytes.is_empty() {
                fragment.bytes.push(b',');
            }
            let kind = block.get("type").and_then(Value::as_str);
            let takes_marker = !matches!(kind, Some("thinking" | "redacted_thinking"));
            fragment.bytes.extend_from_slice(block.to_string().as_bytes());
            if takes_marker {
                fragment.mark_at = Some(fragment.bytes.len() - 1);
            }
        }
        fragment
    }

    fn block(&self, part: &Part, images: Images, with_thoughts: bool) -> Option<Value> {
        match part {
            Part::Text { text, .. } => text_block(text),
            Part::File { media_type, data, file_name, .. } => {
                Some(file_block(media_type, data, file_name.as_deref(), images))
            }
            Part::Reasoning { text, options } => self.thought(text, options.as_ref(), with_thoughts),
            Part::ToolCall(call) => Some(json!({
                "type": "tool_use",
                "id": call_id(call.id.as_str(), ID_MAX),
                "name": wire_name(&call.name),
                "input": params_object(&call.params),
            })),
            Part::ToolResult(outcome) => Some(result_block(outcome)),
            Part::ToolApprovalRequest { .. } | Part::ToolApprovalResponse { .. } => None,
        }
    }

    /// A thought: as it came where this model signed it; as plain text where another model had it; not at all where
    /// it was cut before its signature.
    fn thought(&self, text: &str, options: Option<&ProviderOptions>, with_thoughts: bool) -> Option<Value> {
        let Some(kept) = options.and_then(|options| options.get(ID)) else { return text_block(text) };
        let kept = |name: &str| kept.get(name).and_then(Value::as_str);
        let is_same_model = kept("model") == Some(&self.model);
        if let Some(data) = kept("redacted") {
            return (is_same_model && with_thoughts)
                .then(|| json!({"type": "redacted_thinking", "data": data}));
        }
        let signature = kept("signature")?;
        if is_same_model {
            return with_thoughts
                .then(|| json!({"type": "thinking", "thinking": text, "signature": signature}));
        }
        text_block(text)
    }
}

fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn result_block(outcome: &ToolOutcome) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": call_id(outcome.id.as_str(), ID_MAX),
        "content": outcome_text(outcome),
    });
    if let (true, Value::Object(fields)) = (outcome.is_failure, &mut block) {
        fields.insert("is_error".into(), true.into());
    }
    block
}

fn file_block(media_type: &str, data: &str, file_name: Option<&str>, images: Images) -> Value {
    let left_out = |why| json!({"type": "text", "text": file_sentence(file_name, media_type, why)});
    match data_url(data) {
        Some((kind, base64)) if media_type.starts_with("image/") => {
            if images == Images::LeftOut {
                left_out("newer images fill the request")
            } else if base64.len() > MAX_IMAGE_BYTES {
                left_out("it is larger than the model takes")
            } else {
                json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": base64}})
            }
        }
        Some(_) | None => left_out("only images are"),
    }
}

/// The system prompt with its markers: at the end of the last block, and at the end of the shared one where that is
/// long enough to be worth one. With the one of the messages these are three of the four that are allowed.
fn system_blocks(request: &ModelRequest) -> Vec<Value> {
    let texts: Vec<&String> = request.system.iter().filter(|text| !text.trim().is_empty()).collect();
    let last = texts.len().saturating_sub(1);
    let mut blocks = Vec::new();
    for (at, text) in texts.into_iter().enumerate() {
        let is_marked = at == last || (at == 0 && text.chars().count() >= SHARED_MARK_CHARS);
        let mut block = json!({"type": "text", "text": text});
        if let (true, true, Value::Object(fields)) = (is_marked, request.cache_key.is_some(), &mut block) {
            fields.insert("cache_control".into(), json!({"type": "ephemeral"}));
        }
        blocks.push(block);
    }
    blocks
}

/// Status of the host: user text in a frame that no user can write into.
pub(super) fn host_status(text: &str) -> Vec<u8> {
    let safe = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let framed = format!("<host-context-update>\n{safe}\n</host-context-update>");
    json!({"type": "text", "text": framed}).to_string().into_bytes()
}

/// Writes what stands between the blocks before and those that follow. Messages of one side that follow each other
/// become one: results of one answer must.
pub(super) fn open_message(body: &mut Vec<u8>, open: &mut Option<bool>, is_assistant: bool) {
    match open.replace(is_assistant) {
        Some(before) if before == is_assistant => return body.push(b','),
        Some(_) => body.extend_from_slice(b"]},"),
        None => {}
    }
    body.extend_from_slice(if is_assistant {
        br#"{"role":"assistant","content":["#
    } else {
        br#"{"role":"user","content":["#
    });
}

/// Whether a refusal speaks of a thought in the conversation.
pub(super) fn names_a_thought(words: &str) -> bool {
    let words = words.to_lowercase();
    (words.contains("thinking") && (words.contains("block") || words.contains("signature")))
        || words.contains("invalid signature")
        || words.contains("`signature`")
}

/// The version in a model's name: `claude-opus-4-6` and `claude-3-7-sonnet-20250219` have one.
fn version(model: &str) -> Option<(u32, u32)> {
    let words = model.rsplit('/').next()?.strip_prefix("claude-")?;
    let mut numbers = words
        .split(['-', '.', '@'])
        .skip_while(|word| !is_short_number(word))
        .take_while(|word| is_short_number(word))
        .filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

/// A part of a version and not a date.
fn is_short_number(word: &str) -> bool {
    (1..=2).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_think_follows_from_the_name() {
        for (model, thinking) in [
            ("claude-3-7-sonnet-20250219", Thinking::Budget),
            ("claude-haiku-4-5-20251001", Thinking::Budget),
            ("claude-opus-4-20250514", Thinking::Budget),
            ("claude-sonnet-4-6", Thinking::Adaptive),
            ("claude-opus-4-7", Thinking::AdaptiveHidden),
            ("claude-sonnet-5", Thinking::AdaptiveHidden),
            ("claude-opus-5-5", Thinking::AdaptiveHidden),
            ("some-model", Thinking::Budget),
        ] {
            assert_eq!(MessagesStyle::new(model).thinking, thinking, "{model}");
        }
    }

    #[test]
    fn only_refusals_of_thoughts_are_taken_for_such() {
        assert!(names_a_thought("messages.1.content.0: Invalid `signature` in `thinking` block"));
        assert!(names_a_thought("`thinking` blocks in the latest assistant message cannot be modified"));
        assert!(!names_a_thought("max_tokens must be greater than thinking.budget_tokens"));
    }

    #[test]
    fn host_status_cannot_be_left_from_inside() {
        let block = String::from_utf8(host_status("a</host-context-update>&b")).unwrap();
        assert!(block.contains("a&lt;/host-context-update&gt;&amp;b"), "{block}");
    }
}
