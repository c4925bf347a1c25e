//! Owns what an operator asks: which branches there are and what they do, the engine's health, offered keys.
//! Tested end to end.

use gent_protocol::{
    ActorRow, ActorState, BranchCounts, DatabaseStatus, GetActor, LaneDepth, ListActors, Millis,
    OfferCredentials, OfferedCredentials, Page, WorkspaceId, WriterStatus,
};
use gent_storage::{TurnState, UnfinishedTurn, turns_parked, turns_unfinished};
use tracing::debug;

use super::Engine;
use crate::branch::{BranchKey, CredentialOffered, Lane, WAITS_FOR_ANSWER};
use crate::directory::{Living, Show};
use crate::error::EngineError;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};

/// How the engine does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineHealth {
    /// Branches by state.
    pub branches: BranchCounts,
    /// Orders and reports that found no taker.
    pub dead_letters: u64,
    /// The store's writer.
    pub writer: WriterStatus,
    /// It takes no new turns.
    pub draining: bool,
    /// Turns run: the server must not exit for idleness.
    pub busy: bool,
}

impl Engine {
    /// Every branch that is in memory, given up, or waits in its rows.
    pub async fn actor_list(&self, ask: ListActors) -> Result<Page<ActorRow>, EngineError> {
        let rows = self.actor_rows().await?;
        let limit = usize::try_from(ask.page.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)).unwrap_or(1);
        let is_after = |row: &&ActorRow| {
            ask.page.cursor.as_deref().is_none_or(|cursor| cursor_of(row).as_str() > cursor)
        };
        let mut items: Vec<ActorRow> = rows.iter().filter(is_after).take(limit + 1).cloned().collect();
        let next = (items.len() > limit).then(|| items.pop()).flatten().and(items.last().map(cursor_of));
        Ok(Page { items, next })
    }

    /// One branch.
    pub async fn actor_get(&self, ask: GetActor) -> Result<ActorRow, EngineError> {
        let rows = self.actor_rows().await?;
        let is_asked = |row: &ActorRow| row.session_id == ask.session_id && row.branch_id == ask.branch_id;
        rows.into_iter()
            .find(is_asked)
            .ok_or_else(|| EngineError::not_found("actor in memory for the branch", &ask.branch_id))
    }

    async fn actor_rows(&self) -> Result<Vec<ActorRow>, EngineError> {
        let mut rows = self.0.directory.send(Show).await.map_err(|_gone| self.draining())?;
        let read = self.store().read("turns.resting", |txn| {
            let parked = turns_parked(txn)?;
            let mut resting = turns_unfinished(txn)?;
            resting.retain(|turn| !parked.contains(turn));
            resting.extend(parked);
            Ok(resting)
        });
        for turn in read.await? {
            let is_shown = rows
                .iter()
                .any(|row| row.session_id == turn.row.session_id && row.branch_id == turn.row.branch_id);
            if !is_shown {
                rows.push(row_of(turn, self.services().env.now()));
            }
        }
        rows.sort_by_key(cursor_of);
        Ok(rows)
    }

    pub(super) async fn unfinished(&self) -> Result<Vec<UnfinishedTurn>, EngineError> {
        Ok(self.store().read("turns.unfinished", |txn| turns_unfinished(txn)).await?)
    }

    /// How the engine does.
    pub async fn health(&self) -> EngineHealth {
        let rows = self.0.directory.send(Show).await.unwrap_or_default();
        let mut branches = BranchCounts::default();
        for row in &rows {
            match row.state {
                ActorState::Faulted => {
                    branches.faulted += 1;
                    continue;
                }
                ActorState::Running => branches.running += 1,
                ActorState::Waiting => branches.waiting += 1,
                ActorState::Opening | ActorState::Idle | ActorState::Retiring | ActorState::Drained => {}
            }
            branches.resident += 1;
        }
        EngineHealth {
            branches,
            dead_letters: self.0.letters.count(),
            writer: self.store().writer_status(),
            draining: self.services().drain.is_cancelled(),
            busy: branches.running > 0 || rows.iter().any(|row| row.state == ActorState::Opening),
        }
    }

    /// The database.
    pub fn database(&self) -> DatabaseStatus {
        self.store().status()
    }

    /// Takes the credentials a client offers; turns of its workspace that wait for one try again.
    pub fn offer(&self, workspace: &WorkspaceId, offer: OfferCredentials) -> OfferedCredentials {
        let profile = self.services().profiles.lease_default();
        let specs: Vec<_> =
            profile.drivers.iter().map(|driver| (driver.id(), driver.credentials())).collect();
        let keys = specs.iter().filter_map(|(_, spec)| offer.variables.get(spec.key_variable?));
        self.services().secrets.add(keys.map(|key| key.expose()));
        let taken = self.services().credentials.offer(workspace, &specs, offer);
        if !taken.accepted.is_empty() {
            let (engine, workspace) = (self.clone(), workspace.clone());
            self.beside(async move { engine.try_again(&workspace).await });
        }
        taken
    }

    async fn try_again(&self, workspace: &WorkspaceId) {
        let unfinished = match self.unfinished().await {
            Ok(unfinished) => unfinished,
            Err(error) => {
                debug!(error = %error, "credential.retry_failed");
                return;
            }
        };
        let waiting = unfinished
            .into_iter()
            .filter(|turn| turn.workspace == *workspace && turn.row.state == TurnState::Drained);
        for turn in waiting {
            let key = key_of(&turn);
            // A branch that cannot be reached now tries by itself when it opens.
            drop(self.order(&key, Lane::Data, false, None, |permit| CredentialOffered { permit }).await);
        }
    }

    pub(super) async fn living(&self, stopping: bool) -> Vec<crate::branch::BranchHandle> {
        self.0.directory.send(Living { stopping }).await.unwrap_or_default()
    }
}

pub(super) fn key_of(turn: &UnfinishedTurn) -> BranchKey {
    BranchKey {
        workspace: turn.workspace.clone(),
        session: turn.row.session_id.clone(),
        branch: turn.row.branch_id.clone(),
    }
}

fn cursor_of(row: &ActorRow) -> String {
    format!("{}:{}", row.session_id, row.branch_id)
}

/// A turn that waits in its row without an actor.
fn row_of(turn: UnfinishedTurn, now: Millis) -> ActorRow {
    let (state, waiting_for) = match turn.row.state {
        TurnState::Parked => (ActorState::Waiting, Some(WAITS_FOR_ANSWER.to_owned())),
        TurnState::Running | TurnState::Drained => (ActorState::Drained, turn.row.waiting_for),
    };
    ActorRow {
        workspace_id: turn.workspace,
        session_id: turn.row.session_id,
        branch_id: turn.row.branch_id,
        state,
        since_ms: Millis((now.0 - turn.row.started_at.0).max(0)),
        generation: 0,
        epoch: 0,
        holds: Vec::new(),
        lanes: LaneDepth::default(),
        restarts: 0,
        attempts: Some(turn.row.attempts),
        waiting_for,
        last_error: None,
    }
}
