//! Owns how the pieces of an answer become the parts of a message. Bounded: an answer beyond its limits breaks
//! off as a failed stream, and what came before is kept. Pure. Tested below (E18),
//! calls without id or number with the drivers.

use std::collections::HashSet;

use gent_extension_api::{FailureKind, FinishReason, ProviderFailure, StreamPart, StreamedCall};
use gent_protocol::{MessageId, Part, ToolCall, ToolCallId, Usage, synthetic_tool_call_id};

use crate::limits::{ANSWER_BYTES, ANSWER_CALLS};

/// An answer as far as it has come.
#[derive(Debug)]
pub(crate) struct Fold {
    assistant: MessageId,
    parts: Vec<Part>,
    reasoning_id: Option<String>,
    call_ids: HashSet<ToolCallId>,
    bytes: usize,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
}

impl Fold {
    /// An answer that will be stored as `assistant`.
    pub(crate) fn new(assistant: MessageId) -> Self {
        Self {
            assistant,
            parts: Vec::new(),
            reasoning_id: None,
            call_ids: HashSet::new(),
            bytes: 0,
            usage: None,
            finish: None,
        }
    }

    /// Takes a piece in; fails when the answer outgrows its bounds.
    pub(crate) fn push(&mut self, piece: StreamPart) -> Result<(), ProviderFailure> {
        match piece {
            StreamPart::Text { text } => {
                self.grow(text.len())?;
                match self.parts.last_mut() {
                    Some(Part::Text { text: so_far, options: None }) => so_far.push_str(&text),
                    _ if text.is_empty() => {}
                    _ => self.parts.push(Part::Text { text, options: None }),
                }
            }
            StreamPart::Reasoning { id, text, options } => {
                self.grow(text.len())?;
                let continues = self.reasoning_id.as_ref() == Some(&id);
                match self.parts.last_mut() {
                    Some(Part::Reasoning { text: so_far, options: known }) if continues => {
                        so_far.push_str(&text);
                        if options.is_some() {
                            *known = options;
                        }
                    }
                    _ => self.parts.push(Part::Reasoning { text, options }),
                }
                self.reasoning_id = Some(id);
            }
            StreamPart::ToolCall(call) => self.push_call(call)?,
            StreamPart::Usage(usage) => self.usage = Some(usage),
            StreamPart::Finish { reason } => self.finish = Some(reason),
        }
        Ok(())
    }

    fn push_call(&mut self, call: StreamedCall) -> Result<(), ProviderFailure> {
        let StreamedCall { id, name, params, options } = call;
        self.grow(params.to_string().len() + name.len())?;
        let n = self.call_ids.len() + 1;
        if n > ANSWER_CALLS {
            return Err(too_large(format!("an answer has more than {ANSWER_CALLS} tool calls")));
        }
        let given = id.and_then(|id| ToolCallId::parse(id).ok());
        let id = given.unwrap_or_else(|| synthetic_tool_call_id(&self.assistant, n));
        // A provider that repeats an id repeats the call: the first one counts.
        if self.call_ids.insert(id.clone()) {
            let call = ToolCall { id, name, params, provider_executed: false, options };
            self.parts.push(Part::ToolCall(call));
        }
        Ok(())
    }

    fn grow(&mut self, by: usize) -> Result<(), ProviderFailure> {
        self.bytes += by;
        if self.bytes > ANSWER_BYTES {
            return Err(too_large(format!("an answer has more than {ANSWER_BYTES} bytes")));
        }
        Ok(())
    }

    /// Something has come that a person or the next request would see.
    pub(crate) fn is_observable(&self) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Text { text, .. } | Part::Reasoning { text, .. } => !text.is_empty(),
            Part::ToolCall(_) | Part::File { .. } => true,
            Part::ToolResult(_) | Part::ToolApprovalRequest { .. } | Part::ToolApprovalResponse { .. } => {
                false
            }
        })
    }

    /// The last count.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Why the answer is over, once it is.
    pub(crate) fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// The parts to store: what is empty and carries nothing for the provider is left out.
    pub(crate) fn into_parts(self) -> Vec<Part> {
        let is_kept = |part: &Part| match part {
            Part::Text { text, options } | Part::Reasoning { text, options } => {
                !text.is_empty() || options.is_some()
            }
            Part::File { .. }
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::ToolApprovalRequest { .. }
            | Part::ToolApprovalResponse { .. } => true,
        };
        self.parts.into_iter().filter(is_kept).collect()
    }
}

fn too_large(message: String) -> ProviderFailure {
    ProviderFailure::new(FailureKind::Refused, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fold(pieces: Vec<StreamPart>) -> Fold {
        let mut fold = Fold::new(MessageId::parse("t:assistant:1").unwrap());
        for piece in pieces {
            fold.push(piece).unwrap();
        }
        fold
    }

    fn call(id: Option<&str>, n: u32) -> StreamPart {
        StreamPart::ToolCall(StreamedCall {
            id: id.map(str::to_owned),
            name: "read".into(),
            params: json!({ "n": n }),
            options: None,
        })
    }

    #[test]
    fn pieces_of_one_kind_are_one_part_and_a_signed_part_stays_whole() {
        let options = json!({ "anthropic": { "signature": "s" } }).as_object().cloned();
        let reasoning = |id: &str, text: &str, options| StreamPart::Reasoning {
            id: id.into(),
            text: text.into(),
            options,
        };
        let parts = fold(vec![
            reasoning("0", "a", None),
            reasoning("0", "b", options.clone()),
            reasoning("1", "", options.clone()),
            StreamPart::Text { text: "x".into() },
            StreamPart::Text { text: "y".into() },
        ])
        .into_parts();
        assert_eq!(
            parts,
            [
                Part::Reasoning { text: "ab".into(), options: options.clone() },
                Part::Reasoning { text: String::new(), options },
                Part::text("xy"),
            ]
        );
    }

    #[test]
    fn a_call_without_id_gets_a_stable_one_and_a_repeated_id_counts_once() {
        let parts = fold(vec![call(None, 1), call(Some("c"), 2), call(Some("c"), 3)]).into_parts();
        let ids: Vec<String> = parts
            .iter()
            .map(|part| match part {
                Part::ToolCall(call) => format!("{}={}", call.id, call.params["n"]),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ids, ["t:assistant:1:1=1", "c=2"]);
    }

    #[test]
    fn an_answer_beyond_its_bound_breaks_off_and_keeps_what_came() {
        let mut fold = fold(vec![StreamPart::Text { text: "x".repeat(ANSWER_BYTES) }]);
        assert!(fold.push(StreamPart::Text { text: "y".into() }).is_err());
        assert_eq!(fold.into_parts().len(), 1);
    }
}
