//! Owns the engine of gent: branches as actors, turns, tools, events, and the edge a server asks.
//!
//! ```text
//! Engine ──order──► BranchDirectory ──► BranchActor ──► turn (a task) ──► driver, tools
//!    │                                      │               │
//!    └──reads──────────► store ◄──writes────┴───────────────┘ ──commit──► Hub ──► EventStream
//! ```
//!
//! Asks go down, facts go up as stored events. Transport-free: no HTTP server, no frames.
//! Tested beside each part, and end to end in the package `gent-e2e`.

mod branch;
mod credentials;
mod date;
mod directory;
mod engine;
mod env;
mod error;
mod events;
mod host;
mod hub;
mod keyed_locks;
pub mod limits;
pub mod process;
mod profile;
pub mod redact;
mod route;
mod services;
mod store;
mod turn;

pub use engine::{Engine, EngineConfig, EngineHealth};
pub use env::{Env, Source};
pub use error::EngineError;
pub use events::EventStream;
pub use hub::Hub;
pub use services::{ProcessPlace, Settings, StandingApproval};
