//! Owns the extension `@gent/interaction-tools`: the tools by which a model asks and shows a person something.
//! Never decides whether somebody can be asked, and never waits itself: the host keeps a question until it is answered
//! and runs the call again. So everything before an ask may happen twice. Tested in `tests`.

mod ask_user;
mod prompt;
mod review_file;
#[cfg(test)]
mod tests;

use gent_extension_api::protocol::ExtensionId;
use gent_extension_api::{
    ApprovalRequest, Contribution, Decision, Extension, Host, SetupError, ToolContext, ToolError,
};

use crate::revision;

/// The extension `@gent/interaction-tools`.
#[derive(Debug, Default)]
pub struct InteractionTools;

impl Extension for InteractionTools {
    #[expect(clippy::expect_used, reason = "the id is a constant, tested below")]
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@gent/interaction-tools").expect("a valid id")
    }

    fn revision(&self) -> Option<String> {
        revision()
    }

    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        host.register(Contribution::Tool(ask_user::tool()));
        host.register(Contribution::Tool(prompt::tool()));
        Ok(())
    }
}

/// Asks the one question of a call.
async fn ask(context: &ToolContext, request: ApprovalRequest) -> Result<Decision, ToolError> {
    let decision = context.interaction().approve(request).await;
    decision.map_err(|error| ToolError::TellModel(format!("nobody answered: {error}")))
}

/// What was said with an answer, if anything was.
fn words(notes: Option<String>) -> Option<String> {
    notes.filter(|notes| !notes.trim().is_empty())
}
