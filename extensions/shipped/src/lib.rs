//! Owns the list of extensions that ship with gent. Each is a folder of its own, written against
//! `gent-extension-api` alone: a user's extension can do all that these can.
//! Never imports the engine, the store or the server. Tested in each folder and in `extensions/shipped/tests`.

mod agents;
mod exec_tools;
mod fs_tools;
mod guardrail;
mod providers;
mod regular_file;

#[cfg(test)]
mod test_context;
#[cfg(test)]
mod test_session;

pub use agents::Agents;
pub use exec_tools::ExecTools;
pub use fs_tools::FsTools;
pub use providers::{
    DEMO_PROMPT, PROVIDERS, ProviderSettings, REPORT_FILE, StreamIdle, is_demo_command, provider_extensions,
};
