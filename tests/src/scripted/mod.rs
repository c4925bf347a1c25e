//! Owns the scripted model: what it answers (`Script`) and a server that speaks two provider formats.
//! Never talks to a real provider. An engine in the test's own process has its own driver, in `actors/tests/it`.

mod answer;
mod book;
mod chat;
mod gate;
mod http;
mod log;
mod messages;
mod scenario;
mod server;

pub use answer::{Answer, Api, Ending, Piece, Refusal};
pub use book::Script;
pub use gate::Gate;
pub use log::{Body, LoggedRequest};
pub use server::{Scripted, ScriptedServer};
