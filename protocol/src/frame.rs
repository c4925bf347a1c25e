//! Owns the frames of the socket: JSON-RPC 2.0, one object a text message; streams ride on notifications.
//! Never dispatches. Tested below and in `protocol/tests/wire.rs`.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::RpcCode;
use crate::{SubscriptionId, WorkspaceId};

/// The id of a request, echoed with its own type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WireId {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

/// What goes with a request beside its parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The workspace, as its 64 hex digits. Text, so that a malformed one gets its own error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// A trace to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Meta {
    /// The meta of a workspace.
    pub fn of(workspace: &WorkspaceId) -> Self {
        Self { workspace: Some(workspace.to_string()), trace: None }
    }
}

/// A request as a client writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// `2.0`.
    pub jsonrpc: String,
    /// Its id.
    pub id: WireId,
    /// The method.
    pub method: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// What goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Request {
    /// A request of this protocol.
    pub fn new(id: WireId, method: &str, params: Option<Value>, meta: Option<Meta>) -> Self {
        Self { jsonrpc: "2.0".into(), id, method: method.into(), params, meta }
    }
}

/// A request as the server reads it: the parameters stay text until the method is known.
#[derive(Debug)]
pub struct RequestFrame {
    /// Its id.
    pub id: WireId,
    /// The method.
    pub method: String,
    /// Its parameters; `{}` when absent.
    pub params: Box<RawValue>,
    /// What goes with it.
    pub meta: Meta,
}

/// What a client may send.
#[derive(Debug)]
pub enum IncomingFrame {
    /// Wants an answer.
    Request(RequestFrame),
    /// Wants none: `rpc.cancel`, `stream.cancel`. Others are ignored.
    Notification {
        /// The method.
        method: String,
        /// Its parameters.
        params: Box<RawValue>,
    },
}

/// A frame that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not JSON.
    #[error("the frame is not JSON: send one JSON-RPC 2.0 object as a text message")]
    Parse,
    /// JSON, but no request.
    #[error("the frame is not a JSON-RPC 2.0 request: {reason}")]
    Invalid {
        /// What is wrong.
        reason: &'static str,
        /// Its id, where one could be read.
        id: Option<WireId>,
    },
}

/// Reads one frame of a client. Batches are refused. Every field is read by itself: a malformed one never costs the
/// answer its id.
pub fn parse_frame(text: &str) -> Result<IncomingFrame, FrameError> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        jsonrpc: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        method: Option<&'a RawValue>,
        params: Option<Box<RawValue>>,
        #[serde(borrow)]
        meta: Option<&'a RawValue>,
    }
    let invalid = |reason, id| Err(FrameError::Invalid { reason, id });
    let raw: Raw<'_> = match serde_json::from_str(text) {
        Err(error) if error.is_syntax() || error.is_eof() => return Err(FrameError::Parse),
        _ if text.trim_start().starts_with('[') => {
            return invalid("batches are not taken, send one object a message", None);
        }
        Err(_) => return invalid("it is no object, or a field stands in it twice", None),
        Ok(raw) => raw,
    };
    let id = match raw.id.map(|id| serde_json::from_str::<WireId>(id.get())).transpose() {
        Ok(id) => id,
        Err(_unfit) => return invalid("`id` must be a whole number or a text", None),
    };
    if raw.jsonrpc.and_then(as_text).as_deref() != Some("2.0") {
        return invalid("`jsonrpc` must be \"2.0\"", id);
    }
    let Some(method) = raw.method else { return invalid("`method` is missing", id) };
    let Some(method) = as_text(method) else { return invalid("`method` must be a text", id) };
    let params = match raw.params {
        Some(params) if params.get().starts_with('{') => params,
        Some(_) => return invalid("`params` must be an object", id),
        None => RawValue::from_string("{}".to_owned()).map_err(|_never| FrameError::Parse)?,
    };
    Ok(match id {
        Some(id) => {
            let meta = raw.meta.map(parse_meta).unwrap_or_default();
            IncomingFrame::Request(RequestFrame { id, method, params, meta })
        }
        None => IncomingFrame::Notification { method, params },
    })
}

/// A field that is there, be it `null`.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(field).map(Some)
}

fn as_text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// What goes with a request. What is malformed becomes a workspace that no check lets pass, so that the request is
/// answered the error of its workspace.
fn parse_meta(meta: &RawValue) -> Meta {
    const NO_WORKSPACE: &str = "(not a text)";
    let Ok(fields) = serde_json::from_str::<HashMap<String, &RawValue>>(meta.get()) else {
        return Meta { workspace: Some(NO_WORKSPACE.into()), trace: None };
    };
    let workspace = fields.get("workspace").filter(|value| value.get() != "null");
    Meta {
        workspace: workspace.map(|value| as_text(value).unwrap_or_else(|| NO_WORKSPACE.into())),
        trace: fields.get("trace").and_then(|value| as_text(value)),
    }
}

/// The error of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorObject {
    /// Its code.
    pub code: RpcCode,
    /// One sentence.
    pub message: String,
    /// `{tag, …fields}`.
    pub data: Value,
}

/// The answer to a request: `result` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Response {
    /// `2.0`.
    pub jsonrpc: String,
    /// The request's id; null when it could not be read.
    pub id: Option<WireId>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}

