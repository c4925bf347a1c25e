//! Owns the tools of a run, and what they saw: which answers they were given, and which calls came past all they asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gent_extension_api::{
    AgentDefinition, ApprovalRequest, Contribution, Extension, Host, SetupError, ToolContext,
    ToolDeclaration, ToolError, tool_fn,
};
use gent_protocol::{AgentName, ExtensionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::later;
use crate::model::Scripted;

#[derive(Deserialize, JsonSchema)]
struct Say {
    say: String,
}
#[derive(Deserialize, JsonSchema)]
struct Hold {
    millis: u64,
}
#[derive(Deserialize, JsonSchema)]
struct Ask {
    ask: Vec<String>,
    /// How long it works after each answer.
    millis: u64,
}
#[derive(Serialize, Deserialize)]
struct Said {
    said: String,
}

/// An answer as a call was given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// The text of the question.
    pub(crate) question: String,
    /// Asks of this call that come after it.
    pub(crate) n_after: usize,
    pub(crate) approved: bool,
    pub(crate) notes: Option<String>,
}

/// What the tools saw. It outlives its engine.
#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<Given>>);

impl Seen {
    /// The answers that calls were given, in order, each as often as a call came past it.
    pub(crate) fn given(&self) -> Vec<Given> {
        self.0.lock().unwrap().clone()
    }
}

/// One agent, the tools, one driver.
pub(crate) struct Set {
    pub(crate) seen: Arc<Seen>,
    pub(crate) driver: Arc<Scripted>,
}

fn declare(name: &str) -> ToolDeclaration {
    ToolDeclaration {
        name: name.into(),
        description: "a tool of the test".into(),
        parameters: json!({}),
        readonly: true,
        destructive: false,
        interactive: false,
        prompt_snippet: None,
        prompt_guidelines: vec![],
    }
}

impl Extension for Set {
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@test/sim").unwrap()
    }
    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        host.register(Contribution::Agent(AgentDefinition::new(AgentName::parse("main").unwrap())));
        host.register(Contribution::Tool(tool_fn(declare("echo"), None, |_, input: Say| async move {
            Ok(Said { said: input.say })
        })));
        host.register(Contribution::Tool(tool_fn(declare("fail"), None, |_, input: Say| async move {
            Err::<Said, _>(ToolError::TellModel(format!("{} fails", input.say)))
        })));
        host.register(Contribution::Tool(tool_fn(declare("panic"), None, breaks)));
        host.register(Contribution::Tool(tool_fn(declare("hold"), None, |_, input: Hold| async move {
            later(Duration::from_millis(input.millis)).await;
            Ok(Said { said: "held".into() })
        })));
        let seen = Arc::clone(&self.seen);
        host.register(Contribution::Tool(tool_fn(declare("ask"), None, move |context, input| {
            ask(Arc::clone(&seen), context, input)
        })));
        host.register(Contribution::ModelDriver(self.driver.clone()));
        Ok(())
    }
}

async fn breaks(_: ToolContext, input: Say) -> Result<Said, ToolError> {
    if input.say.is_empty() {
        return Err(ToolError::TellModel("there is nothing to say".into()));
    }
    // As a panic, without its backtrace, which costs more than all the rest.
    std::panic::resume_unwind(Box::new("the tool breaks"))
}

async fn ask(seen: Arc<Seen>, context: ToolContext, input: Ask) -> Result<Said, ToolError> {
    let n = input.ask.len();
    for (place, question) in input.ask.into_iter().enumerate() {
        let asked = context.interaction().approve(ApprovalRequest { text: question.clone(), metadata: None });
        let decision = asked.await.map_err(|error| ToolError::TellModel(error.to_string()))?;
        let given =
            Given { question, n_after: n - place - 1, approved: decision.approved, notes: decision.notes };
        seen.0.lock().unwrap().push(given);
        later(Duration::from_millis(input.millis)).await;
    }
    Ok(Said { said: "told".into() })
}
