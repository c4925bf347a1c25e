//! Owns the putting together of tool calls from their pieces, as the many servers cut them.
//! Never takes an absent index for 0, and never gives out arguments as text. Pure. Tested below.

use std::collections::HashSet;

use gent_extension_api::StreamedCall;
use serde_json::Value;

use super::super::json_text::{complete_params, parse_params};

/// A piece of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CallDelta {
    pub index: Option<u64>,
    pub id: Option<String>,
    pub name: Option<String>,
    pub arguments: Option<String>,
}

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

impl OpenCall {
    /// Its arguments are a whole object, so a piece that begins another one is not part of it.
    fn is_full(&self) -> bool {
        !self.arguments.trim().is_empty() && complete_params(&self.arguments).is_some()
    }
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct CallPieces {
    calls: Vec<OpenCall>,
    /// The call that was touched last.
    last: usize,
}

impl CallPieces {
    /// Takes a piece.
    pub(super) fn add(&mut self, delta: CallDelta) {
        let id = delta.id.filter(|id| !id.is_empty());
        let name = delta.name.filter(|name| !name.is_empty());
        let at = self.place_of(delta.index, id.as_deref(), name.as_deref());
        let at = match at {
            Some(at) => at,
            None => {
                self.calls.push(OpenCall { index: delta.index, ..OpenCall::default() });
                self.calls.len() - 1
            }
        };
        self.last = at;
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.index.is_none() {
            call.index = delta.index;
        }
        if call.id.is_none() {
            call.id = id;
        }
        if let Some(name) = name
            && call.name.is_empty()
        {
            call.name = name;
        }
        if let Some(arguments) = delta.arguments {
            call.arguments.push_str(&arguments);
        }
    }

    /// The call that a piece belongs to, or none when it opens one.
    fn place_of(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let last = self.calls.get(self.last).map(|_| self.last);
        let is_other_id =
            |call: &OpenCall| matches!((id, call.id.as_deref()), (Some(new), Some(old)) if new != old);
        // A named piece after a whole call is a new one, unless its id says otherwise: some servers number all calls 0.
        let is_next = |call: &OpenCall| {
            is_other_id(call) || (name.is_some() && (id.is_none() || call.id.is_none()) && call.is_full())
        };
        if let Some(index) = index {
            let found = self.calls.iter().rposition(|call| call.index == Some(index));
            return match found {
                Some(at) => self.calls.get(at).is_some_and(|call| !is_next(call)).then_some(at),
                // Arguments with a number for a call that was opened without one.
                None if id.is_none() && name.is_none() => {
                    last.filter(|at| self.calls.get(*at).is_some_and(|call| call.index.is_none()))
                }
                None => None,
            };
        }
        if let Some(id) = id {
            return self.calls.iter().rposition(|call| call.id.as_deref() == Some(id));
        }
        if let Some(name) = name {
            return last
                .filter(|at| self.calls.get(*at).is_some_and(|call| call.name == name && !is_next(call)));
        }
        last
    }

    /// Whether any call has a name and whole arguments.
    pub(super) fn has_complete(&self, may_be_bare: bool) -> bool {
        self.calls.iter().any(|call| is_complete(call, may_be_bare))
    }

