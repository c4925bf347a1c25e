//! Owns the tools of the tests: some answer at once, one breaks, some hold, one asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{
    AgentDefinition, ApprovalRequest, Context, Contribution, Extension, FollowUp, Hook, Host,
    LoopOpenHandler, SetupError, ToolContext, ToolDeclaration, ToolError, TurnAfterHandler, TurnAfterInput,
    tool_fn,
};
use gent_protocol::{AgentName, ExtensionId, SessionId, ToolCallId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use super::in_time;
use super::model::{Gate, Scripted};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    say: String,
}

#[derive(Serialize, Deserialize)]
struct Echoed {
    said: String,
}

#[derive(Deserialize, JsonSchema)]
struct Ask {
    /// The questions, in order.
    ask: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Told {
    told: Vec<String>,
}

/// A call that holds until it is stopped.
#[derive(Default)]
pub(crate) struct Held {
    /// It runs.
    pub(crate) began: tokio::sync::Notify,
    /// Work of it that goes on elsewhere was told to stop.
    pub(crate) told: tokio::sync::Notify,
}

/// What the tools of a test have in common with the test. It outlives its engine.
#[derive(Default)]
pub(crate) struct Tools {
    pub(crate) held: Held,
    gates: Mutex<HashMap<String, Gate>>,
    began: Mutex<Vec<ToolCallId>>,
    passed: Mutex<Vec<ToolCallId>>,
    opened: watch::Sender<HashMap<SessionId, Context>>,
    after: Mutex<Vec<TurnAfterInput>>,
}

impl Tools {
    /// What extensions were handed when the session's branch was last opened; waits until it is.
    pub(crate) async fn context(&self, session: &SessionId) -> Context {
        let mut opened = self.opened.subscribe();
        let is_there = in_time("the branch is open", opened.wait_for(|of| of.contains_key(session))).await;
        is_there.unwrap()[session].clone()
    }

    /// What `turnAfter` was told, in order. It holds at the gate `turnAfter`.
    pub(crate) fn after(&self) -> Vec<TurnAfterInput> {
        self.after.lock().unwrap().clone()
    }

    /// The gate at which a call of `wait` stands that says this.
    pub(crate) fn gate(&self, say: &str) -> Gate {
        self.gates.lock().unwrap().entry(say.to_owned()).or_default().clone()
    }

    /// Calls of `wait` and `ask` that began, in order, each as often as it ran.
    pub(crate) fn began(&self) -> Vec<String> {
        self.began.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    /// Calls of `wait` that came past their gate and of `ask` that came past all they asked.
    pub(crate) fn passed(&self) -> Vec<String> {
        self.passed.lock().unwrap().iter().map(ToString::to_string).collect()
    }
}

/// One agent, the tools, one driver.
pub(super) struct TestSet {
    pub(super) tools: Arc<Tools>,
    pub(super) max_steps: Option<u32>,
    pub(super) has_turn_after: bool,
    pub(super) driver: Arc<Scripted>,
}

/// The hooks of the tests.
struct Hooks(Arc<Tools>);

impl LoopOpenHandler for Hooks {
    fn loop_open<'a>(&'a self, context: Context) -> BoxFuture<'a, Result<(), String>> {
        self.0.opened.send_modify(|opened| drop(opened.insert(context.session_id().clone(), context)));
        async { Ok(()) }.boxed()
    }
}

impl TurnAfterHandler for Hooks {
    fn turn_after<'a>(&'a self, _: Context, input: TurnAfterInput) -> BoxFuture<'a, Result<(), String>> {
        self.0.after.lock().unwrap().push(input);
        async {
            self.0.gate("turnAfter").pass().await;
            Ok(())
        }
        .boxed()
    }
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

impl Extension for TestSet {
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@test/set").unwrap()
    }
    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        let mut agent = AgentDefinition::new(AgentName::parse("main").unwrap());
        agent.max_steps = self.max_steps;
        host.register(Contribution::Agent(agent));
        host.register(Contribution::Tool(tool_fn(declare("echo"), None, |_, input: Echo| async move {
            Ok(Echoed { said: input.say })
        })));
        host.register(Contribution::Tool(tool_fn(declare("break"), None, |_, input: Echo| async move {
            if input.say == "panic" {
                panic!("the tool breaks");
            }
            Err::<Echoed, _>(ToolError::TellModel("no".into()))
        })));
        let tools = Arc::clone(&self.tools);
        host.register(Contribution::Tool(tool_fn(declare("hold"), None, move |context, input| {
            hold(Arc::clone(&tools), context, input)
        })));
        let tools = Arc::clone(&self.tools);
        host.register(Contribution::Tool(tool_fn(declare("wait"), None, move |context, input| {
            wait(Arc::clone(&tools), context, input)
        })));
        let tools = Arc::clone(&self.tools);
        host.register(Contribution::Tool(tool_fn(declare("ask"), None, move |context, input| {
            ask(Arc::clone(&tools), context, input)
        })));
        host.register(Contribution::Tool(tool_fn(declare("queue"), None, queue)));
        let hooks = Arc::new(Hooks(Arc::clone(&self.tools)));
        host.on(Hook::LoopOpen(hooks.clone()));
        if self.has_turn_after {
            host.on(Hook::TurnAfter(hooks));
        }
        host.register(Contribution::ModelDriver(self.driver.clone()));
        Ok(())
    }
}

async fn hold(tools: Arc<Tools>, context: ToolContext, _: Echo) -> Result<Echoed, ToolError> {
    let stop = context.cancelled().clone();
    tools.held.began.notify_one();
    tokio::spawn(async move {
        stop.cancelled().await;
        tools.held.told.notify_one();
    });
    std::future::pending().await
}

async fn wait(tools: Arc<Tools>, context: ToolContext, input: Echo) -> Result<Echoed, ToolError> {
    tools.began.lock().unwrap().push(context.tool_call_id.clone());
    tools.gate(&input.say).pass().await;
    tools.passed.lock().unwrap().push(context.tool_call_id.clone());
    Ok(Echoed { said: input.say })
}

/// Queues a follow-up on the branch it runs on.
async fn queue(context: ToolContext, input: Echo) -> Result<Echoed, ToolError> {
    let queued = context.session().follow_up(None, follow_up(&input.say, false)).await;
    queued.map(|id| Echoed { said: id.to_string() }).map_err(|error| ToolError::TellModel(error.to_string()))
}

/// A follow-up whose source id is its text.
pub(crate) fn follow_up(say: &str, wake: bool) -> FollowUp {
    FollowUp { source_id: say.into(), content: say.into(), custom_type: None, hidden: false, wake }
}

async fn ask(tools: Arc<Tools>, context: ToolContext, input: Ask) -> Result<Told, ToolError> {
    tools.began.lock().unwrap().push(context.tool_call_id.clone());
    let mut told = Vec::new();
    for text in input.ask {
        let request = ApprovalRequest { text, metadata: None };
        let asked = context.interaction().approve(request).await;
        let decision = asked.map_err(|error| ToolError::TellModel(error.to_string()))?;
        let word = if decision.approved { "yes" } else { "no" };
        told.push(decision.notes.map_or(word.to_owned(), |notes| format!("{word}: {notes}")));
    }
    tools.passed.lock().unwrap().push(context.tool_call_id.clone());
    Ok(Told { told })
}
