//! Owns the Messages stream of an answer: blocks that are opened, filled and closed.
//! Never writes to a socket.

use serde_json::{Value, json};

use super::answer::{Answer, Ending, Piece};

/// Encodes one answer.
pub(crate) struct MessagesEncoder {
    model: String,
    blocks: usize,
    open: Option<&'static str>,
    calls: usize,
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

impl MessagesEncoder {
    /// For an answer to this request.
    pub(crate) fn new(request: &Value) -> Self {
        let model = request.get("model").and_then(Value::as_str).unwrap_or("scripted").to_owned();
        Self { model, blocks: 0, open: None, calls: 0 }
    }

    /// What comes before the first piece.
    pub(crate) fn opening(&self, answer: &Answer) -> String {
        let mut message = json!({
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
        });
        if let (Value::Object(fields), Some(usage)) = (&mut message, &answer.usage) {
            fields.insert("usage".into(), json!({ "input_tokens": usage.input_tokens, "output_tokens": 1 }));
        }
        event("message_start", &json!({ "type": "message_start", "message": message }))
    }

    /// The events of one piece; a gate has none.
    pub(crate) fn piece(&mut self, piece: &Piece) -> String {
        match piece {
            Piece::Text(text) => {
                let opened = self.enter("text", &json!({ "type": "text", "text": "" }));
                opened + &self.delta(&json!({ "type": "text_delta", "text": text }))
            }
            Piece::Reasoning(text) => {
                let opened = self.enter("thinking", &json!({ "type": "thinking", "thinking": "" }));
                opened + &self.delta(&json!({ "type": "thinking_delta", "thinking": text }))
            }
            Piece::Call { id, name, input } => self.call(id.clone(), name, &input.to_string()),
            Piece::RawCall { name, input } => self.call(None, name, input),
            Piece::Gate(_) => String::new(),
            Piece::StreamError(message) => {
                let error = json!({ "type": "api_error", "message": message });
                event("error", &json!({ "type": "error", "error": error }))
            }
        }
    }

    fn enter(&mut self, kind: &'static str, block: &Value) -> String {
        if self.open == Some(kind) {
            return String::new();
        }
        let closed = self.close();
        self.open = Some(kind);
        let start = json!({ "type": "content_block_start", "index": self.blocks, "content_block": block });
        closed + &event("content_block_start", &start)
    }

    fn delta(&self, delta: &Value) -> String {
        let data = json!({ "type": "content_block_delta", "index": self.blocks, "delta": delta });
        event("content_block_delta", &data)
    }

    fn close(&mut self) -> String {
        if self.open.take().is_none() {
            return String::new();
        }
        let stop = json!({ "type": "content_block_stop", "index": self.blocks });
        self.blocks += 1;
        event("content_block_stop", &stop)
    }

    fn call(&mut self, id: Option<String>, name: &str, input: &str) -> String {
        self.calls += 1;
        let id = id.unwrap_or_else(|| format!("toolu_{}", self.calls));
        let before = self.close();
        let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        let opened = self.enter("tool_use", &block);
        let filled = self.delta(&json!({ "type": "input_json_delta", "partial_json": input }));
        before + &opened + &filled + &self.close()
    }

    /// What comes after the last piece.
    pub(crate) fn ending(&mut self, answer: &Answer) -> String {
        let word = match &answer.ending {
            Ending::Word(word) => word.as_str(),
            Ending::Length => "max_tokens",
            Ending::Natural | Ending::CutAfter(_) if answer.has_calls() => "tool_use",
            Ending::Natural | Ending::CutAfter(_) => "end_turn",
        };
        let mut delta = json!({
            "type": "message_delta",
            "delta": { "stop_reason": word, "stop_sequence": null },
        });
        if let (Value::Object(fields), Some(usage)) = (&mut delta, &answer.usage) {
            fields.insert("usage".into(), json!({ "output_tokens": usage.output_tokens }));
        }
        self.close()
            + &event("message_delta", &delta)
            + &event("message_stop", &json!({ "type": "message_stop" }))
    }
}
