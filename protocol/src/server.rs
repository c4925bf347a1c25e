//! Owns what a server says of itself: greeting, status, identity, limits.
//! Tested in `protocol/tests/wire.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Millis, StoreIncarnation};

/// The protocol's version. Within one major number fields are only added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolVersion {
    /// Changes when an old client could misread a new server.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
}

/// Parameters of `server.hello`, which may be the first call of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The client's name.
    pub client: String,
    /// Its version.
    pub version: String,
    /// What it speaks.
    pub protocol: ProtocolVersion,
}

/// The bounds a client can run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Bytes of one message from the client.
    pub frame_bytes: u64,
    /// Fragments of one message.
    pub fragments: u32,
    /// Requests in flight on a connection.
    pub requests_in_flight: u32,
    /// Streams of a connection.
    pub subscriptions: u32,
    /// Follow-ups waiting on a branch.
    pub follow_ups: u32,
}

/// Result of `server.hello`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloReply {
    /// The server's name.
    pub server: String,
    /// Its version.
    pub version: String,
    /// What it speaks.
    pub protocol: ProtocolVersion,
    /// Its bounds.
    pub limits: Limits,
    /// The store's incarnation.
    pub store: StoreIncarnation,
}

/// Parameters of `server.status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {}

/// How many branches are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchCounts {
    /// In memory.
    pub resident: u64,
    /// Of those, running a turn.
    pub running: u64,
    /// Of those, waiting for an answer.
    pub waiting: u64,
    /// Given up after repeated failures.
    pub faulted: u64,
}

/// What the writer does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriterStatus {
    /// Writes that wait.
    pub queued: u64,
    /// Length of the last group commit in milliseconds.
    pub group_ms: f64,
}

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseKind {
    /// Embedded.
    Sqlite,
    /// By configuration.
    Postgres,
}

/// The database, never with its credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// Which.
    pub kind: DatabaseKind,
    /// Its file; absent for PostgreSQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its durability: `normal` survives process death, `full` power loss.
    pub synchronous: String,
}

/// The store as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreStatus {
    /// Its incarnation.
    pub incarnation: StoreIncarnation,
}

/// Result of `server.status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    /// The server's version.
    pub version: String,
    /// What it speaks.
    pub protocol: ProtocolVersion,
    /// Its process.
    pub pid: u32,
    /// Since its start.
    pub uptime_ms: Millis,
    /// Its data directory.
    pub data_dir: String,
    /// Its database.
    pub database: DatabaseStatus,
    /// Open sockets.
    pub connections: u64,
    /// Branches.
    pub branches: BranchCounts,
    /// Commands and reports that found no taker, since start.
    pub dead_letters: u64,
    /// The writer.
    pub writer: WriterStatus,
    /// It takes no new turns.
    pub draining: bool,
}

/// Parameters of `server.retire`: finish or park what runs, then hand over and exit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retire {}

/// Result of `server.retire`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retired {
    /// Turns that were running when it was asked.
    pub running: u64,
    /// The longest it may take.
    pub within_ms: Millis,
}

/// Answer of `GET /_gent/identity?nonce=N`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// What it speaks.
    pub protocol: ProtocolVersion,
    /// Its build.
    pub build: String,
    /// Lower-case hex of HMAC-SHA256(token, "gent.identity.1" 0 nonce 0 port).
    pub proof: String,
    /// Its process; only with the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its data directory; only with the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<String>,
}
