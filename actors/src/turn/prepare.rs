//! Owns what a turn fixes before its first step and keeps to its end: agent, model, tools, prompt, conversation.
//! Never sends a request. Tested end to end (G10, G15, H20, and the wait for a credential of crash tests).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gent_extension_api::{
    Access, AgentDefinition, LanguageModel, ModelDriver, ToolDeclaration, TurnProjectionInput, WireTool,
};
use gent_protocol::{
    AgentEvent, ExtensionId, Message, MessageId, MessageKind, MessageMetadata, Millis, Ordinal, Part, Role,
    assistant_message_id, model_change_message_id,
};
use gent_storage::{StoreError, TurnRow, message_get, metrics_get};

use super::context::TurnFacets;
use super::conversation::Conversation;
use super::failure::TurnFailure;
use super::questions::{Asking, NoCall};
use super::rows::Progress;
use super::run::TurnJob;
use super::window::{Budget, Measure, budget};
use crate::branch::Rank;
use crate::date::local_day;
use crate::limits::STEPS;
use crate::profile::{Profile, ProfileTool, Projected, PromptInput, build_prompt, project_turn};
use crate::route::{self, Route};

/// A turn at work.
pub(crate) struct Turn {
    pub(crate) job: TurnJob,
    pub(crate) progress: Progress,
    pub(crate) facets: TurnFacets,
    pub(crate) driver: Arc<dyn ModelDriver>,
    pub(crate) model: Arc<dyn LanguageModel>,
    pub(crate) route: Route,
    pub(crate) agent: AgentDefinition,
    pub(crate) tools: Vec<ProfileTool>,
    pub(crate) wire_tools: Arc<[WireTool]>,
    pub(crate) system: Arc<[String]>,
    pub(crate) notice: Option<String>,
    /// Of the notices that are shown.
    pub(crate) notice_keys: Vec<String>,
    /// This run has sent a request: its notices were shown.
    pub(crate) has_asked: bool,
    pub(crate) budget: Budget,
    pub(crate) measure: Option<Measure>,
    pub(crate) conversation: Conversation,
    /// Where the window of the last step began, when it was cut.
    pub(crate) window_begins: Option<Ordinal>,
    /// Messages that the next write stores before anything else.
    pub(crate) boundary: Vec<Message>,
    pub(crate) max_steps: u32,
    /// The row as it was last stored; absent before the first write of this run.
    pub(crate) stored_row: Option<TurnRow>,
}

/// What came of preparing.
pub(crate) enum Prepared {
    /// The turn can go on.
    Ready(Box<Turn>),
    /// It needs a key that nobody has offered since the server started.
    WaitsForCredential { job: Box<TurnJob>, offers: u64 },
    /// There is nobody to run it.
    UnknownAgent(String),
    /// It cannot be run.
    Failed(TurnFailure),
}

/// Prepares a turn.
pub(crate) async fn prepare(mut job: TurnJob) -> Prepared {
    // Before the look at the offers: one that comes meanwhile is not missed.
    let offers = job.services.credentials.count();
    let cwd = working_directory(&job);
    let profile = job.services.profiles.lease(&cwd);
    let name = route::agent_name(&job.session.session);
    let Some(agent) = profile.agents.get(&name).cloned() else {
        return Prepared::UnknownAgent(format!("unknown agent {name}: no extension provides it"));
    };
    let (route, access) = match find_route(&job, &profile, &agent).await {
        Ok(Some(found)) => found,
        Ok(None) => return Prepared::WaitsForCredential { job: Box::new(job), offers },
        Err(failure) => return Prepared::Failed(failure),
    };
    job.row.route = serde_json::to_value(&route).ok();
    match assemble(&job, &profile, &agent, &route, &access, cwd).await {
        Ok(parts) => Prepared::Ready(Box::new(parts.into_turn(job, agent, route))),
        Err(failure) => Prepared::Failed(failure),
    }
}

fn working_directory(job: &TurnJob) -> PathBuf {
    let of_session = job.session.session.cwd.as_ref().map(PathBuf::from);
    of_session.unwrap_or_else(|| PathBuf::from("/"))
}

/// The stored route of a resumed turn, else a new one. `None`: its key must be offered first.
async fn find_route(
    job: &TurnJob,
    profile: &Profile,
    agent: &AgentDefinition,
) -> Result<Option<(Route, Access)>, TurnFailure> {
    let workspace = &job.key.workspace;
    let stored = job.row.route.clone().and_then(|route| serde_json::from_value::<Route>(route).ok());
    if let Some(route) = stored {
        let access = route::access_again(&job.services, workspace, &route);
        return Ok(access.map(|access| (route, access)));
    }
    let chosen =
        route::choose_model(&job.services, profile, workspace, &job.session.session, Some(agent)).await;
    let may_wait = job.is_unattended && !job.services.credentials.has_offer(workspace);
    match chosen {
        Err(TurnFailure::Route { .. }) if may_wait => Ok(None),
        Err(failure) => Err(failure),
        Ok(choice) => {
            let (route, access) = route::route_to(&job.services, profile, workspace, choice.model)?;
            let waits = may_wait && route.has_key && access.key.is_none();
            Ok((!waits).then_some((route, access)))
        }
    }
}