/// A notification of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notification {
    /// `2.0`.
    pub jsonrpc: String,
    /// `stream.item` or `stream.end`.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// What a server may send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ServerFrame {
    /// An item or the end of a stream.
    Notification(Notification),
    /// An answer.
    Response(Response),
}

/// Parameters of `stream.item`: at most 64 items or 256 KiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamItem {
    /// The stream.
    pub subscription: SubscriptionId,
    /// Its next items.
    pub items: Vec<Value>,
}

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamEndReason {
    /// The client asked.
    Cancelled,
    /// The session is gone.
    Deleted,
    /// The server goes away.
    Going,
    /// The events could not be read on.
    Failed,
}

/// Parameters of `stream.end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEnd {
    /// The stream.
    pub subscription: SubscriptionId,
    /// Why.
    pub reason: StreamEndReason,
    /// The error, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}

/// Parameters of `stream.cancel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamCancel {
    /// The stream.
    pub subscription: SubscriptionId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_frame_says_what_is_wrong_with_it() {
        assert_eq!(parse_frame("{").unwrap_err(), FrameError::Parse);
        assert!(matches!(parse_frame("[]").unwrap_err(), FrameError::Invalid { .. }));
        assert!(matches!(parse_frame("3").unwrap_err(), FrameError::Invalid { .. }));
        assert!(matches!(
            parse_frame(r#"{"jsonrpc":"1.0","id":7,"method":"x"}"#).unwrap_err(),
            FrameError::Invalid { id: Some(WireId::Number(7)), .. }
        ));
        assert!(matches!(
            parse_frame(r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#).unwrap_err(),
            FrameError::Invalid { id: None, .. }
        ));
    }

    #[test]
    fn a_request_without_id_is_a_notification() {
        let frame =
            parse_frame(r#"{"jsonrpc":"2.0","method":"stream.cancel","params":{"subscription":"s"}}"#);
        assert!(matches!(frame.unwrap(), IncomingFrame::Notification { .. }));
        let frame = parse_frame(r#"{"jsonrpc":"2.0","id":"a","method":"m"}"#).unwrap();
        let IncomingFrame::Request(request) = frame else { panic!("a request") };
        assert_eq!((request.id, request.params.get()), (WireId::Text("a".into()), "{}"));
    }

    fn request(fields: &str) -> Result<IncomingFrame, FrameError> {
        parse_frame(&format!(r#"{{"jsonrpc":"2.0",{fields}}}"#))
    }

    #[test]
    fn whatever_is_malformed_the_answer_carries_the_id() {
        for fields in [
            r#""id":7,"method":5"#,
            r#""id":7,"method":{}"#,
            r#""id":7"#,
            r#""id":7,"method":"m","params":[1]"#,
            r#""id":7,"method":"m","params":3"#,
            r#""id":7,"method":"m","params":"x""#,
        ] {
            let error = request(fields).unwrap_err();
            assert!(
                matches!(error, FrameError::Invalid { id: Some(WireId::Number(7)), .. }),
                "{fields}: {error:?}"
            );
        }
        let error = parse_frame(r#"{"jsonrpc":2,"id":"a","method":"m"}"#).unwrap_err();
        assert!(matches!(error, FrameError::Invalid { id: Some(WireId::Text(_)), .. }), "{error:?}");
    }

    #[test]
    fn an_id_that_is_null_makes_no_notification() {
        let error = request(r#""id":null,"method":"rpc.cancel""#).unwrap_err();
        assert!(matches!(error, FrameError::Invalid { id: None, .. }), "{error:?}");
    }

    #[test]
    fn a_batch_is_refused_also_where_it_has_the_fields_of_a_request_in_their_order() {
        let error = parse_frame(r#"["2.0",1,"m",{},{}]"#).unwrap_err();
        assert!(error.to_string().contains("batches"), "{error}");
    }

    #[test]
    fn a_malformed_meta_keeps_the_request_and_gives_it_no_workspace_that_passes_i30() {
        let digits = "1".repeat(64);
        let number = format!(r#"{{"workspace":{digits}}}"#);
        let array = format!(r#"["{digits}"]"#);
        for meta in ["5", r#""x""#, &array, &number, r#"{"workspace":["x"]}"#] {
            let frame = request(&format!(r#""id":7,"method":"m","meta":{meta}"#)).unwrap();
            let IncomingFrame::Request(request) = frame else { panic!("a request") };
            assert_eq!(request.id, WireId::Number(7));
            let workspace = request.meta.workspace.expect("something to refuse");
            assert!(WorkspaceId::parse(&workspace).is_err(), "{meta}: {workspace}");
        }
        let whole = format!(r#"{{"workspace":"{digits}","trace":3,"later":{{}}}}"#);
        for (meta, workspace) in [(whole.as_str(), Some(digits.clone())), ("null", None), ("{}", None)] {
            let frame = request(&format!(r#""id":7,"method":"m","meta":{meta}"#)).unwrap();
            let IncomingFrame::Request(request) = frame else { panic!("a request") };
            assert_eq!(request.meta, Meta { workspace, trace: None }, "{meta}");
        }
    }
}
