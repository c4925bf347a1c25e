//! Owns a turn: everything a branch does for one opening message. Plain asynchronous functions over the store's
//! writer, a driver and a set of tools; no actor, no socket.
//!
//! ```text
//! run ──► prepare (agent, model, prompt, conversation) ──► [ step ──► classify ──► tools ]* ──► ending
//! ```
//!
//! A step's writes: `turn.project` (what the step begins with, the window, StreamStarted) → `turn.delta`* →
//! `turn.streamEnd` (the answer and its record) → `turn.toolEnd`* → the next `turn.project` (the results).
//! The receipt is the actor's. Tested beside each part and end to end.

mod binding;
mod bound;
mod context;
mod conversation;
mod delta;
mod failure;
mod fold;
mod ledger;
mod outcome;
mod prepare;
mod questions;
mod resume;
mod rows;
mod run;
mod settle;
mod step;
mod stream;
mod tool_call;
mod tool_phase;
mod window;

pub(crate) use context::TurnFacets;
pub(crate) use failure::{TurnFailure, panic_message};
pub(crate) use ledger::Ledger;
pub(crate) use outcome::Ending;
pub(crate) use questions::{Asking, NoCall};
pub(crate) use rows::Progress;
pub(crate) use run::{Seen, TurnEnd, TurnJob, run};
pub(crate) use settle::settle;
