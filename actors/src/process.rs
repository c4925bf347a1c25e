//! Owns how processes are started for an agent, what they may see and how they end.
//! Never decides whether a command may run: that is the tool's question. Tested in each file and, with real
//! processes, in `actors/tests/process`.
//!
//! ```text
//! server ──socket──► gent __child ──► the program, in a group of its own ──► whatever it starts
//!        ◄─pipes────────────────────── standard output and error
//! ```
//!
//! Only the server holds the other end of the helper's socket, so its end of file means: end everything.

mod capped;
mod child;
mod descendants;
mod environment;
mod host;
mod reap;
mod spawn;
mod tree;
mod wire;

pub use child::child_main;
pub use environment::{SESSION_ENVIRONMENT_ALLOW, SpawnPolicy, session_environment, spawn_environment};
pub use host::ProcessHost;
pub use reap::{CHILDREN_END_LIMIT, ChildrenRemain, wait_for_children};
pub use spawn::{ProcessExec, ProcessScope};
