//! Owns the tests of the interaction tools, with a host that answers from a script.

mod ask_user;
mod prompt;

use std::path::Path;
use std::sync::Arc;

use gent_extension_api::protocol::{MessageId, ToolCallId};
use gent_extension_api::{ApprovalRequest, Decision, Extension, ToolContext, ToolError};
use serde_json::Value;

use super::InteractionTools;
use crate::test_context::{ScriptedInteraction, TestContext, TestHost};

/// A place, and a person who answers with what is set.
struct Bed {
    place: tempfile::TempDir,
    person: Arc<ScriptedInteraction>,
    step: &'static str,
    call: &'static str,
}

impl Bed {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        Self { place, person: Arc::default(), step: "step", call: "call" }
    }

    fn answering(self, approved: bool, notes: Option<&str>, edited: Option<&str>) -> Self {
        let decision =
            Decision { approved, notes: notes.map(Into::into), edited_content: edited.map(Into::into) };
        self.person.answers.lock().unwrap().push_back(decision);
        self
    }

    fn cwd(&self) -> &Path {
        self.place.path()
    }

    fn context(&self) -> ToolContext {
        let context = TestContext::at(self.cwd()).interaction(self.person.clone());
        let mut context = context.tool();
        context.assistant_message_id = MessageId::parse(self.step).unwrap();
        context.tool_call_id = ToolCallId::parse(self.call).unwrap();
        context
    }

    async fn call(&self, tool: &str, input: Value) -> Result<Value, ToolError> {
        TestHost::of(&InteractionTools).tool(tool).run(self.context(), input).await
    }

    fn asked(&self) -> Vec<ApprovalRequest> {
        self.person.asked.lock().unwrap().clone()
    }
}

#[test]
fn the_extension_registers_tools_that_are_withheld_where_nobody_can_be_asked() {
    assert_eq!(InteractionTools.id().as_str(), "@gent/interaction-tools");
    let tools = TestHost::of(&InteractionTools).tools();
    let declared: Vec<(&str, bool)> =
        tools.iter().map(|tool| (tool.declaration().name.as_str(), tool.declaration().interactive)).collect();
    assert_eq!(declared, [("ask_user", true), ("prompt", true)]);
}
