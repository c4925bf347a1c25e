//! Owns the goldens of every error, in the form it has as the `data` of a response.

use gent_protocol::{EventSeq, Millis, RpcCode, RpcError};

use crate::golden::{Case, case};
use crate::samples as s;

macro_rules! plain {
    ($($tag:ident),* $(,)?) => {
        vec![$(RpcError::$tag { message: "what, where, what to do".into() },)*]
    };
}

pub(crate) fn cases() -> Vec<Case> {
    let mut errors = plain![
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        NotFoundError,
        InvalidStateError,
        StorageError,
        EventStoreError,
        SessionRuntimeError,
        ProviderAuthError,
        WorkspaceHeaderError,
        Busy,
        Terminated,
        WouldWait,
        Interrupted,
        OutcomeUnknown,
    ];
    errors.extend(with_fields());
    let mut cases: Vec<Case> =
        errors.iter().map(|error| case(format!("error.{}", error.tag()), error.clone())).collect();
    cases.extend(errors.iter().take(1).map(|error| case("error-object", error.to_object())));
    cases.push(case("rpc-code", RpcCode(-32001)));
    cases
}

fn with_fields() -> Vec<RpcError> {
    let message = || "what, where, what to do".to_owned();
    vec![
        RpcError::SessionDepthLimitError {
            message: message(),
            parent_session_id: s::session(),
            depth: 4,
            max: 3,
        },
        RpcError::ProviderError { message: message(), model: "openai/gpt-test".into() },
        RpcError::DriverError { message: message(), driver: "openai".into() },
        RpcError::ConfigLoadError { message: message(), path: "config.json".into() },
        RpcError::ConfigWriteError { message: message(), path: "config.json".into() },
        RpcError::ExtensionProtocolError {
            message: message(),
            extension_id: "@gent/fs-tools".into(),
            capability_id: "status".into(),
        },
        RpcError::InteractionRequestMismatchError {
            message: message(),
            expected_request_id: Some(s::question()),
            actual_request_id: s::question(),
            session_id: s::session(),
            branch_id: s::branch(),
        },
        RpcError::InteractionDecisionConflictError { message: message(), request_id: s::question() },
        RpcError::LimitExceeded { message: message(), limit: "followUps".into(), max: 10 },
        RpcError::CursorInvalid { message: message(), last_event_id: EventSeq(41) },
        RpcError::Draining { message: message(), retry_after_ms: Millis(1500) },
        RpcError::NotOwner { message: message(), url: "http://127.0.0.1:1".into() },
    ]
}
