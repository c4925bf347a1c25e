//! Owns the closed list of errors a call can end with, their codes and their fields.
//! Never makes up the sentence: whoever fails says what, where and what to do.
//! Tested below, in `protocol/tests/wire.rs`, and against `docs/PROTOCOL.md` by the tidy test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::frame::ErrorObject;
use crate::{BranchId, EventSeq, InteractionRequestId, Millis, SessionId};

macro_rules! rpc_errors {
    ($($(#[$doc:meta])* $tag:ident = $code:literal { $($(#[$fdoc:meta])* $field:ident : $type:ty),* $(,)? })*) => {
        /// Why a call failed. `tag` decides; the code follows it.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "tag", rename_all_fields = "camelCase")]
        pub enum RpcError {
            $($(#[$doc])* $tag {
                /// One sentence: what, where, and what to do.
                #[serde(default)]
                message: String,
                $($(#[$fdoc])* $field: $type,)*
            },)*
        }

        impl RpcError {
            /// Every tag with its code, in the order of the documented table.
            pub const TABLE: &'static [(&'static str, i32)] = &[$((stringify!($tag), $code),)*];

            /// The tag.
            pub fn tag(&self) -> &'static str {
                match self { $(Self::$tag { .. } => stringify!($tag),)* }
            }

            /// The code.
            pub fn code(&self) -> RpcCode {
                match self { $(Self::$tag { .. } => RpcCode($code),)* }
            }

            /// The sentence.
            pub fn message(&self) -> &str {
                match self { $(Self::$tag { message, .. } => message,)* }
            }
        }
    };
}

/// A JSON-RPC error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RpcCode(pub i32);

rpc_errors! {
    /// The frame is not JSON.
    ParseError = -32700 {}
    /// The frame is not a request.
    InvalidRequest = -32600 {}
    /// There is no such method.
    MethodNotFound = -32601 {}
    /// The parameters do not fit the method.
    InvalidParams = -32602 {}
    /// The server failed in a way it has no name for.
    InternalError = -32603 {}
    /// No such session, branch, message, agent, driver or model.
    NotFoundError = -32001 {}
    /// The call does not fit what is there.
    InvalidStateError = -32002 {}
    /// A session may not spawn another one at this depth.
    SessionDepthLimitError = -32003 {
        /// The session that would spawn.
        parent_session_id: SessionId,
        /// Its depth.
        depth: u32,
        /// The deepest allowed.
        max: u32,
    }
    /// The store refused or failed; nothing was stored.
    StorageError = -32004 {}
    /// Events could not be read or followed.
    EventStoreError = -32005 {}
    /// The branch could not do it, or the turn failed.
    SessionRuntimeError = -32006 {}
    /// The provider failed.
    ProviderError = -32007 {
        /// The model that was asked for.
        model: String,
    }
    /// A credential is missing or was refused.
    ProviderAuthError = -32008 {}
    /// A driver cannot serve.
    DriverError = -32009 {
        /// The driver.
        driver: String,
    }
    /// A configuration file does not decode.
    ConfigLoadError = -32010 {
        /// The file.
        path: String,
    }
    /// A configuration file could not be written.
    ConfigWriteError = -32011 {
        /// The file.
        path: String,
    }
    /// An extension failed a request.
    ExtensionProtocolError = -32012 {
        /// The extension.
        extension_id: String,
        /// The request.
        capability_id: String,
    }
    /// The answered question is not the open one.
    InteractionRequestMismatchError = -32013 {
        /// The open question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_request_id: Option<InteractionRequestId>,
        /// The answered one.
        actual_request_id: InteractionRequestId,
        /// The session.
        session_id: SessionId,
        /// The branch.
        branch_id: BranchId,
    }
    /// The question has another answer already.
    InteractionDecisionConflictError = -32014 {
        /// The question.
        request_id: InteractionRequestId,
    }
    /// `meta.workspace` is missing or malformed.
    WorkspaceHeaderError = -32015 {}
    /// A bound was reached; nothing was done.
    LimitExceeded = -32016 {
        /// Which bound.
        limit: String,
        /// Its value.
        max: u64,
    }
    /// The branch takes no more commands now; try again.
    Busy = -32017 {}
    /// The session is being deleted.
    Terminated = -32018 {}
    /// The cursor is of another store or beyond its end; take a new snapshot.
    CursorInvalid = -32019 {
        /// The newest event there is.
        last_event_id: EventSeq,
    }
    /// The server is going away; try the next one.
    Draining = -32020 {
        /// When to try.
        retry_after_ms: Millis,
    }
    /// Another node owns the branch.
    NotOwner = -32021 {
        /// Where it is.
        url: String,
    }
    /// The call would wait for itself.
    WouldWait = -32022 {}
    /// What was running was stopped.
    Interrupted = -32023 {}
    /// The store lost the answer: repeat with the same request id.
    OutcomeUnknown = -32024 {}
}

impl RpcError {
    /// The error as it stands in a response.
    pub fn to_object(&self) -> ErrorObject {
        ErrorObject {
            code: self.code(),
            message: self.message().to_owned(),
            data: serde_json::to_value(self).unwrap_or(Value::Null),
        }
    }

    /// Reads an error out of a response; one of an unknown tag keeps its code and sentence.
    pub fn from_object(object: &ErrorObject) -> Result<Self, UnknownRpcError> {
        let mut data = object.data.clone();
        if let Value::Object(fields) = &mut data {
            fields.entry("message").or_insert_with(|| Value::String(object.message.clone()));
        }
        serde_json::from_value(data)
            .map_err(|_unfit| UnknownRpcError { code: object.code, message: object.message.clone() })
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for RpcError {}

/// An error of a tag that this build does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownRpcError {
    /// Its code.
    pub code: RpcCode,
    /// Its sentence.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_wire_with_its_fields() {
        let error = RpcError::LimitExceeded {
            message: "the queue is full".into(),
            limit: "followUps".into(),
            max: 10,
        };
        let object = error.to_object();
        assert_eq!(object.code, RpcCode(-32016));
        assert_eq!(object.message, "the queue is full");
        assert_eq!(RpcError::from_object(&object), Ok(error));
    }

    #[test]
    fn application_codes_follow_the_order_of_the_table_without_a_gap() {
        let codes: Vec<i32> = RpcError::TABLE.iter().map(|(_, code)| *code).filter(|c| *c > -32100).collect();
        let expected: Vec<i32> = (1..=24).map(|n| -32000 - n).collect();
        assert_eq!(codes, expected);
    }
}
