//! Owns what is asked without changing anything: lists, snapshots, queues, models, events.
//! Answers from rows and never waits for an actor; where the rows hold work that nobody does, it has the branch
//! opened beside the answer. Tested end to end (B1–B5, B10, I3, I15).

use std::path::Path;
use std::sync::Arc;

use gent_protocol::{
    Branch, GetQueue, GetSession, GetSnapshot, ListBranches, ListMessages, ListModels, ListSessions, Message,
    Model, OpenQuestion, Page, PageParams, QueueSnapshot, RuntimeState, Session, SessionEvents,
    SessionSnapshot, WorkspaceId,
};
use gent_storage::{
    QuestionRow, QueueItem, SnapshotRows, TurnRow, TurnState, branch_list, branch_locate, message_list,
    queue_items, session_find, session_get, session_list, snapshot_read,
};

use super::Engine;
use super::ask::session_not_found;
use crate::branch::{BranchKey, queue_snapshot};
use crate::error::EngineError;
use crate::events::EventStream;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX, SNAPSHOT_BYTES, SNAPSHOT_MESSAGES};
use crate::route;

impl Engine {
    /// The sessions of a workspace, newest change first.
    pub async fn session_list(
        &self,
        workspace: &WorkspaceId,
        ask: ListSessions,
    ) -> Result<Page<Session>, EngineError> {
        let (workspace, limit) = (workspace.clone(), page_limit(&ask.page));
        let read = self.store().read("session.list", move |txn| {
            session_list(txn, &workspace, limit, ask.page.cursor.as_deref())
        });
        Ok(read.await?)
    }

    /// A session of this workspace.
    pub async fn session_get(
        &self,
        workspace: &WorkspaceId,
        ask: GetSession,
    ) -> Result<Option<Session>, EngineError> {
        let workspace = workspace.clone();
        let read = self.store().read("session.get", move |txn| session_get(txn, &workspace, &ask.session_id));
        Ok(read.await?.map(|row| row.session))
    }

    /// The branches of a session, oldest first.
    pub async fn branch_list(
        &self,
        workspace: &WorkspaceId,
        ask: ListBranches,
    ) -> Result<Page<Branch>, EngineError> {
        let (of, limit, session) = (workspace.clone(), page_limit(&ask.page), ask.session_id.clone());
        let read = self.store().read("branch.list", move |txn| {
            if session_get(txn, &of, &ask.session_id)?.is_none() {
                return Ok(Err(session_find(txn, &ask.session_id)?));
            }
            branch_list(txn, &of, &ask.session_id, limit, ask.page.cursor.as_deref()).map(Ok)
        });
        read.await?.map_err(|elsewhere| session_not_found(&session, elsewhere))
    }

    /// The messages of a branch, in its order.
    pub async fn message_list(
        &self,
        workspace: &WorkspaceId,
        ask: ListMessages,
    ) -> Result<Page<Message>, EngineError> {
        let (of, limit, branch) = (workspace.clone(), page_limit(&ask.page), ask.branch_id.clone());
        let read = self.store().read("message.list", move |txn| {
            match branch_locate(txn, &ask.branch_id)? {
                Some((workspace, _)) if workspace == of => {}
                Some(_) | None => return Ok(None),
            }
            message_list(txn, &of, &ask.branch_id, limit, ask.page.cursor.as_deref()).map(Some)
        });
        read.await?.ok_or_else(|| EngineError::not_found("branch", branch))
    }

    /// What waits on a branch.
    pub async fn queue_get(
        &self,
        workspace: &WorkspaceId,
        ask: GetQueue,
    ) -> Result<QueueSnapshot, EngineError> {
        let (key, _) = self.branch_of(workspace, &ask.session_id, &ask.branch_id).await?;
        let branch = key.branch.clone();
        let waiting = self.store().read("queue.get", move |txn| queue_items(txn, &branch)).await?;
        Ok(queue_snapshot(waiting))
    }

