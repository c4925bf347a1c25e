//! Owns what a test adds to its engine: an extension of its own, whose tool asks a person and whose version is known.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gent_extension_api::{
    AgentDefinition, ApprovalRequest, Contribution, Extension, Hook, Host, SetupError, Tool, ToolContext,
    ToolDeclaration, ToolError, tool_fn,
};
use gent_protocol::{
    AgentEvent, EventEnvelope, ExtensionId, GetSnapshot, InteractionRequestId, QuestionDecision,
    RuntimeState, SessionSnapshot,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rig::{Answer, Gate, Rig, Setup, calls_with};

/// An extension of a test's own.
#[derive(Clone)]
pub(crate) struct Extra {
    revision: Option<&'static str>,
    contributions: Vec<Contribution>,
    hooks: Vec<Hook>,
}

impl Extra {
    pub(crate) fn new() -> Self {
        Self { revision: Some("1"), contributions: Vec::new(), hooks: Vec::new() }
    }

    pub(crate) fn revision(mut self, revision: Option<&'static str>) -> Self {
        self.revision = revision;
        self
    }

    pub(crate) fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.contributions.push(Contribution::Tool(tool));
        self
    }

    pub(crate) fn agent(mut self, agent: AgentDefinition) -> Self {
        self.contributions.push(Contribution::Agent(agent));
        self
    }

    pub(crate) fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// As the rig takes it.
    pub(crate) fn alone(self) -> Vec<Arc<dyn Extension>> {
        vec![Arc::new(self)]
    }
}

impl Extension for Extra {
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@test/extra").unwrap()
    }

    fn revision(&self) -> Option<String> {
        self.revision.map(str::to_owned)
    }

    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        self.contributions.iter().cloned().for_each(|contribution| host.register(contribution));
        self.hooks.iter().cloned().for_each(|hook| host.on(hook));
        Ok(())
    }
}

