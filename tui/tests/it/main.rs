//! Whole runs against a server played by the test, over an in-memory socket.

// Each part says that it is a test, so that the lints know it too.
#[cfg(test)]
mod attached;
#[cfg(test)]
mod attaching;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod losing;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod stopping;
