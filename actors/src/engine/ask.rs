//! Owns the way from the edge to a branch: open it, order, and order again when it moved or died.
//! An order keeps its id over every re-send: its outcome is looked up by it.

use std::time::Duration;

use gent_protocol::{BranchId, SessionId, WorkspaceId};
use gent_storage::{SessionRow, StoreError, branch_get, session_find, session_get};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use super::Engine;
use crate::branch::{AskError, BranchActor, BranchError, BranchHandle, BranchKey, Lane, Order};
use crate::directory::{Open, OpenFailure};
use crate::error::EngineError;
use crate::limits::RESENDS;

impl Engine {
    /// The activation of a branch; one is opened where there is none, also where it was given up.
    pub(super) async fn open(&self, key: &BranchKey, revive: bool) -> Result<BranchHandle, EngineError> {
        let opened = self.0.directory.send(Open { key: key.clone(), revive }).await;
        match opened {
            Ok(Ok(handle)) => Ok(handle),
            Ok(Err(OpenFailure::Faulted(reason))) => {
                Err(EngineError::GivenUp { branch: key.branch.to_string(), reason })
            }
            Ok(Err(OpenFailure::Terminated)) => {
                Err(EngineError::Terminated { session: key.session.to_string() })
            }
            Ok(Err(OpenFailure::Stopping)) | Err(_) => Err(self.draining()),
        }
    }

    /// Orders a branch to do something. `make` is called again for each re-send. `line` is the order's place among
    /// those on their way to the branch, held until it is there. With `revive` a branch that was given up is tried
    /// once more.
    pub(super) async fn order<O: Order>(
        &self,
        key: &BranchKey,
        lane: Lane,
        mut revive: bool,
        mut line: Option<OwnedMutexGuard<()>>,
        make: impl Fn(OwnedSemaphorePermit) -> O,
    ) -> Result<O::Output, EngineError>
    where
        BranchActor: actix::Handler<O>,
        <BranchActor as actix::Actor>::Context: actix::dev::ToEnvelope<BranchActor, O>,
    {
        for _ in 0..RESENDS {
            let handle = self.open(key, revive).await?;
            // One attempt for each order: what kills the branch every time must not be tried over and over.
            revive = false;
            match handle.ask(lane, line.take(), &make).await {
                Ok(output) => return Ok(output),
                Err(AskError::Closed) => {}
                Err(AskError::Busy) => {
                    self.0.letters.add(key, "the lane is full");
                    return Err(EngineError::Busy { branch: key.branch.to_string() });
                }
                Err(AskError::Refused(error)) => return Err(self.refused(key, error)),
            }
        }
        self.0.letters.add(key, "it moved too often");
        Err(EngineError::Busy { branch: key.branch.to_string() })
    }

    pub(super) fn draining(&self) -> EngineError {
        let retry_after = i64::try_from(Duration::from_secs(1).as_millis()).unwrap_or(1_000);
        EngineError::Draining { retry_after: gent_protocol::Millis(retry_after) }
    }

    pub(super) fn refused(&self, key: &BranchKey, error: BranchError) -> EngineError {
        match error {
            // Both mean that the server goes away under the order.
            BranchError::Moved | BranchError::Draining => self.draining(),
            BranchError::FollowUpsFull { max } => EngineError::LimitExceeded {
                limit: "followUps",
                max: u64::try_from(max).unwrap_or(u64::MAX),
                message: format!(
                    "{max} follow-ups wait on this branch already: wait for one to start, or cancel one"
                ),
            },
            BranchError::SteersFull { max } => EngineError::LimitExceeded {
                limit: "steers",
                max: u64::try_from(max).unwrap_or(u64::MAX),
                message: format!(
                    "{max} steers wait on this branch already: wait until the turn has read them, or take them \
                     back with queue.drain"
                ),
            },
            BranchError::NotAsked { question, shown } => EngineError::QuestionMismatch {
                question,
                shown,
                session: key.session.clone(),
                branch: key.branch.clone(),
            },
            BranchError::OtherAnswer { question } => EngineError::QuestionConflict { question },
            BranchError::WaitersFull { max } => EngineError::LimitExceeded {
                limit: "sendWaiters",
                max: u64::try_from(max).unwrap_or(u64::MAX),
                message: format!("{max} callers wait on this branch already: send without a request id"),
            },
            BranchError::Turn(message) => EngineError::Turn { message },
            BranchError::Store(error) => error.into(),
        }
    }

    /// The session and branch, of this workspace.
    pub(crate) async fn branch_of(
        &self,
        workspace: &WorkspaceId,
        session: &SessionId,
        branch: &BranchId,
    ) -> Result<(BranchKey, SessionRow), EngineError> {
        let key =
            BranchKey { workspace: workspace.clone(), session: session.clone(), branch: branch.clone() };
        let asked = key.clone();
        let found = self
            .store()
            .read("branch.find", move |txn| {
                let Some(session) = session_get(txn, &asked.workspace, &asked.session)? else {
                    return Ok((None, session_find(txn, &asked.session)?));
                };
                let branch = branch_get(txn, &asked.workspace, &asked.session, &asked.branch)?;
                Ok((Some((session, branch.is_some())), None))
            })
            .await?;
        match found {
            (Some((row, true)), _) => Ok((key, row)),
            (Some((_, false)), _) => Err(EngineError::not_found("branch", branch)),
            (None, elsewhere) => Err(session_not_found(session, elsewhere)),
        }
    }
}

/// Says that a session is not here, and where it is when it belongs to another directory.
pub(super) fn session_not_found(session: &SessionId, elsewhere: Option<SessionRow>) -> EngineError {
    let hint = match elsewhere.filter(|row| !row.deleting).and_then(|row| row.session.cwd) {
        Some(cwd) => format!("; it belongs to the directory {cwd}"),
        None => String::new(),
    };
    EngineError::NotFound { what: "session", id: session.to_string(), hint }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { what, id } => Self::NotFound { what, id, hint: String::new() },
            StoreError::Terminated { session } => Self::Terminated { session: session.to_string() },
            StoreError::Fenced { branch } => Self::Busy { branch: branch.to_string() },
            StoreError::Conflict { message } => Self::InvalidState { message },
            StoreError::CursorInvalid { last } => Self::CursorInvalid { last },
            StoreError::OutcomeUnknown => Self::OutcomeUnknown,
            error @ (StoreError::Undecodable { .. }
            | StoreError::Full
            | StoreError::Closed
            | StoreError::QueueFull
            | StoreError::Failed { .. }) => Self::Storage { message: error.to_string(), source: Some(error) },
        }
    }
}
