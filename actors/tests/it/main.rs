//! Owns the tests of the engine as a whole, in one process: a real store, a scripted model, real actors.
//! Nothing here knows a socket; those tests are in the package `gent-e2e`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

mod asker;
mod hooks;
mod questions;
mod queue;
mod receipts;
mod repeats;
mod replay;
mod rig;
mod spawned;
mod steers;
mod stops;
mod turns;
mod waiting;
