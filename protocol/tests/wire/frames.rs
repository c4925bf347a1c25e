//! Owns the goldens of the frames, as client and server write them.

use gent_protocol::{
    IncomingFrame, Meta, Notification, Request, Response, RpcError, ServerFrame, StreamCancel, StreamEnd,
    StreamEndReason, StreamItem, WireId, parse_frame,
};
use serde_json::json;

use crate::golden::{Case, case};
use crate::samples as s;

fn request() -> Request {
    let meta = Meta { trace: Some("00-0123-4567-01".into()), ..Meta::of(&s::workspace()) };
    Request::new(WireId::Text("r".into()), "session.list", Some(json!({ "limit": 5 })), Some(meta))
}

fn failed() -> Response {
    let error = RpcError::Busy { message: "the branch is busy, try again".into() };
    Response { jsonrpc: "2.0".into(), id: None, result: None, error: Some(error.to_object()) }
}

pub(crate) fn cases() -> Vec<Case> {
    let answered =
        Response { jsonrpc: "2.0".into(), id: Some(WireId::Number(7)), result: Some(json!({})), error: None };
    let item = Notification {
        jsonrpc: "2.0".into(),
        method: "stream.item".into(),
        params: json!({ "subscription": "sub-1", "items": [1, 2] }),
    };
    let ended =
        StreamEnd { subscription: s::subscription(), reason: StreamEndReason::Failed, error: failed().error };
    let mut cases = vec![
        case("frame.request", request()),
        case("frame.request.bare", Request::new(WireId::Number(1), "server.status", None, None)),
        case("frame.response", answered.clone()),
        case("frame.response.error", failed()),
        case("frame.notification", item.clone()),
        case("server-frame.response", ServerFrame::Response(answered)),
        case("server-frame.notification", ServerFrame::Notification(item)),
        case("meta", Meta::of(&s::workspace())),
        case("stream.item", StreamItem { subscription: s::subscription(), items: vec![json!({ "id": 1 })] }),
        case("stream.end", ended),
        case("stream.cancel", StreamCancel { subscription: s::subscription() }),
        case("wire-id.number", WireId::Number(-3)),
        case("wire-id.text", WireId::Text("three".into())),
    ];
    for reason in [
        StreamEndReason::Cancelled,
        StreamEndReason::Deleted,
        StreamEndReason::Going,
        StreamEndReason::Failed,
    ] {
        cases.push(case(format!("stream-end-reason.{reason:?}"), reason));
    }
    cases
}

#[test]
fn the_golden_request_is_read_by_the_server_as_it_was_written() {
    let text = serde_json::to_string(&request()).unwrap();
    let IncomingFrame::Request(read) = parse_frame(&text).unwrap() else { panic!("not a request") };
    assert_eq!((read.id, read.method.as_str()), (WireId::Text("r".into()), "session.list"));
    assert_eq!(read.params.get(), r#"{"limit":5}"#);
    assert_eq!(Some(read.meta), request().meta);
}
