//! Owns the ways a connection or a call can fail, as far as a caller acts differently on them.
//! Never holds a token.
//! Tested in `protocol/client/tests/it`.

use std::time::Duration;

use gent_protocol::{RpcError, UnknownRpcError};

use crate::ServerUrl;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// 1001: the server goes away; another one will come.
    #[error("the server is going away")]
    Going,
    /// 1008: the server refused how its socket was used.
    #[error("the server refused the connection's frames")]
    Policy,
    /// 1009: a request was too large.
    #[error("a request was larger than the server takes")]
    TooLarge,
    /// 4408: the client did not read fast enough.
    #[error("the client did not read what it asked for fast enough")]
    Slow,
    /// 4426: the two speak different protocols.
    #[error("client and server speak different major versions of the protocol")]
    ProtocolMajor,
    /// Another code.
    #[error("the server closed the connection with code {0}")]
    Code(u16),
    /// No goodbye: the server died or the network broke.
    #[error("the connection to the server was lost")]
    Lost,
    /// The server sent what the protocol does not know.
    #[error("the server sent a frame that is not of this protocol")]
    Garbage,
    /// This side closed it.
    #[error("the connection was closed by this side")]
    Left,
}

impl CloseReason {
    /// The reason of a close code.
    pub fn of_code(code: u16) -> Self {
        match code {
            1001 => Self::Going,
            1008 => Self::Policy,
            1009 => Self::TooLarge,
            4408 => Self::Slow,
            4426 => Self::ProtocolMajor,
            1000 | 1006 => Self::Lost,
            other => Self::Code(other),
        }
    }

    /// True when a new connection may fare better.
    pub fn may_reconnect(&self) -> bool {
        match self {
            Self::Going | Self::Slow | Self::Lost | Self::Code(_) => true,
            Self::Policy | Self::TooLarge | Self::ProtocolMajor | Self::Garbage | Self::Left => false,
        }
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The server answered with an error that this build does not know.
    #[error(transparent)]
    UnknownRpc(#[from] UnknownRpcError),
    /// The connection ended before the answer: whether it was done is unknown.
    #[error("{reason}{}", text_after(.text))]
    Closed {
        /// Why.
        reason: CloseReason,
        /// What the server said with it; may be empty.
        text: String,
    },
    /// The request was not sent.
    #[error("the request has {bytes} bytes, a server takes {max}: send less at once")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most.
        max: usize,
    },
    /// The parameters do not encode or the answer does not decode.
    #[error("the answer to {method} is not what this build expects: {detail}")]
    Protocol {
        /// The method.
        method: &'static str,
        /// What did not fit.
        detail: String,
    },
}

fn text_after(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl CallError {
    /// The tag for a machine: that of the server's error, or this side's own.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Rpc(error) => error.tag(),
            Self::UnknownRpc(_) => "UnknownError",
            Self::Closed { .. } => "ConnectionClosed",
            Self::TooLarge { .. } => "RequestTooLarge",
            Self::Protocol { .. } => "ProtocolError",
        }
    }

    /// True when the connection is gone.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// What the server asks a caller to wait before it repeats, where a repeat makes sense on this connection.
    pub fn repeat_after(&self) -> Option<Repeat> {
        match self {
            Self::Rpc(RpcError::Draining { retry_after_ms, .. }) => {
                let wait = Duration::from_millis(u64::try_from(retry_after_ms.0).unwrap_or(0));
                Some(Repeat { draining: true, wait: Some(wait) })
            }
            Self::Rpc(RpcError::Busy { .. } | RpcError::OutcomeUnknown { .. }) => {
                Some(Repeat { draining: false, wait: None })
            }
            Self::Rpc(_)
            | Self::UnknownRpc(_)
            | Self::Closed { .. }
            | Self::TooLarge { .. }
            | Self::Protocol { .. } => None,
        }
    }
}

/// How a refused call is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// The server is handing over.
    pub draining: bool,
    /// The pause it names.
    pub wait: Option<Duration>,
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("no server answers at {url}")]
    Refused {
        /// Where.
        url: ServerUrl,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// 401: the token is wrong or of an earlier start.
    #[error("the server at {url} refused the token: it is wrong or of an earlier start of the server")]
    Unauthorized {
        /// Where.
        url: ServerUrl,
    },
    /// 403: the server does not serve this name or origin.
    #[error("the server at {url} does not serve this host name: {detail}")]
    Forbidden {
        /// Where.
        url: ServerUrl,
        /// What it said.
        detail: String,
    },
    /// Another answer than the upgrade.
    #[error("the server at {url} did not open a socket: {detail}")]
    Handshake {
        /// Where.
        url: ServerUrl,
        /// What came instead.
        detail: String,
    },
    /// No answer in time.
    #[error("the server at {url} did not open a socket within 5 s")]
    Late {
        /// Where.
        url: ServerUrl,
    },
}
