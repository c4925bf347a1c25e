//! Owns the list of extensions that ship with gent. Each is a folder of its own, written against
//! `gent-extension-api` alone: a user's extension can do all that these can.
//! Never imports the engine, the store or the server. Tested in each folder and in `extensions/shipped/tests`.

mod agents;
mod exec_tools;
mod fs_tools;
mod guardrail;
mod interaction_tools;
mod providers;
mod regular_file;

#[cfg(test)]
mod test_context;
#[cfg(test)]
mod test_session;

pub use agents::Agents;
pub use exec_tools::ExecTools;
pub use fs_tools::FsTools;
pub use interaction_tools::InteractionTools;
pub use providers::{
    DEMO_PROMPT, PROVIDERS, ProviderSettings, REPORT_FILE, StreamIdle, is_demo_command, provider_extensions,
};

/// What tells this version of the shipped set from another: a call that waited for an answer over a restart runs only
/// with the version that asked.
#[expect(clippy::unnecessary_wraps, reason = "it is what `Extension::revision` returns")]
fn revision() -> Option<String> {
    Some(env!("CARGO_PKG_VERSION").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_extension_names_the_version_of_its_code() {
        let mut shipped = provider_extensions(&ProviderSettings::default());
        shipped.push(std::sync::Arc::new(Agents));
        shipped.push(std::sync::Arc::new(FsTools::default()));
        shipped.push(std::sync::Arc::new(ExecTools));
        shipped.push(std::sync::Arc::new(InteractionTools));
        for extension in shipped {
            let revision = extension.revision();
            assert_eq!(revision.as_deref(), Some(env!("CARGO_PKG_VERSION")), "{}", extension.id());
        }
    }
}
