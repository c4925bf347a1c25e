//! Owns how a conversation looks in Chat Completions.
//! Never reorders or edits what was said. Pure. Tested in `chat/body_tests.rs`.

use gent_extension_api::ModelRequest;
use gent_extension_api::protocol::{Message, Part, ReasoningEffort, Role};
use serde_json::{Map, Value, json};

use super::super::fragments::{Fragment, Images, data_url, file_sentence};
use super::super::json_text::{call_id, outcome_text, params_object, wire_name};
use super::{Effort, Quirks};

/// The longest call id: OpenAI takes 40 characters, others more.
const OWN_ID_MAX: usize = 40;
const FOREIGN_ID_MAX: usize = 64;
/// The largest image, encoded.
const MAX_IMAGE_BYTES: usize = 20 * 1024 * 1024;

/// Whose dialect is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ChatStyle {
    /// The driver's id: the key of what is kept with a part.
    pub provider: String,
    /// The model's name at the server.
    pub model: String,
    /// OpenAI itself: other servers know fewer roles and fields.
    pub is_own_host: bool,
}

impl ChatStyle {
    /// The body up to its messages, the system prompt included.
    pub(super) fn head(&self, request: &ModelRequest, quirks: Quirks) -> Vec<u8> {
        let mut fields = Map::new();
        fields.insert("model".into(), self.model.as_str().into());
        fields.insert("stream".into(), true.into());
        if !quirks.no_stream_options {
            fields.insert("stream_options".into(), json!({ "include_usage": true }));
        }
        let cap =
            if self.is_own_host != quirks.other_cap_name { "max_completion_tokens" } else { "max_tokens" };
        fields.insert(cap.into(), request.max_output_tokens.into());
        if let Some(temperature) = request.temperature {
            fields.insert("temperature".into(), temperature.into());
        }
        if let Some(effort) = self.effort(request, quirks) {
            fields.insert("reasoning_effort".into(), effort.into());
        }
        if let (Some(key), true) = (&request.cache_key, self.is_own_host) {
            fields.insert("prompt_cache_key".into(), key.as_str().into());
        }
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                }})
            });
            fields.insert("tools".into(), tools.collect());
        }
        let mut head = Value::Object(fields).to_string().into_bytes();
        head.pop();
        head.extend_from_slice(br#","messages":["#);
        let system: Vec<&str> =
            request.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
        if !system.is_empty() {
            let message = json!({"role": "system", "content": system.join("\n\n")});
            head.extend_from_slice(message.to_string().as_bytes());
        }
        head
    }

    fn effort(&self, request: &ModelRequest, quirks: Quirks) -> Option<&'static str> {
        match quirks.effort {
            Effort::NoneWithTools if !request.tools.is_empty() => return Some("none"),
            Effort::Omitted => return None,
            Effort::NoneWithTools | Effort::AsAsked => {}
        }
        Some(match request.reasoning? {
            ReasoningEffort::None => "none",
            ReasoningEffort::Minimal => "minimal",
            ReasoningEffort::Low => "low",
            ReasoningEffort::Medium => "medium",
            ReasoningEffort::High => "high",
            ReasoningEffort::Xhigh => "xhigh",
        })
    }

    /// Status of the host: as such where the server knows the role; elsewhere as a user's message that says what it is,
    /// because many templates take a system message at the beginning only.
    pub(super) fn host_status(&self, text: &str) -> Vec<u8> {
        let message = if self.is_own_host {
            json!({"role": "developer", "content": text})
        } else {
            json!({"role": "user", "content": format!("[Status from the host, not from the user]\n{text}")})
        };
        message.to_string().into_bytes()
    }

    /// One message: one JSON object or several with commas between them.
    pub(super) fn message(&self, message: &Message, images: Images) -> Fragment {
        let bytes = match message.role {
            Role::User => user(message, images),
            Role::Assistant => self.assistant(message),
            Role::System => {
                let text = message.text();
                if text.trim().is_empty() { Vec::new() } else { self.host_status(&text) }
            }
            Role::Tool => {
                let results = message.tool_outcomes().map(|outcome| {
                    json!({
                        "role": "tool",
                        "tool_call_id": call_id(outcome.id.as_str(), self.id_max()),
                        "content": outcome_text(outcome),
                    })
                    .to_string()
                });
                results.collect::<Vec<_>>().join(",").into_bytes()
            }
        };
        Fragment { bytes, ..Fragment::default() }
    }

    fn id_max(&self) -> usize {
        if self.is_own_host { OWN_ID_MAX } else { FOREIGN_ID_MAX }
    }

    fn assistant(&self, message: &Message) -> Vec<u8> {
        let mut texts: Vec<&str> = Vec::new();
        let mut calls = Vec::new();
        let mut thinking: Map<String, Value> = Map::new();
        for part in &message.parts {
            match part {
                Part::Text { text, .. } if text.is_empty() => {}
                Part::Text { text, .. } => texts.push(text),
                Part::Reasoning { text, options } => {
                    let kept = options.as_ref().and_then(|options| options.get(&self.provider));
                    let kept = |name: &str| kept.and_then(|kept| kept.get(name)).and_then(Value::as_str);
                    match kept("field") {
                        // Replayed under the name it came by: some templates cannot go on without it.
                        Some(field) if kept("model") == Some(&self.model) && !self.is_own_host => {
                            let mut all = match thinking.remove(field) {
                                Some(Value::String(before)) => before,
                                _ => String::new(),
                            };
                            all.push_str(text);
                            thinking.insert(field.to_owned(), all.into());
                        }
                        // Another model's thinking goes as plain text; tags around it would be imitated.
                        _ if !text.trim().is_empty() => texts.push(text),
                        _ => {}
                    }
                }
                Part::ToolCall(call) => calls.push(json!({
                    "id": call_id(call.id.as_str(), self.id_max()),
                    "type": "function",
                    "function": {
                        "name": wire_name(&call.name),
                        "arguments": params_object(&call.params).to_string(),
                    },
                })),
                Part::File { .. }
                | Part::ToolResult(_)
                | Part::ToolApprovalRequest { .. }
                | Part::ToolApprovalResponse { .. } => {}
            }
        }
        if texts.is_empty() && calls.is_empty() {
            return Vec::new();
        }
        // A plain string: models imitate arrays of blocks. Without text, OpenAI wants null and others choke on it.
        let content = match texts.is_empty() {
            true if self.is_own_host => Value::Null,
            true => "".into(),
            false => texts.join("\n\n").into(),
        };
        let mut fields = Map::new();
        fields.insert("role".into(), "assistant".into());
        fields.insert("content".into(), content);
        fields.extend(thinking);
        if !calls.is_empty() {
            fields.insert("tool_calls".into(), calls.into());
        }
        Value::Object(fields).to_string().into_bytes()
    }
}