pub(crate) fn declare(name: &str, description: &str) -> ToolDeclaration {
    ToolDeclaration {
        name: name.into(),
        description: description.into(),
        parameters: json!({}),
        readonly: true,
        destructive: false,
        interactive: false,
        prompt_snippet: None,
        prompt_guidelines: vec![],
    }
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// The questions, in order. `#` becomes `first` the first time the call runs and `again` from then on.
    ask: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Answers {
    answers: Vec<String>,
}

/// What calls of `confirm` have in common with their test. Clones share it; it outlives its engine.
#[derive(Clone, Default)]
pub(crate) struct Runs {
    began: Arc<Mutex<Vec<String>>>,
    /// Where a call stands that has its answers; none: it does not wait.
    after: Arc<Mutex<Option<Gate>>>,
}

impl Runs {
    /// The calls that began, in order, each as often as it ran.
    pub(crate) fn began(&self) -> Vec<String> {
        self.began.lock().unwrap().clone()
    }

    /// Lets the calls wait once they have their answers.
    pub(crate) fn hold_answered(&self) -> Gate {
        self.after.lock().unwrap().get_or_insert_default().clone()
    }

    /// The tool that asks.
    pub(crate) fn confirm(&self, description: &str) -> Arc<dyn Tool> {
        let runs = self.clone();
        tool_fn(declare("confirm", description), None, move |context, input| {
            confirm(runs.clone(), context, input)
        })
    }

    /// The extension with the tool that asks.
    pub(crate) fn extension(&self) -> Extra {
        Extra::new().tool(self.confirm("asks"))
    }
}

async fn confirm(runs: Runs, context: ToolContext, input: Confirm) -> Result<Answers, ToolError> {
    let id = context.tool_call_id.to_string();
    let is_first = !runs.began().contains(&id);
    runs.began.lock().unwrap().push(id);
    let mut answers = Vec::new();
    for text in input.ask {
        let text = text.replace('#', if is_first { "first" } else { "again" });
        let asked = context.interaction().approve(ApprovalRequest { text, metadata: None }).await;
        let decision = asked.map_err(|error| ToolError::TellModel(error.to_string()))?;
        let word = if decision.approved { "yes" } else { "no" };
        answers.push(decision.notes.map_or(word.to_owned(), |notes| format!("{word}: {notes}")));
    }
    let after = runs.after.lock().unwrap().clone();
    if let Some(gate) = after {
        gate.pass().await;
    }
    Ok(Answers { answers })
}

/// An engine whose model may call `confirm`.
pub(crate) async fn rig_that_asks(script: Vec<Answer>) -> (Rig, Runs) {
    let runs = Runs::default();
    let rig = Rig::of(Setup { more: runs.extension().alone(), ..Setup::still(script) }).await;
    (rig, runs)
}

/// An answer that calls `confirm`, each call with its questions.
pub(crate) fn asks(calls: &[(&str, &[&str])]) -> Answer {
    let calls: Vec<_> = calls.iter().map(|(id, ask)| (*id, "confirm", json!({ "ask": ask }))).collect();
    calls_with(&calls)
}

/// As [`asks`], with one call of another tool behind them: its id, its name, its `say`.
pub(crate) fn asks_beside(asks: &[(&str, &[&str])], beside: (&str, &str, &str)) -> Answer {
    let mut calls: Vec<_> = asks.iter().map(|(id, ask)| (*id, "confirm", json!({ "ask": ask }))).collect();
    calls.push((beside.0, beside.1, json!({ "say": beside.2 })));
    calls_with(&calls)
}

/// Waits until nothing can move any more: the clock is held, and only then goes on.
pub(crate) async fn rest() {
    let never = std::future::pending::<()>();
    tokio::time::timeout(Duration::from_millis(1), never).await.unwrap_err();
}

impl Rig {
    /// Sends a message under this id; its turn goes on beside the test, also when the test ends the engine.
    pub(crate) fn begin(&self, request: &str) {
        let (engine, workspace) = (self.engine.clone(), self.workspace.clone());
        let message = self.message(Some(request), "hi");
        actix::spawn(async move { drop(engine.message_send(&workspace, message).await) });
    }

    pub(crate) async fn snapshot(&self) -> SessionSnapshot {
        let (session_id, branch_id) = (self.session.session_id.clone(), self.session.branch_id.clone());
        let ask = GetSnapshot { session_id, branch_id, before: None };
        self.engine.snapshot(&self.workspace, ask).await.unwrap()
    }

    /// The question that a snapshot shows, and whether the turn waits for its answer.
    pub(crate) async fn shown(&self) -> (Option<InteractionRequestId>, bool) {
        let snapshot = self.snapshot().await;
        let shown = snapshot.question.map(|question| question.request_id);
        let waits_for = match snapshot.runtime {
            RuntimeState::WaitingForInteraction { request_id, .. } => Some(request_id),
            RuntimeState::Idle { .. } | RuntimeState::Running { .. } => None,
        };
        let waits = waits_for.is_some();
        assert!(!waits || waits_for == shown);
        (shown, waits)
    }

    /// Every event so far.
    pub(crate) async fn events(&self) -> Vec<AgentEvent> {
        let stored = self.stored().await;
        let event = |json: &str| serde_json::from_str::<EventEnvelope>(json).unwrap().event;
        stored.iter().map(|(_, json)| event(json)).collect()
    }

    /// What was asked so far, in order.
    pub(crate) async fn asked(&self) -> Vec<String> {
        let text = |event: AgentEvent| match event {
            AgentEvent::InteractionPresented { text, .. } => Some(text),
            _ => None,
        };
        self.events().await.into_iter().filter_map(text).collect()
    }

    /// What became of questions so far, in order: `yes`, `no` or `dismissed`.
    pub(crate) async fn resolved(&self) -> Vec<&'static str> {
        let word = |event: AgentEvent| match event {
            AgentEvent::InteractionResolved { dismissed: true, .. } => Some("dismissed"),
            AgentEvent::InteractionResolved { approved: true, .. } => Some("yes"),
            AgentEvent::InteractionResolved { .. } => Some("no"),
            _ => None,
        };
        self.events().await.into_iter().filter_map(word).collect()
    }

    /// The results of a step of a turn, each as its call and what it says.
    pub(crate) async fn results(&self, request: &str, step: u32) -> Vec<(String, Value)> {
        let id = format!("message:{request}:tool-result:{step}");
        let messages = self.snapshot().await.messages;
        let message = messages.iter().find(|message| message.id.as_str().ends_with(&id)).expect("results");
        let outcome = |part: &gent_protocol::Part| match part {
            gent_protocol::Part::ToolResult(outcome) => (outcome.id.to_string(), outcome.result.clone()),
            other => panic!("{other:?} is no result"),
        };
        message.parts.iter().map(outcome).collect()
    }
}

pub(crate) fn decision(approved: bool) -> QuestionDecision {
    QuestionDecision { approved, notes: None, edited_content: None }
}

/// The result of a call of `confirm` that got these answers.
pub(crate) fn answers(call: &str, answers: &[&str]) -> (String, Value) {
    (call.to_owned(), json!({ "answers": answers }))
}
