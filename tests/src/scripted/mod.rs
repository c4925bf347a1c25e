//! Owns the scripted model: what it answers (`Script`), a server that speaks two provider formats, and a driver
//! for engines that run in the test's own process. Never talks to a real provider.

mod answer;
mod book;
mod chat;
mod driver;
mod gate;
mod http;
mod log;
mod messages;
mod scenario;
mod server;

pub use answer::{Answer, Api, Ending, Piece, Refusal};
pub use book::Script;
pub use driver::ScriptedDriver;
pub use gate::Gate;
pub use log::{Body, LoggedRequest};
pub use server::{Scripted, ScriptedServer};
