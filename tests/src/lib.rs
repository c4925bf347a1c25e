//! Owns what the tests and benchmarks of the whole program stand on: a model server that follows a script, a
//! harness that starts the built `gent`, and the measurements. Never a rule of gent itself: what is right is said
//! by the tests. Tested by `tests/scripted.rs` and by every end-to-end test.

pub mod attack;
pub mod bench;
pub mod harness;
pub mod program;
pub mod scripted;