    /// The calls, in the order in which they were opened. A nameless one is nobody's; an id that was there before is
    /// left to the host to replace. With `complete_only`, calls whose arguments are no whole object are left out.
    pub(super) fn finish(&mut self, complete_only: bool, may_be_bare: bool) -> Vec<StreamedCall> {
        let mut ids = HashSet::new();
        let mut calls = Vec::new();
        for call in std::mem::take(&mut self.calls) {
            if call.name.is_empty() || (complete_only && !is_complete(&call, may_be_bare)) {
                tracing::debug!("stream.call_dropped");
                continue;
            }
            let id = call.id.filter(|id| ids.insert(id.clone()));
            calls.push(StreamedCall {
                id,
                name: call.name,
                params: parse_params(&call.arguments),
                options: None,
            });
        }
        calls
    }
}

/// `may_be_bare`: the stream said that it is over, so a call without arguments takes none.
fn is_complete(call: &OpenCall, may_be_bare: bool) -> bool {
    !call.name.is_empty() && if call.arguments.trim().is_empty() { may_be_bare } else { call.is_full() }
}

/// Arguments as text, also where a server sends the object itself.
pub(super) fn arguments_text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Some(other.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Piece = (Option<u64>, &'static str, &'static str, &'static str);

    fn joined(pieces: &[Piece]) -> Vec<(Option<String>, String, Value)> {
        let mut calls = CallPieces::default();
        for (index, id, name, arguments) in pieces {
            let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            calls.add(CallDelta {
                index: *index,
                id: text(id),
                name: text(name),
                arguments: text(arguments),
            });
        }
        calls.finish(false, true).into_iter().map(|call| (call.id, call.name, call.params)).collect()
    }

    fn call(id: &str, name: &str, path: &str) -> (Option<String>, String, Value) {
        ((!id.is_empty()).then(|| id.to_owned()), name.to_owned(), json!({ "path": path }))
    }

    #[test]
    fn a_call_without_an_id_is_a_call() {
        assert_eq!(joined(&[(Some(0), "", "read", r#"{"path":"a"}"#)]), [call("", "read", "a")]);
    }

    #[test]
    fn an_absent_index_is_not_zero() {
        let two = [(None, "x", "read", r#"{"path":"a"}"#), (None, "y", "read", r#"{"path":"b"}"#)];
        assert_eq!(joined(&two), [call("x", "read", "a"), call("y", "read", "b")]);
        let mixed = [
            (Some(0), "x", "read", ""),
            (None, "y", "grep", r#"{"path""#),
            (None, "", "", r#":"b"}"#),
            (Some(0), "", "", r#"{"path":"a"}"#),
        ];
        assert_eq!(joined(&mixed), [call("x", "read", "a"), call("y", "grep", "b")]);
    }

    #[test]
    fn interleaved_calls_are_kept_apart() {
        let pieces = [
            (Some(0), "x", "read", ""),
            (Some(1), "y", "read", ""),
            (Some(1), "", "", r#"{"path":"#),
            (Some(0), "", "", r#"{"path":"a"}"#),
            (Some(1), "", "", r#""b"}"#),
        ];
        assert_eq!(joined(&pieces), [call("x", "read", "a"), call("y", "read", "b")]);
    }

    #[test]
    fn calls_that_share_a_number_are_told_apart_by_id_or_by_being_whole() {
        let by_id = [(Some(0), "x", "read", r#"{"path":"a"}"#), (Some(0), "y", "read", r#"{"path":"b"}"#)];
        assert_eq!(joined(&by_id), [call("x", "read", "a"), call("y", "read", "b")]);
        let by_whole = [(Some(0), "", "read", r#"{"path":"a"}"#), (Some(0), "", "read", r#"{"path":"b"}"#)];
        assert_eq!(joined(&by_whole), [call("", "read", "a"), call("", "read", "b")]);
        let unnumbered = [(None, "", "read", r#"{"path":"a"}"#), (None, "", "read", r#"{"path":"b"}"#)];
        assert_eq!(joined(&unnumbered), [call("", "read", "a"), call("", "read", "b")]);
    }

    #[test]
    fn a_name_that_is_sent_with_every_piece_is_taken_once() {
        let pieces = [(Some(0), "x", "read", r#"{"pa"#), (Some(0), "x", "read", r#"th":"a"}"#)];
        assert_eq!(joined(&pieces), [call("x", "read", "a")]);
        let unnumbered = [(None, "", "read", r#"{"pa"#), (None, "", "read", r#"th":"a"}"#)];
        assert_eq!(joined(&unnumbered), [call("", "read", "a")]);
    }

    #[test]
    fn an_id_that_comes_twice_is_given_to_the_first_call_only() {
        let pieces = [(Some(0), "x", "read", r#"{"path":"a"}"#), (Some(1), "x", "read", r#"{"path":"b"}"#)];
        assert_eq!(joined(&pieces), [call("x", "read", "a"), call("", "read", "b")]);
    }

    #[test]
    fn nameless_calls_are_dropped_and_unparsable_arguments_stay_text() {
        let pieces = [(Some(0), "x", "", r#"{"path":"a"}"#), (Some(1), "y", "read", r#"{"path":"#)];
        assert_eq!(joined(&pieces), [(Some("y".into()), "read".into(), json!("{\"path\":"))]);
    }

    #[test]
    fn only_whole_calls_count_where_the_stream_just_stopped() {
        let mut calls = CallPieces::default();
        let delta = |index, name: &str, arguments: &str| CallDelta {
            index: Some(index),
            id: None,
            name: Some(name.into()),
            arguments: Some(arguments.into()),
        };
        calls.add(delta(0, "read", "{}"));
        calls.add(delta(1, "grep", "{\"pat"));
        calls.add(delta(2, "list", ""));
        assert!(calls.has_complete(false));
        let names: Vec<String> = calls.finish(true, false).into_iter().map(|call| call.name).collect();
        assert_eq!(names, ["read"]);
    }
}
