//! Owns the HTTP side: one endpoint that becomes a socket, the identity and the probes. There is no other surface.
//! Never reads a call. Tested in its parts and in `socket_tests.rs`.

pub(crate) mod access;
pub(crate) mod connections;
pub(crate) mod frames;

mod listen;
mod routes;

pub(crate) use listen::{listen, take_port};

use std::sync::Arc;

use crate::http::access::Hosts;
use crate::http::connections::Connections;
use crate::lifecycle::Lifecycle;
use crate::rpc::detached::Detached;
use crate::rpc::dispatch::Dispatch;

/// What every request may look at.
pub(crate) struct Door {
    /// Answers calls.
    pub(crate) dispatch: Arc<dyn Dispatch>,
    /// The calls that outlive their connections.
    pub(crate) detached: Arc<Detached>,
    /// The token of this start.
    pub(crate) token: String,
    /// The names under which it answers.
    pub(crate) hosts: Hosts,
    /// The port that is listened on.
    pub(crate) port: u16,
    /// The data directory, for the owner of the token.
    pub(crate) data_dir: String,
    /// The sockets.
    pub(crate) connections: Arc<Connections>,
    /// The phase.
    pub(crate) lifecycle: Arc<Lifecycle>,
}
