//! Owns the way from the engine's errors to the wire: one arm for each, and no arm for the rest.
//! Never makes up a sentence the engine did not give, and never passes on a cause: that is the log's.
//! Tested below.

use gent_actors::EngineError;
use gent_protocol::RpcError;

/// The wire's form of an engine's error.
pub(crate) fn rpc_error(error: EngineError) -> RpcError {
    let message = error.to_string();
    match error {
        EngineError::NotFound { .. } => RpcError::NotFoundError { message },
        EngineError::InvalidState { .. } => RpcError::InvalidStateError { message },
        EngineError::Terminated { .. } => RpcError::Terminated { message },
        EngineError::Busy { .. } => RpcError::Busy { message },
        EngineError::LimitExceeded { limit, max, .. } => {
            RpcError::LimitExceeded { message, limit: limit.to_owned(), max }
        }
        EngineError::CursorInvalid { last } => RpcError::CursorInvalid { message, last_event_id: last },
        EngineError::Draining { retry_after } => RpcError::Draining { message, retry_after_ms: retry_after },
        EngineError::Storage { ref source, .. } => {
            log_cause("storage", source.as_ref());
            RpcError::StorageError { message }
        }
        EngineError::EventStore { ref source, .. } => {
            log_cause("events", source.as_ref());
            RpcError::EventStoreError { message }
        }
        EngineError::Turn { .. } | EngineError::GivenUp { .. } => RpcError::SessionRuntimeError { message },
        EngineError::QuestionMismatch { question, shown, session, branch } => {
            RpcError::InteractionRequestMismatchError {
                message,
                expected_request_id: shown,
                actual_request_id: question,
                session_id: session,
                branch_id: branch,
            }
        }
        EngineError::QuestionConflict { question } => {
            RpcError::InteractionDecisionConflictError { message, request_id: question }
        }
        EngineError::Provider { model, .. } => RpcError::ProviderError { message, model },
        EngineError::Interrupted => RpcError::Interrupted { message },
        EngineError::OutcomeUnknown => RpcError::OutcomeUnknown { message },
    }
}

fn log_cause(part: &'static str, source: Option<&gent_storage::StoreError>) {
    if let Some(source) = source {
        tracing::warn!(part, error = source as &(dyn std::error::Error + 'static), "call.failed");
    }
}

#[cfg(test)]
mod tests {
    use gent_protocol::{EventSeq, Millis};

    use super::*;

    #[test]
    fn each_error_keeps_its_sentence_and_its_fields() {
        let message = || "why".to_owned();
        let cases = [
            (EngineError::InvalidState { message: message() }, "InvalidStateError"),
            (EngineError::Terminated { session: "s".into() }, "Terminated"),
            (EngineError::Busy { branch: "b".into() }, "Busy"),
            (EngineError::Storage { message: message(), source: None }, "StorageError"),
            (EngineError::EventStore { message: message(), source: None }, "EventStoreError"),
            (EngineError::Turn { message: message() }, "SessionRuntimeError"),
            (EngineError::Interrupted, "Interrupted"),
            (EngineError::OutcomeUnknown, "OutcomeUnknown"),
        ];
        for (error, tag) in cases {
            let sentence = error.to_string();
            let mapped = rpc_error(error);
            assert_eq!((mapped.tag(), mapped.message()), (tag, sentence.as_str()));
        }
        assert_eq!(
            rpc_error(EngineError::LimitExceeded { limit: "followUps", max: 10, message: message() }),
            RpcError::LimitExceeded { message: message(), limit: "followUps".into(), max: 10 }
        );
        assert!(matches!(
            rpc_error(EngineError::CursorInvalid { last: EventSeq(7) }),
            RpcError::CursorInvalid { last_event_id: EventSeq(7), .. }
        ));
        assert!(matches!(
            rpc_error(EngineError::Draining { retry_after: Millis(9) }),
            RpcError::Draining { retry_after_ms: Millis(9), .. }
        ));
        assert!(matches!(
            rpc_error(EngineError::Provider { model: "a/b".into(), message: message() }),
            RpcError::ProviderError { model, .. } if model == "a/b"
        ));
    }
}
