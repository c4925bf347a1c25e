//! Owns an engine to test against: a store in a temporary directory, a driver that answers by script, two tools.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gent_actors::{
    Engine, EngineConfig, EngineError, Env, EventStream, Hub, ProcessPlace, Settings, StandingApproval,
};
use gent_extension_api::{
    Access, AgentDefinition, ApprovalRequest, Contribution, CredentialSpec, DefaultModel, DriverError,
    Extension, Host, LanguageModel, ModelDriver, ModelRequest, ModelStream, ProviderFailure, RetryPolicy,
    SetupError, StreamPart, ToolDeclaration, ToolError, tool_fn,
};
use gent_protocol::{
    AgentEvent, AgentName, CreateSession, CreatedSession, EventEnvelope, EventSeq, ExtensionId, Model,
    ModelId, ProviderId, RequestId, SendMessage, SessionEvents, SteerCommand, StepOutcome, StoreIncarnation,
    WorkspaceId,
};
use gent_storage::{Location, Mode, ReadTxn, Store, StoreConfig, Synchronous, events_after};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What the model answers to one request.
pub(crate) type Answer = Result<Vec<Result<StreamPart, ProviderFailure>>, ProviderFailure>;

/// A script: one answer for each request.
#[derive(Clone, Default)]
pub(crate) struct Script(pub(crate) Arc<Mutex<VecDeque<Answer>>>);

/// A driver that answers by script.
struct Scripted {
    script: Script,
    facts: Model,
    retry_wait: Duration,
}

impl ModelDriver for Scripted {
    fn id(&self) -> ProviderId {
        ProviderId::parse("scripted").unwrap()
    }
    fn name(&self) -> &str {
        "Scripted"
    }
    fn credentials(&self) -> CredentialSpec {
        CredentialSpec::default()
    }
    fn needs_key(&self, _: Option<&str>) -> bool {
        false
    }
    fn default_model<'a>(
        &'a self,
        _: &'a Access,
    ) -> BoxFuture<'a, Result<Option<DefaultModel>, DriverError>> {
        let found = DefaultModel { id: self.facts.id.clone(), reason: "it is the test's".into() };
        async move { Ok(Some(found)) }.boxed()
    }
    fn list_models<'a>(&'a self, _: &'a Access) -> BoxFuture<'a, Result<Vec<Model>, DriverError>> {
        async move { Ok(vec![self.facts.clone()]) }.boxed()
    }
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: &'a Access,
    ) -> BoxFuture<'a, Result<Arc<dyn LanguageModel>, DriverError>> {
        let model: Arc<dyn LanguageModel> =
            Arc::new(ScriptedModel { script: self.script.clone(), facts: self.facts.clone() });
        async move { Ok(model) }.boxed()
    }
    fn retry_policy(&self) -> RetryPolicy {
        let (initial_delay, max_delay) = (self.retry_wait, self.retry_wait.saturating_mul(2));
        RetryPolicy { initial_delay, max_delay, ..RetryPolicy::default() }
    }
}

struct ScriptedModel {
    script: Script,
    facts: Model,
}

impl LanguageModel for ScriptedModel {
    fn facts(&self) -> &Model {
        &self.facts
    }
    fn is_assumed(&self) -> bool {
        false
    }
    fn stream<'a>(&'a self, _: &'a ModelRequest) -> BoxFuture<'a, Result<ModelStream, ProviderFailure>> {
        let answer = self.script.0.lock().unwrap().pop_front().expect("the script has an answer");
        async move {
            let stream: ModelStream = Box::pin(futures_util::stream::iter(answer?));
            Ok(stream)
        }
        .boxed()
    }
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    say: String,
}

#[derive(Serialize, Deserialize)]
struct Echoed {
    said: String,
}

/// One agent, three tools, one driver.
struct TestSet {
    script: Script,
    held: Arc<Held>,
    retry_wait: Duration,
}

/// A call that holds until it is stopped.
#[derive(Default)]
pub(crate) struct Held {
    /// It runs.
    pub(crate) began: tokio::sync::Notify,
    /// Work of it that goes on elsewhere was told to stop.
    pub(crate) told: tokio::sync::Notify,
}

