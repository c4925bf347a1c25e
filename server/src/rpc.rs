//! Owns the calls of one socket: from a text message to its answer, streams included.
//! Never reads HTTP. Tested in its parts and in `socket_tests.rs`.

pub(crate) mod connection;
pub(crate) mod detached;
pub(crate) mod dispatch;
pub(crate) mod outgoing;

pub(crate) mod calls;
mod handlers;
mod reply;

pub(crate) use handlers::EngineDispatch;
