//! Owns the gent server as a library: serving, starting one in the background, stopping it, looking at its health.
//! Never parses a command line: `main.rs` and `cli` do. Tested in each file and in `server/tests`.

mod allocator;
mod background;
mod config;
mod doctor;
mod entry;
mod environment;
mod error;
mod http;
mod isolated;
mod lifecycle;
mod logging;
mod paths;
mod retire;
mod rpc;
mod serve;
#[cfg(test)]
mod socket_tests;
mod stop;
mod wiring;

pub use allocator::restart_with_settings;
pub use background::{StartError, ensure_server};
pub use config::Config;
pub use doctor::{DoctorLine, doctor};
pub use entry::EntryError;
pub use environment::Environment;
pub use gent_client::Attached;
pub use isolated::{Isolated, start_isolated};
pub use logging::LogFormat;
pub use paths::Paths;
pub use serve::{ServeError, ServeOptions, serve};
pub use stop::{StopError, Stopped, stop_server};

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of this build, where it was known.
pub const COMMIT: Option<&str> = option_env!("GENT_COMMIT");

/// How this build names itself to clients.
pub(crate) fn build() -> String {
    match COMMIT {
        Some(commit) => format!("{VERSION}+{commit}"),
        None => VERSION.to_owned(),
    }
}

/// Runs the hidden helper that starts one program for a server; call it before anything else is set up.
/// Returns the exit code.
pub fn child_main(children_lock: &std::path::Path) -> i32 {
    gent_actors::process::child_main(children_lock)
}

/// A nonce for the proof of a server: new at each call.
pub fn nonce() -> String {
    #[expect(clippy::disallowed_methods, reason = "a nonce is the program's own randomness, never replayed")]
    uuid::Uuid::new_v4().simple().to_string()
}