impl Extension for TestSet {
    fn id(&self) -> ExtensionId {
        ExtensionId::parse("@test/set").unwrap()
    }
    fn setup(&self, host: &mut dyn Host) -> Result<(), SetupError> {
        let declare = |name: &str| ToolDeclaration {
            name: name.into(),
            description: "a tool of the test".into(),
            parameters: json!({}),
            readonly: true,
            destructive: false,
            interactive: false,
            prompt_snippet: None,
            prompt_guidelines: vec![],
        };
        host.register(Contribution::Agent(AgentDefinition::new(AgentName::parse("main").unwrap())));
        host.register(Contribution::Tool(tool_fn(declare("echo"), None, |_, input: Echo| async move {
            Ok(Echoed { said: input.say })
        })));
        host.register(Contribution::Tool(tool_fn(declare("break"), None, |_, input: Echo| async move {
            if input.say == "panic" {
                panic!("the tool breaks");
            }
            Err::<Echoed, _>(ToolError::TellModel("no".into()))
        })));
        let held = self.held.clone();
        let hold = move |context: gent_extension_api::ToolContext, _: Echo| {
            let (held, stop) = (held.clone(), context.cancelled().clone());
            async move {
                held.began.notify_one();
                tokio::spawn(async move {
                    stop.cancelled().await;
                    held.told.notify_one();
                });
                std::future::pending::<Result<Echoed, ToolError>>().await
            }
        };
        host.register(Contribution::Tool(tool_fn(declare("hold"), None, hold)));
        host.register(Contribution::ModelDriver(Arc::new(Scripted {
            script: self.script.clone(),
            retry_wait: self.retry_wait,
            facts: Model {
                id: ModelId::parse("scripted/model").unwrap(),
                name: "model".into(),
                provider: ProviderId::parse("scripted").unwrap(),
                context_length: Some(100_000),
                input_limit: None,
                output_limit: Some(8_000),
                pricing: None,
                release_date: None,
                reasoning: None,
            },
        })));
        Ok(())
    }
}

/// Settings that name no model.
struct TestSettings {
    notices: Vec<String>,
}
impl Settings for TestSettings {
    fn model(&self) -> Option<ModelId> {
        None
    }
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }
}
struct NoApproval;
impl StandingApproval for NoApproval {
    fn allows(&self, _: &ModelId, _: &ApprovalRequest) -> bool {
        false
    }
}

