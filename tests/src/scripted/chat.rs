//! Owns the Chat Completions stream of an answer: one server-sent event for each piece.
//! Never writes to a socket.

use gent_protocol::Usage;
use serde_json::{Value, json};

use super::answer::{Answer, Ending, Piece};

/// Encodes one answer.
pub(crate) struct ChatEncoder {
    model: String,
    calls: usize,
    with_usage: bool,
}

impl ChatEncoder {
    /// For an answer to this request.
    pub(crate) fn new(request: &Value) -> Self {
        let model = request.get("model").and_then(Value::as_str).unwrap_or("scripted").to_owned();
        let options = request.get("stream_options");
        let with_usage = options.and_then(|options| options.get("include_usage")) == Some(&json!(true));
        Self { model, calls: 0, with_usage }
    }

    fn event(&self, choices: &Value, usage: Option<&Value>) -> String {
        let mut chunk = json!({
            "id": "chatcmpl-scripted",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self.model,
            "choices": choices,
        });
        if let (Value::Object(fields), Some(usage)) = (&mut chunk, usage) {
            fields.insert("usage".into(), usage.clone());
        }
        format!("data: {chunk}\n\n")
    }

    fn delta(&self, delta: &Value) -> String {
        self.event(&json!([{ "index": 0, "delta": delta, "finish_reason": null }]), None)
    }

    /// What comes before the first piece.
    pub(crate) fn opening(&self) -> String {
        self.delta(&json!({ "role": "assistant", "content": "" }))
    }

    /// The events of one piece; a gate has none.
    pub(crate) fn piece(&mut self, piece: &Piece) -> String {
        match piece {
            Piece::Text(text) => self.delta(&json!({ "content": text })),
            Piece::Reasoning(text) => self.delta(&json!({ "reasoning_content": text })),
            Piece::Call { id, name, input } => self.call(id.clone(), name, &input.to_string()),
            Piece::RawCall { name, input } => self.call(None, name, input),
            Piece::Gate(_) => String::new(),
            Piece::StreamError(message) => {
                let error = json!({ "error": { "message": message, "type": "server_error" } });
                format!("data: {error}\n\n")
            }
        }
    }

    fn call(&mut self, id: Option<String>, name: &str, arguments: &str) -> String {
        let index = self.calls;
        self.calls += 1;
        let id = id.unwrap_or_else(|| format!("call_{}", index + 1));
        let function = json!({ "name": name, "arguments": "" });
        let begin = json!([{ "index": index, "id": id, "type": "function", "function": function }]);
        let input = json!([{ "index": index, "function": { "arguments": arguments } }]);
        self.delta(&json!({ "tool_calls": begin })) + &self.delta(&json!({ "tool_calls": input }))
    }

    /// What comes after the last piece.
    pub(crate) fn ending(&self, answer: &Answer) -> String {
        let word = match &answer.ending {
            Ending::Word(word) => word.as_str(),
            Ending::Length => "length",
            Ending::Natural | Ending::CutAfter(_) if answer.has_calls() => "tool_calls",
            Ending::Natural | Ending::CutAfter(_) => "stop",
        };
        let mut text = self.event(&json!([{ "index": 0, "delta": {}, "finish_reason": word }]), None);
        if let (true, Some(usage)) = (self.with_usage, &answer.usage) {
            text += &self.event(&json!([]), Some(&usage_json(usage)));
        }
        text + "data: [DONE]\n\n"
    }
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}
