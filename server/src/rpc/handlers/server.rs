//! Owns `server.hello`, `server.status` and `server.retire`.
//! Never reads the disk. Tested in `tests/`, end to end.

use gent_protocol::{Hello, HelloReply, Limits, Millis, PROTOCOL, Retire, Retired, ServerStatus, Status};

use super::{EngineDispatch, json};
use crate::http::frames::{MESSAGE_BYTES, MESSAGE_FRAGMENTS};
use crate::lifecycle::{Phase, Stop};
use crate::rpc::calls::{REQUESTS, SUBSCRIPTIONS};
use crate::rpc::dispatch::Failure;

/// Greets; a client of another major version is sent away.
pub(crate) fn hello(dispatch: &EngineDispatch, hello: Hello) -> Result<String, Failure> {
    if hello.protocol.major != PROTOCOL.major {
        let (theirs, ours) = (hello.protocol.major, PROTOCOL.major);
        return Err(Failure::Close(4426, format!("this server speaks protocol {ours}, the client {theirs}")));
    }
    tracing::debug!(client = hello.client, version = hello.version, "client.greeted");
    json(&HelloReply {
        server: "gent".to_owned(),
        version: crate::build(),
        protocol: PROTOCOL,
        limits: Limits {
            frame_bytes: u64::try_from(MESSAGE_BYTES).unwrap_or(u64::MAX),
            fragments: MESSAGE_FRAGMENTS,
            requests_in_flight: u32::try_from(REQUESTS).unwrap_or(u32::MAX),
            subscriptions: u32::try_from(SUBSCRIPTIONS).unwrap_or(u32::MAX),
            follow_ups: u32::try_from(gent_actors::limits::FOLLOW_UPS).unwrap_or(u32::MAX),
        },
        store: dispatch.store.incarnation().clone(),
    })
}

/// Says how it is.
pub(crate) async fn status(dispatch: &EngineDispatch, _status: Status) -> Result<String, Failure> {
    let health = dispatch.engine.health().await;
    json(&ServerStatus {
        version: crate::build(),
        protocol: PROTOCOL,
        pid: std::process::id(),
        uptime_ms: Millis(i64::try_from(dispatch.env.monotonic().as_millis()).unwrap_or(i64::MAX)),
        data_dir: dispatch.data_dir.clone(),
        database: dispatch.store.status(),
        connections: u64::try_from(dispatch.connections.open()).unwrap_or(u64::MAX),
        branches: health.branches,
        dead_letters: health.dead_letters,
        writer: health.writer,
        draining: health.draining || dispatch.lifecycle.phase() != Phase::Serving,
    })
}

/// Begins to hand over: the answer goes out, then no new turn starts.
pub(crate) async fn retire(dispatch: &EngineDispatch, _retire: Retire) -> Result<String, Failure> {
    let running = dispatch.engine.health().await.branches.running;
    dispatch.lifecycle.request(Stop::Retire);
    let within = i64::try_from(Stop::Retire.drain().as_millis()).unwrap_or(i64::MAX);
    json(&Retired { running, within_ms: Millis(within) })
}
