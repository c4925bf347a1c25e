//! Owns the end-to-end tests: a script of the model, the calls, the expected events. One module for each part of
//! `docs/BEHAVIOUR.md`; a test's name ends in the number of the row it proves. Needs the built `gent`.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod attach;
#[cfg(test)]
mod command_line;
#[cfg(test)]
mod context;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod events;
#[cfg(test)]
mod given_up;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod offline;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod receipts;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod resilience;
#[cfg(test)]
mod stops;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod workspaces;

#[cfg(test)]
mod world {
    use anyhow::Result;
    use gent_e2e::harness::{Gent, OpenSession};
    use gent_e2e::scripted::{Script, Scripted, ScriptedServer};

    /// A model that follows the script, a server with it behind, and a new session.
    pub(crate) async fn open(script: Script) -> Result<(ScriptedServer, Gent, OpenSession)> {
        let model = Scripted::new(script).start().await?;
        let gent = Gent::start(&model).await?;
        let session = gent.session().await?;
        Ok((model, gent, session))
    }
}