/// An engine with one session.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) script: Script,
    pub(crate) held: Arc<Held>,
    pub(crate) workspace: WorkspaceId,
    pub(crate) session: CreatedSession,
    store: Store,
    _place: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn new(script: Vec<Answer>) -> Self {
        Self::started(script, Vec::new(), Duration::ZERO).await
    }

    /// With a driver that asks for this wait before a request is tried again.
    pub(crate) async fn with_retry_wait(script: Vec<Answer>, retry_wait: Duration) -> Self {
        Self::started(script, Vec::new(), retry_wait).await
    }

    /// With settings that have these faults.
    pub(crate) async fn with_notices(script: Vec<Answer>, notices: Vec<String>) -> Self {
        Self::started(script, notices, Duration::ZERO).await
    }

    async fn started(script: Vec<Answer>, notices: Vec<String>, retry_wait: Duration) -> Self {
        let place = tempfile::tempdir().unwrap();
        let hub = Hub::default();
        let config = StoreConfig {
            location: Location::Sqlite(place.path().join("data.db")),
            synchronous: Synchronous::Normal,
            readers: 2,
            mode: Mode::Threaded,
            new_incarnation: StoreIncarnation::parse("store-1").unwrap(),
            boot_id: None,
            backups: None,
            now: gent_protocol::Millis(1),
        };
        let store = Store::open(config, Arc::new(hub.clone())).unwrap();
        let held = Arc::new(Held::default());
        let script = Script(Arc::new(Mutex::new(script.into())));
        let config = EngineConfig {
            node_start: "test".into(),
            branch_idle: Duration::from_secs(60),
            process: ProcessPlace {
                child_program: PathBuf::from("/nonexistent"),
                children_lock: place.path().join("children.lock"),
            },
            home: None,
            gent_home: None,
            platform: "test".into(),
            shell: None,
            settings: Arc::new(TestSettings { notices }),
            standing_approval: Arc::new(NoApproval),
            secrets: Vec::new(),
            arbiters: 1,
            io_threads: 1,
        };
        let set = TestSet { script: script.clone(), held: held.clone(), retry_wait };
        let extensions: Vec<Arc<dyn Extension>> = vec![Arc::new(set)];
        let engine = Engine::start(config, store.clone(), hub, extensions, Env::real()).unwrap();
        let workspace = WorkspaceId::parse("0".repeat(64)).unwrap();
        let create = CreateSession { cwd: Some("/".into()), ..CreateSession::default() };
        let session = engine.session_create(&workspace, create).await.unwrap();
        Self { engine, script, held, workspace, session, store, _place: place }
    }

    /// Sends a message and waits for its turn.
    pub(crate) async fn send(&self, request: &str, content: &str) -> Result<(), EngineError> {
        let send = SendMessage {
            session_id: self.session.session_id.clone(),
            branch_id: self.session.branch_id.clone(),
            content: content.into(),
            request_id: Some(RequestId::parse(request).unwrap()),
            approval: None,
            env: Default::default(),
        };
        self.engine.message_send(&self.workspace, send).await
    }

    /// Cancels what runs.
    pub(crate) async fn cancel(&self) {
        let command = SteerCommand::Cancel {
            session_id: self.session.session_id.clone(),
            branch_id: self.session.branch_id.clone(),
            request_id: RequestId::parse("cancel").unwrap(),
            message_id: None,
        };
        self.engine.steer(&self.workspace, command).await.unwrap();
    }

    /// A subscription from the first event on.
    pub(crate) async fn subscribe(&self) -> EventStream {
        let ask = SessionEvents {
            session_id: self.session.session_id.clone(),
            branch_id: None,
            after: None,
            store: None,
        };
        self.engine.subscribe(&self.workspace, ask).await.unwrap()
    }

    /// The number and the text of every event that the store holds, in order.
    pub(crate) async fn stored(&self) -> Vec<(EventSeq, String)> {
        let session = self.session.session_id.clone();
        let (done, page) = tokio::sync::oneshot::channel();
        let read = move |txn: &mut ReadTxn<'_>| events_after(txn, &session, None, EventSeq(0), 1000, 1 << 20);
        self.store.read("test.stored", read, |page| drop(done.send(page)));
        let page = page.await.unwrap().unwrap();
        assert!(!page.more);
        page.items.into_iter().map(|item| (item.id, item.json.to_string())).collect()
    }

    /// Waits until an event of this tag is stored and told.
    pub(crate) async fn told(&self, tag: &str) {
        let mut stream = self.subscribe().await;
        while !stream.next_batch().await.unwrap().unwrap().iter().any(|published| published.tag == tag) {}
    }

    /// The events so far, in short.
    pub(crate) async fn trace(&self) -> String {
        let mut stream = self.subscribe().await;
        let mut words = Vec::new();
        loop {
            for published in stream.next_batch().await.unwrap().unwrap() {
                let envelope: EventEnvelope = serde_json::from_str(&published.json).unwrap();
                match short(&envelope.event) {
                    Some(word) => words.push(word),
                    None => return words.join(" "),
                }
            }
        }
    }
}

/// One event in the notation of the reference traces; none for the marker.
fn short(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::StreamSynchronized { .. } => return None,
        AgentEvent::MessageReceived { message } => {
            let id = message.id.as_str();
            format!("MR({})", id.rsplit("message:").next().unwrap_or(id))
        }
        AgentEvent::ModelContextProjected { .. } => "MCP".into(),
        AgentEvent::StreamStarted { step, .. } => format!("SS{step}"),
        AgentEvent::StreamChunk { .. } => "SC".into(),
        AgentEvent::StreamEnded { step, outcome, .. } => match outcome {
            StepOutcome::Answered => format!("SE{step}(Answered)"),
            StepOutcome::ToolCalls => format!("SE{step}(ToolCalls)"),
            StepOutcome::Failed => format!("SE{step}(Failed)"),
            StepOutcome::Interrupted => format!("SE{step}(Interrupted)"),
        },
        AgentEvent::ToolCallStarted { tool_call_id, .. } => format!("TS({tool_call_id})"),
        AgentEvent::ToolCallSucceeded { tool_call_id, .. } => format!("TOK({tool_call_id})"),
        AgentEvent::ToolCallFailed { tool_call_id, .. } => format!("TF({tool_call_id})"),
        AgentEvent::ProviderRetrying { attempt, .. } => format!("Retry({attempt})"),
        AgentEvent::ErrorOccurred { error, .. } => format!("Error({error})"),
        AgentEvent::TurnCompleted { interrupted, stream_failed, unanswered, .. } => {
            let flags =
                [(*interrupted, "interrupted"), (*stream_failed, "failed"), (*unanswered, "unanswered")];
            let flags: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
            format!("TC({})", flags.join(","))
        }
        other => other.tag().to_owned(),
    })
}
