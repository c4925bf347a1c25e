//! Owns the seam between a connection and what answers it: a call goes in, a JSON text or an error comes out.
//! Never touches a socket. Tested with a made-up dispatch in `rpc/connection.rs` and `socket_tests.rs`.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use gent_protocol::{Method, RpcError, WorkspaceId};
use serde_json::value::RawValue;

/// One call, already checked for method and workspace.
pub(crate) struct Called {
    /// The method.
    pub(crate) method: Method,
    /// Its parameters as they came.
    pub(crate) params: Box<RawValue>,
    /// The workspace; there where the method needs one.
    pub(crate) workspace: Option<WorkspaceId>,
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error to answer.
    Rpc(RpcError),
    /// The connection is of no use: close it with this code and sentence.
    Close(u16, String),
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

/// Ready JSON texts of a stream, a bounded batch at a time.
pub(crate) trait Batches {
    /// Waits until there may be something to take. Holds nothing meanwhile.
    fn ready(&mut self) -> LocalBoxFuture<'_, ()>;

    /// Takes the next batch, empty when there is nothing after all; `None` when what is followed is gone.
    fn take(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<Arc<str>>>, RpcError>>;
}

/// Answers calls.
pub(crate) trait Dispatch: Send + Sync + 'static {
    /// Answers one call with the JSON text of its result. Dropping the future drops the wait, not the work.
    fn call(&self, called: Called) -> LocalBoxFuture<'static, Result<String, Failure>>;

    /// Opens a stream.
    fn subscribe(&self, called: Called) -> LocalBoxFuture<'static, Result<Box<dyn Batches>, Failure>>;
}
