//! Owns `session.events`: the engine's stream of ready envelopes, as batches of a connection.
//! Never serializes an envelope. Tested in `tests/`, end to end.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use gent_actors::{Engine, EventStream};
use gent_protocol::RpcError;

use super::{ask, parse, workspace_of};
use crate::rpc::dispatch::{Batches, Called, Failure};

/// Opens the stream of one session.
pub(crate) async fn open(engine: &Engine, called: Called) -> Result<Box<dyn Batches>, Failure> {
    let workspace = workspace_of(&called)?;
    let stream = ask(engine.subscribe(workspace, parse(&called.params)?).await)?;
    Ok(Box::new(Events(stream)))
}

struct Events(EventStream);

impl Batches for Events {
    fn ready(&mut self) -> LocalBoxFuture<'_, ()> {
        self.0.ready().boxed_local()
    }

    fn take(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<Arc<str>>>, RpcError>> {
        async move {
            let batch = ask(self.0.take().await)?;
            Ok(batch.map(|batch| batch.into_iter().map(|published| published.json).collect()))
        }
        .boxed_local()
    }
}