    /// One consistent read of a branch: its newest messages, its state, its cursor.
    pub async fn snapshot(
        &self,
        workspace: &WorkspaceId,
        ask: GetSnapshot,
    ) -> Result<SessionSnapshot, EngineError> {
        let (key, _) = self.branch_of(workspace, &ask.session_id, &ask.branch_id).await?;
        let asked = key.clone();
        let before = ask.before.clone();
        let rows = self
            .store()
            .read("session.getSnapshot", move |txn| {
                snapshot_read(
                    txn,
                    &asked.workspace,
                    &asked.session,
                    &asked.branch,
                    before.as_deref(),
                    SNAPSHOT_MESSAGES,
                    SNAPSHOT_BYTES,
                )
            })
            .await?;
        self.wake_if_due(&key, &rows);
        let session = rows.session.session.clone();
        let (services, of, cwd) = (Arc::clone(self.services()), workspace.clone(), session.cwd.clone());
        let asked = session.clone();
        let choice = self
            .on_io(async move {
                let profile = match &cwd {
                    Some(cwd) => services.profiles.lease(Path::new(cwd)),
                    None => services.profiles.lease_default(),
                };
                let agent = profile.agents.get(&route::agent_name(&asked)).cloned();
                route::choose_model(&services, &profile, &of, &asked, agent.as_ref()).await
            })
            .await?;
        let (resolved_model_id, resolved_model_reason) = match choice {
            Ok(choice) => (Some(choice.model), choice.reason),
            Err(failure) => (None, failure.to_string()),
        };
        Ok(SessionSnapshot {
            runtime: runtime_state(rows.turn.as_ref(), rows.queue, rows.question.as_ref()),
            question: rows
                .question
                .map(|row| OpenQuestion { request_id: row.request_id, question: row.question }),
            session_id: key.session,
            branch_id: key.branch,
            name: session.name.clone(),
            messages: rows.messages.into_iter().map(|stored| stored.message).collect(),
            truncated: rows.truncated,
            before: rows.before,
            last_event_id: rows.last_event,
            store: self.store_incarnation().clone(),
            model_id: session.model_id.clone(),
            reasoning_level: session.reasoning_level,
            agent: route::agent_name(&session),
            resolved_model_id,
            resolved_model_reason,
            metrics: rows.metrics.metrics,
            streaming: rows.streaming,
        })
    }

    /// Has a branch opened whose rows hold work, beside the answer.
    fn wake_if_due(&self, key: &BranchKey, rows: &SnapshotRows) {
        let has_turn = rows.turn.as_ref().is_some_and(|turn| turn.state != TurnState::Parked);
        let is_waking =
            rows.queue.iter().any(|item| item.wake) || (!rows.queue.is_empty() && !rows.messages.is_empty());
        if has_turn || is_waking {
            let (engine, key) = (self.clone(), key.clone());
            self.beside(async move {
                // A branch that is given up stays so: a read does not bring it back.
                drop(engine.open(&key, false).await);
            });
        }
    }

    /// What every driver can serve; a driver that fails contributes nothing.
    pub async fn model_list(
        &self,
        workspace: Option<&WorkspaceId>,
        ask: ListModels,
    ) -> Result<Page<Model>, EngineError> {
        let (services, workspace) = (Arc::clone(self.services()), workspace.cloned());
        let models = self
            .on_io(async move {
                let profile = services.profiles.lease_default();
                let mut models = Vec::new();
                for driver in &profile.drivers {
                    let access = workspace
                        .as_ref()
                        .map(|of| services.credentials.newest(of, &driver.id()))
                        .unwrap_or_default();
                    match driver.list_models(&access).await {
                        Ok(mut found) => models.append(&mut found),
                        Err(error) => {
                            tracing::debug!(driver = %driver.id(), error = %error, "driver.list_failed");
                        }
                    }
                }
                models
            })
            .await?;
        let mut models = models;
        models.sort_by(|a: &Model, b: &Model| {
            (b.release_date.as_deref(), &a.id).cmp(&(a.release_date.as_deref(), &b.id))
        });
        let limit = usize::try_from(page_limit(&ask.page)).unwrap_or(usize::MAX);
        let at = match ask.page.cursor.as_deref() {
            None => 0,
            Some(cursor) => {
                models.iter().position(|model| model.id.as_str() == cursor).map(|at| at + 1).ok_or_else(
                    || EngineError::InvalidState {
                        message: "the cursor names no model of the list now; begin without one".into(),
                    },
                )?
            }
        };
        let is_last = models.len() <= at + limit;
        let items: Vec<Model> = models.into_iter().skip(at).take(limit).collect();
        let next = items.last().filter(|_| !is_last).map(|model| model.id.to_string());
        Ok(Page { items, next })
    }

    /// Follows a session's events.
    pub async fn subscribe(
        &self,
        workspace: &WorkspaceId,
        ask: SessionEvents,
    ) -> Result<EventStream, EngineError> {
        let services = self.services();
        EventStream::open(services.store.clone(), &services.hub, services.env.clone(), workspace, ask).await
    }
}

fn page_limit(page: &PageParams) -> u32 {
    page.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
}

/// The rows are the truth: a turn has one from admission to receipt.
fn runtime_state(
    turn: Option<&TurnRow>,
    queue: Vec<QueueItem>,
    question: Option<&QuestionRow>,
) -> RuntimeState {
    let queue = queue_snapshot(queue);
    let Some(turn) = turn else { return RuntimeState::Idle { queue } };
    let (message_id, started_at_ms) = (turn.message_id.clone(), turn.started_at);
    match question {
        Some(question) if turn.state == TurnState::Parked => RuntimeState::WaitingForInteraction {
            queue,
            message_id,
            started_at_ms,
            request_id: question.request_id.clone(),
        },
        Some(_) | None => RuntimeState::Running { queue, message_id, started_at_ms },
    }
}
