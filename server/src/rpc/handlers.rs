//! Owns the way from each method to the engine: one arm a method, and no arm for the rest.
//! Never decides anything a branch or the store decides. Tested in `tests/`, end to end.

mod events;
mod server;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use gent_actors::{Engine, EngineError, Env};
use gent_protocol::{Call, Done, Method, RpcError, WorkspaceId};
use gent_storage::Store;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::dispatch::{Batches, Called, Dispatch, Failure};
use crate::error::rpc_error;
use crate::http::connections::Connections;
use crate::lifecycle::Lifecycle;

/// Answers calls from the engine.
#[derive(Clone)]
pub(crate) struct EngineDispatch {
    /// The engine.
    pub(crate) engine: Engine,
    /// The store, for what it says of itself.
    pub(crate) store: Store,
    /// Ids and time.
    pub(crate) env: Env,
    /// The data directory, for the status.
    pub(crate) data_dir: String,
    /// The sockets, for the status.
    pub(crate) connections: Arc<Connections>,
    /// The phase, and where to ask for an end.
    pub(crate) lifecycle: Arc<Lifecycle>,
}

impl Dispatch for EngineDispatch {
    fn call(&self, called: Called) -> LocalBoxFuture<'static, Result<String, Failure>> {
        let this = self.clone();
        async move { this.answer(called).await }.boxed_local()
    }

    fn subscribe(&self, called: Called) -> LocalBoxFuture<'static, Result<Box<dyn Batches>, Failure>> {
        let engine = self.engine.clone();
        async move { events::open(&engine, called).await }.boxed_local()
    }
}

impl EngineDispatch {
    async fn answer(&self, called: Called) -> Result<String, Failure> {
        let Called { method, params, workspace } = called;
        let (engine, params) = (&self.engine, &*params);
        let of = || workspace.as_ref().ok_or_else(missing_workspace);
        match method {
            Method::ServerHello => server::hello(self, parse(params)?),
            Method::ServerStatus => server::status(self, parse(params)?).await,
            Method::ServerRetire => server::retire(self, parse(params)?).await,
            Method::AuthOffer => reply(params, async |p| Ok(engine.offer(of()?, p))).await,
            Method::SessionCreate => {
                reply(params, async |p| ask(engine.session_create(of()?, p).await)).await
            }
            Method::SessionList => reply(params, async |p| ask(engine.session_list(of()?, p).await)).await,
            Method::SessionGet => reply(params, async |p| ask(engine.session_get(of()?, p).await)).await,
            Method::SessionUpdateSettings => {
                reply(params, async |p| ask(engine.session_update_settings(of()?, p).await)).await
            }
            Method::SessionGetSnapshot => reply(params, async |p| ask(engine.snapshot(of()?, p).await)).await,
            Method::SessionDelete => {
                reply(params, async |p| ask(engine.session_delete(of()?, p).await).map(|()| Done {})).await
            }
            Method::BranchList => reply(params, async |p| ask(engine.branch_list(of()?, p).await)).await,
            Method::MessageSend => {
                reply(params, async |p| ask(engine.message_send(of()?, p).await).map(|()| Done {})).await
            }
            Method::MessageList => reply(params, async |p| ask(engine.message_list(of()?, p).await)).await,
            Method::SteerCommand => {
                reply(params, async |p: gent_protocol::SteerParams| {
                    ask(engine.steer(of()?, p.command).await).map(|()| Done {})
                })
                .await
            }
            Method::QueueGet => reply(params, async |p| ask(engine.queue_get(of()?, p).await)).await,
            Method::QueueDrain => reply(params, async |p| ask(engine.queue_drain(of()?, p).await)).await,
            Method::InteractionRespond => {
                reply(params, async |p| ask(engine.respond(of()?, p).await).map(|()| Done {})).await
            }
            Method::ModelList => {
                reply(params, async |p| ask(engine.model_list(workspace.as_ref(), p).await)).await
            }
            Method::ActorList => reply(params, async |p| ask(engine.actor_list(p).await)).await,
            Method::ActorGet => reply(params, async |p| ask(engine.actor_get(p).await)).await,
            Method::SessionEvents => {
                Err(RpcError::InternalError { message: format!("{} answers with a stream", method.name()) }
                    .into())
            }
        }
    }
}

/// Reads the parameters, asks, and writes the answer: the parameter type decides the type of the answer.
async fn reply<P: Call>(
    params: &RawValue,
    ask: impl AsyncFnOnce(P) -> Result<P::Reply, RpcError>,
) -> Result<String, Failure> {
    let answer = ask(parse(params)?).await?;
    json(&answer)
}

fn ask<T>(outcome: Result<T, EngineError>) -> Result<T, RpcError> {
    outcome.map_err(rpc_error)
}

fn json(answer: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer).map_err(|error| {
        RpcError::InternalError { message: format!("the answer could not be written: {error}") }.into()
    })
}

/// Reads the parameters of a method; what does not fit is named.
fn parse<P: DeserializeOwned>(params: &RawValue) -> Result<P, RpcError> {
    serde_json::from_str(params.get())
        .map_err(|error| RpcError::InvalidParams { message: format!("the parameters do not fit: {error}") })
}

fn missing_workspace() -> RpcError {
    RpcError::WorkspaceHeaderError { message: "meta.workspace is missing".into() }
}

/// The workspace of a call that needs one.
fn workspace_of(called: &Called) -> Result<&WorkspaceId, RpcError> {
    called.workspace.as_ref().ok_or_else(missing_workspace)
}
