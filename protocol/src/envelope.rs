//! Owns the envelope of an event and how a reader decodes one: an unknown tag is skipped, a known one that does
//! not fit fails. Never makes an event. Tested below and in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentEvent, BranchId, EventSeq, Millis, SessionId};

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventEnvelope {
    /// The number within the session.
    pub id: EventSeq,
    /// The session.
    pub session_id: SessionId,
    /// The branch; absent for events of the whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_id: Option<BranchId>,
    /// When it was appended.
    pub created_at: Millis,
    /// The event.
    pub event: AgentEvent,
    /// The trace it was appended under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// What a reader makes of an event's JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum DecodedEvent {
    /// A known event.
    Known(Box<AgentEvent>),
    /// A tag this build does not know: to be skipped with a warning.
    Unknown {
        /// The tag.
        tag: String,
    },
}

/// A known event whose payload does not decode.
#[derive(Debug, thiserror::Error)]
#[error("event of tag {tag:?} does not decode")]
pub struct EventDecodeError {
    /// Its tag; empty when even that is missing.
    pub tag: String,
    /// What did not fit.
    #[source]
    pub source: serde_json::Error,
}

/// Decodes an event's JSON. An unknown tag is not an error, a known one that does not fit is.
pub fn decode_event(json: &str) -> Result<DecodedEvent, EventDecodeError> {
    #[derive(Deserialize)]
    struct Tagged {
        #[serde(rename = "_tag")]
        tag: String,
    }
    match serde_json::from_str::<AgentEvent>(json) {
        Ok(event) => Ok(DecodedEvent::Known(Box::new(event))),
        Err(source) => match serde_json::from_str::<Tagged>(json) {
            Ok(Tagged { tag }) if !AgentEvent::TAGS.contains(&tag.as_str()) => {
                Ok(DecodedEvent::Unknown { tag })
            }
            Ok(Tagged { tag }) => Err(EventDecodeError { tag, source }),
            Err(_) => Err(EventDecodeError { tag: String::new(), source }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_tag_is_skipped_and_a_known_one_that_does_not_decode_fails() {
        let unknown = decode_event(r#"{"_tag":"SomethingNew","x":1}"#).unwrap();
        assert_eq!(unknown, DecodedEvent::Unknown { tag: "SomethingNew".into() });
        let broken = decode_event(r#"{"_tag":"SessionStarted"}"#).unwrap_err();
        assert_eq!(broken.tag, "SessionStarted");
        assert!(decode_event("{}").is_err());
    }
}
