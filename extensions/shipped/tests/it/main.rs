//! Owns the tests of the shipped extensions through their public surface. One binary, one module for each subject.
//! `cfg(test)` on each module tells clippy that its helpers are tests too.

#[cfg(test)]
mod providers;
#[cfg(test)]
mod providers_anthropic;
#[cfg(test)]
mod providers_chat;
#[cfg(test)]
mod providers_demo;
#[cfg(test)]
mod providers_local;
#[cfg(test)]
mod providers_server;
#[cfg(test)]
#[path = "../../src/providers/test_messages.rs"]
mod test_messages;