/// What preparing found out.
struct Parts {
    facets: TurnFacets,
    driver: Arc<dyn ModelDriver>,
    model: Arc<dyn LanguageModel>,
    tools: Vec<ProfileTool>,
    wire_tools: Arc<[WireTool]>,
    system: Arc<[String]>,
    notice: Option<String>,
    notice_keys: Vec<String>,
    budget: Budget,
    measure: Option<Measure>,
    conversation: Conversation,
    boundary: Vec<Message>,
}

impl Parts {
    fn into_turn(self, job: TurnJob, agent: AgentDefinition, route: Route) -> Turn {
        let mut progress = Progress::of(&job.row);
        if job.is_resumed_after_death {
            progress.ledger.mark_partial();
        }
        Turn {
            progress,
            max_steps: agent.max_steps.unwrap_or(STEPS).clamp(1, STEPS),
            facets: self.facets,
            driver: self.driver,
            model: self.model,
            route,
            agent,
            tools: self.tools,
            wire_tools: self.wire_tools,
            system: self.system,
            notice: self.notice,
            notice_keys: self.notice_keys,
            has_asked: false,
            budget: self.budget,
            measure: self.measure,
            conversation: self.conversation,
            window_begins: None,
            boundary: self.boundary,
            stored_row: None,
            job,
        }
    }
}

async fn assemble(
    job: &TurnJob,
    profile: &Profile,
    agent: &AgentDefinition,
    route: &Route,
    access: &Access,
    cwd: PathBuf,
) -> Result<Parts, TurnFailure> {
    let (driver, model) = route::resolve(profile, route, access).await?;
    let asking = Asking {
        approval: job.row.approval.unwrap_or(job.session.session.approval),
        can_ask: can_ask(job).await?,
        model: Some(route.model.clone()),
        standing: Arc::clone(&job.services.standing_approval),
    };
    let can_ask = asking.can_ask;
    let facets = TurnFacets::new(
        Arc::clone(&job.services),
        job.scope.clone(),
        Arc::clone(&job.session),
        Arc::clone(&profile.facts),
        asking,
        job.holds.clone(),
    );
    let context_of =
        |extension: &ExtensionId| facets.context(&job.key, extension, job.latch.clone(), Arc::new(NoCall));
    let input = TurnProjectionInput { agent: agent.clone(), interactive: can_ask };
    let projected = project_turn(profile, context_of, &input).await;
    let tools = model_tools(profile, agent, &projected, can_ask);
    let wire_tools = wire_tools(&tools);
    announce(job, &projected.failures, model.as_ref()).await?;
    let declarations: Vec<&ToolDeclaration> = tools.iter().map(|tool| tool.tool.declaration()).collect();
    let started = local_day(job.session.session.created_at);
    let today = local_day(job.services.env.now());
    let notice_keys = projected.notices.iter().flat_map(|notice| notice.keys.clone()).collect();
    let prompt = build_prompt(PromptInput {
        facts: &profile.facts,
        agent,
        tools: declarations,
        sections: projected.sections,
        notices: projected.notices,
        is_repository: is_repository(&cwd),
        today: (today != started).then_some(today),
        started,
    });
    let budget =
        budget(model.facts(), agent.context_length, &prompt.blocks, prompt.notice.as_deref(), &wire_tools)
            .map_err(|source| TurnFailure::Window { model: route.model.clone(), source })?;
    let branch = job.key.branch.clone();
    let known = job.writer.store().read("turn.metrics", move |txn| metrics_get(txn, &branch)).await?;
    let mut conversation = Conversation::load(job.writer.store(), &job.key.branch, budget.available).await?;
    let pending = assistant_message_id(&job.row.message_id, job.row.step);
    conversation.close_open_calls(&pending);
    let mut boundary = Vec::new();
    if job.row.step == 0
        && let Some(previous) = known.last_model.filter(|previous| *previous != route.model)
    {
        let id = model_change_message_id(&job.row.message_id, 1, &previous, &route.model);
        if conversation.find(&id).is_none() {
            let text =
                format!("From here on you are {}; what came before was answered by {previous}.", route.model);
            boundary.push(job.runtime_message(id, gent_protocol::CustomType::ModelChange, text));
        }
    }
    Ok(Parts {
        facets,
        driver,
        model,
        tools,
        wire_tools,
        system: prompt.blocks.into(),
        notice: prompt.notice,
        notice_keys,
        budget,
        measure: known.last_measure.and_then(measure),
        conversation,
        boundary,
    })
}

