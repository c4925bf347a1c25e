//! Owns the texts a connection writes: answers, stream items and stream ends, put together from ready JSON.
//! Never serializes a result or an event a second time. Tested below.

use std::sync::Arc;

use gent_protocol::{RpcError, StreamEndReason, SubscriptionId, WireId};
use serde::Serialize;

fn json(value: &impl Serialize) -> String {
    // Ids, errors and reasons are plain values: they always have a JSON form.
    serde_json::to_string(value).unwrap_or_else(|_never| "null".to_owned())
}

/// The answer to a request: `result` is JSON already.
pub(crate) fn result(id: &WireId, result: &str) -> String {
    let id = json(id);
    let mut text = String::with_capacity(result.len().saturating_add(id.len()).saturating_add(40));
    text.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    text.push_str(&id);
    text.push_str(",\"result\":");
    text.push_str(result);
    text.push('}');
    text
}

/// The answer to a request that failed; no id where none could be read.
pub(crate) fn error(id: Option<&WireId>, error: &RpcError) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}}", json(&id), json(&error.to_object()))
}

/// A batch of a stream: `items` are JSON already.
pub(crate) fn items(subscription: &SubscriptionId, items: &[Arc<str>]) -> String {
    let subscription = json(subscription);
    let length: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut text = String::with_capacity(length.saturating_add(subscription.len()).saturating_add(90));
    text.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"stream.item\",\"params\":{\"subscription\":");
    text.push_str(&subscription);
    text.push_str(",\"items\":[");
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(item);
    }
    text.push_str("]}}");
    text
}

/// The end of a stream.
pub(crate) fn end(
    subscription: &SubscriptionId,
    reason: StreamEndReason,
    failed: Option<&RpcError>,
) -> String {
    let error = failed.map(|error| format!(",\"error\":{}", json(&error.to_object()))).unwrap_or_default();
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"stream.end\",\"params\":{{\"subscription\":{},\"reason\":{}{error}}}}}",
        json(subscription),
        json(&reason),
    )
}

#[cfg(test)]
mod tests {
    use gent_protocol::{Notification, Response, StreamEnd, StreamItem};

    use super::*;

    #[test]
    fn what_is_put_together_by_hand_reads_as_the_wire_types() {
        let id = WireId::Text("a\"b".into());
        let response: Response = serde_json::from_str(&result(&id, "{\"x\":[1]}")).unwrap();
        assert_eq!((response.id, response.error), (Some(id), None));
        assert_eq!(response.result, Some(serde_json::json!({"x": [1]})));

        let busy = RpcError::Busy { message: "later".into() };
        let response: Response = serde_json::from_str(&error(None, &busy)).unwrap();
        assert_eq!(response.id, None);
        assert_eq!(response.error, Some(busy.to_object()));

        let subscription = SubscriptionId::parse("s1").unwrap();
        let two: Vec<Arc<str>> = vec!["{\"id\":1}".into(), "{\"id\":2}".into()];
        let note: Notification = serde_json::from_str(&items(&subscription, &two)).unwrap();
        let item: StreamItem = serde_json::from_value(note.params).unwrap();
        assert_eq!((note.method.as_str(), item.items.len()), ("stream.item", 2));

        let text = end(&subscription, StreamEndReason::Failed, Some(&busy));
        let note: Notification = serde_json::from_str(&text).unwrap();
        let ended: StreamEnd = serde_json::from_value(note.params).unwrap();
        assert_eq!((ended.reason, ended.error), (StreamEndReason::Failed, Some(busy.to_object())));
    }
}
