//! Owns the extension `@gent/exec-tools`: the tool that runs shell commands.
//! Never starts a process itself: the host does, under its spawn policy. Tested in each file.

mod bash;

use gent_extension_api::protocol::ExtensionId;
use gent_extension_api::{Contribution, Extension, Host, SetupError};

use crate::revision;

/// The extension `@gent/exec-tools`.
#[derive(Debug, Default)]
pub struct ExecTools;

impl Extension for ExecTools {
    #[expect(clippy::expect_used, reason = "the id is a constant, tested below")]
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@gent/exec-tools").expect("a valid id")
    }

    fn revision(&self) -> Option<String> {
        revision()
    }

    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        host.register(Contribution::Tool(bash::tool()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_context::TestHost;

    #[test]
    fn the_extension_registers_its_tool_under_its_name() {
        assert_eq!(ExecTools.id().as_str(), "@gent/exec-tools");
        let names: Vec<String> =
            TestHost::of(&ExecTools).tools().iter().map(|tool| tool.declaration().name.clone()).collect();
        assert_eq!(names, ["bash"]);
    }
}