fn user(message: &Message, images: Images) -> Vec<u8> {
    let mut blocks = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text, .. } => texts.push(text.clone()),
            Part::File { media_type, data, file_name, .. } => {
                let left_out = |why| file_sentence(file_name.as_deref(), media_type, why);
                if !media_type.starts_with("image/") || data_url(data).is_none() {
                    texts.push(left_out("only images are"));
                } else if images == Images::LeftOut {
                    texts.push(left_out("newer images fill the request"));
                } else if data.len() > MAX_IMAGE_BYTES {
                    texts.push(left_out("it is larger than the model takes"));
                } else {
                    if !texts.is_empty() {
                        blocks.push(json!({"type": "text", "text": texts.join("\n")}));
                        texts.clear();
                    }
                    blocks.push(json!({"type": "image_url", "image_url": {"url": data}}));
                }
            }
            Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Reasoning { .. }
            | Part::ToolApprovalRequest { .. }
            | Part::ToolApprovalResponse { .. } => {}
        }
    }
    let text = texts.join("\n");
    let content = if blocks.is_empty() {
        if text.is_empty() {
            return Vec::new();
        }
        text.into()
    } else {
        if !text.is_empty() {
            blocks.push(json!({"type": "text", "text": text}));
        }
        Value::Array(blocks)
    };
    json!({"role": "user", "content": content}).to_string().into_bytes()
}
