//! The client against a server played by the test, over an in-memory socket.

// Each part says that it is a test, so that the lints know it too.
#[cfg(test)]
mod calls;
#[cfg(test)]
mod closing;
#[cfg(test)]
mod following;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod streams;