/// Tells the transcript what went wrong while preparing, and once a turn what is wrong with the settings and that a
/// model's facts are assumptions.
async fn announce(job: &TurnJob, failures: &[String], model: &dyn LanguageModel) -> Result<(), TurnFailure> {
    let mut notices = failures.to_vec();
    let is_first = job.row.step == 0 && job.row.attempts == 0;
    if is_first {
        notices.extend(job.services.settings.notices());
    }
    if model.is_assumed() && is_first {
        let facts = model.facts();
        notices.push(format!(
            "nothing is known of the model {}: assuming a window of {} tokens, {} of output, and no price",
            facts.id,
            facts.context_length.unwrap_or(0),
            facts.output_limit.unwrap_or(0),
        ));
    }
    if notices.is_empty() {
        return Ok(());
    }
    let (key, at) = (job.key.clone(), job.services.env.now());
    let write = job.writer.write(Rank::Step, "turn.notices", move |txn| {
        for notice in &notices {
            let event = AgentEvent::ErrorOccurred {
                session_id: key.session.clone(),
                branch_id: Some(key.branch.clone()),
                error: notice.clone(),
                notice: true,
            };
            txn.append(&event, at)?;
        }
        Ok(())
    });
    Ok(write.await?)
}

/// Somebody can be asked: in a session of a user's own always, in a spawned one only where a client opened the turn.
async fn can_ask(job: &TurnJob) -> Result<bool, StoreError> {
    let session = &job.session.session;
    let is_spawned = session.parent_session_id.is_some()
        && session.thread_id.as_ref().is_none_or(|thread| *thread == session.id);
    if !is_spawned {
        return Ok(true);
    }
    let (branch, opening) = (job.key.branch.clone(), job.row.message_id.clone());
    let read = job.writer.store().read("turn.opening", move |txn| message_get(txn, &branch, &opening));
    let metadata = read.await?.and_then(|stored| stored.message.metadata);
    Ok(metadata.is_some_and(|metadata| metadata.from_client))
}

fn model_tools(
    profile: &Profile,
    agent: &AgentDefinition,
    projected: &Projected,
    can_ask: bool,
) -> Vec<ProfileTool> {
    let is_shown = |tool: &&ProfileTool| {
        let declaration = tool.tool.declaration();
        let name = &declaration.name;
        (can_ask || !declaration.interactive)
            && agent.admits(name)
            && projected.model_set.as_ref().is_none_or(|set| set.contains(name))
    };
    profile.tools.iter().filter(is_shown).cloned().collect()
}

fn wire_tools(tools: &[ProfileTool]) -> Arc<[WireTool]> {
    let of_tool = |tool: &ProfileTool| {
        let declaration = tool.tool.declaration();
        WireTool {
            name: tool.wire_name.clone(),
            description: declaration.description.clone(),
            parameters: declaration.parameters.clone(),
        }
    };
    tools.iter().map(of_tool).collect()
}

fn is_repository(cwd: &Path) -> bool {
    cwd.ancestors().any(|directory| directory.join(".git").exists())
}

/// The provider's count at the last step, as the store keeps it.
fn measure(stored: serde_json::Value) -> Option<Measure> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Stored {
        message_id: MessageId,
        step: u32,
        input_tokens: u64,
        request_overhead_tokens: u64,
    }
    let stored: Stored = serde_json::from_value(stored).ok()?;
    Some(Measure {
        reply: assistant_message_id(&stored.message_id, stored.step),
        tokens: stored.input_tokens.saturating_sub(stored.request_overhead_tokens),
    })
}

impl TurnJob {
    /// A message of this branch, stamped now.
    pub(crate) fn message(&self, id: MessageId, role: Role, parts: Vec<Part>) -> Message {
        Message {
            kind: MessageKind::Regular,
            id,
            session_id: self.key.session.clone(),
            branch_id: self.key.branch.clone(),
            role,
            parts,
            created_at: self.services.env.now(),
            turn_duration_ms: None::<Millis>,
            metadata: None,
        }
    }

    /// A user-role message of the runtime's own.
    pub(crate) fn runtime_message(
        &self,
        id: MessageId,
        kind: gent_protocol::CustomType,
        text: String,
    ) -> Message {
        let metadata =
            MessageMetadata { custom_type: Some(kind.as_str().to_owned()), ..MessageMetadata::default() };
        let mut message = self.message(id, Role::User, vec![Part::text(text)]);
        message.metadata = Some(metadata);
        message
    }
}
