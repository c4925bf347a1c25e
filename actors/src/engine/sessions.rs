//! Owns what is asked about sessions as rows: create, settings, delete. None of it needs an actor but the delete,
//! which ends them first. Tested end to end (A1–A5, A7, I7, I15).

use std::path::Path;
use std::sync::Arc;

use gent_protocol::{
    BranchId, CreateSession, CreatedSession, DeleteSession, RequestId, SessionAdmission, SessionId,
    UpdateSettings, UpdatedSettings, WorkspaceId, initial_prompt_message_id,
};
use gent_storage::{
    NewSession, session_create, session_delete_begin, session_delete_portion, session_update_settings,
    sessions_deleting,
};
use tracing::{debug, info, warn};

use super::Engine;
use super::messages::check_prompt;
use crate::branch::{BranchKey, Submission, SubmitKind};
use crate::directory::{Forget, Terminate};
use crate::error::EngineError;
use crate::limits::SWEEP_ROWS;
use crate::process::session_environment;
use crate::profile::session_deleted;

/// Characters of a session's name.
const NAME_CHARS: usize = 80;

impl Engine {
    /// Makes a session with its first branch, once for each request id, and sends its first prompt.
    pub async fn session_create(
        &self,
        workspace: &WorkspaceId,
        create: CreateSession,
    ) -> Result<CreatedSession, EngineError> {
        let prompt = create.initial_prompt.clone().filter(|text| !text.trim().is_empty());
        if let Some(prompt) = &prompt {
            check_prompt(prompt)?;
        }
        self.check_place(&create)?;
        let new = self.new_session(workspace, &create, prompt.as_deref());
        let created = self.store().write("session.create", move |txn| session_create(txn, &new)).await?;
        if !created.replayed {
            info!(session.id = %created.session_id, "session.created");
        }
        let reply = CreatedSession {
            session_id: created.session_id,
            branch_id: created.branch_id,
            name: created.name,
        };
        if let Some(prompt) = prompt {
            self.send_first(workspace, &reply, create.request_id.as_ref(), prompt).await?;
        }
        Ok(reply)
    }

    fn check_place(&self, create: &CreateSession) -> Result<(), EngineError> {
        create.cwd.as_deref().map_or(Ok(()), check_cwd)?;
        let Some(agent) = create.admission.as_ref().and_then(|admission| admission.agent.as_ref()) else {
            return Ok(());
        };
        let profiles = &self.services().profiles;
        let profile = match &create.cwd {
            Some(cwd) => profiles.lease(Path::new(cwd)),
            None => profiles.lease_default(),
        };
        if profile.agents.contains_key(agent) {
            return Ok(());
        }
        let known: Vec<&str> = profile.agents.keys().map(|name| name.as_str()).collect();
        Err(EngineError::NotFound {
            what: "agent",
            id: agent.to_string(),
            hint: format!("; the agents are {}", known.join(", ")),
        })
    }

    fn new_session(
        &self,
        workspace: &WorkspaceId,
        create: &CreateSession,
        prompt: Option<&str>,
    ) -> NewSession {
        let env = &self.services().env;
        #[expect(clippy::expect_used, reason = "ids of `Env` are short and printable")]
        let (session, branch) = (
            SessionId::parse(env.new_id()).expect("a valid id"),
            BranchId::parse(env.new_id()).expect("a valid id"),
        );
        let admission = create.admission.clone().filter(|of| *of != SessionAdmission::default());
        NewSession {
            workspace: workspace.clone(),
            session,
            branch,
            name: name(create.name.as_deref(), prompt),
            cwd: create.cwd.clone(),
            model: create.model_id.clone(),
            reasoning: create.reasoning_level,
            admission,
            approval: create.approval.unwrap_or_default(),
            env: session_environment(&create.env),
            initial_prompt: prompt.map(str::to_owned),
            request: create.request_id.clone(),
            at: env.now(),
        }
    }

    /// A replay sends it again, harmlessly: the message's id derives from the request's.
    async fn send_first(
        &self,
        workspace: &WorkspaceId,
        created: &CreatedSession,
        request: Option<&RequestId>,
        prompt: String,
    ) -> Result<(), EngineError> {
        let key = BranchKey {
            workspace: workspace.clone(),
            session: created.session_id.clone(),
            branch: created.branch_id.clone(),
        };
        let id = request.map_or_else(|| self.new_message_id(), initial_prompt_message_id);
        let message = self.client_message(&key, id, prompt);
        let submission = Submission { message, kind: SubmitKind::Prompt, sender: None, approval: None };
        self.submit(&key, None, submission, false).await
    }

    /// Changes a session's settings; one conditional write.
    pub async fn session_update_settings(
        &self,
        workspace: &WorkspaceId,
        update: UpdateSettings,
    ) -> Result<UpdatedSettings, EngineError> {
        let (workspace, at) = (workspace.clone(), self.services().env.now());
        let write = self.store().write("session.updateSettings", move |txn| {
            let UpdateSettings { session_id, model_id, reasoning_level } = update.clone();
            session_update_settings(txn, &workspace, &session_id, model_id, reasoning_level, at)
        });
        Ok(write.await?)
    }

    /// Deletes a session and all it spawned. Returns when nothing of it can be seen or written any more; its rows
    /// go in portions behind other work, also after a restart.
    pub async fn session_delete(
        &self,
        workspace: &WorkspaceId,
        delete: DeleteSession,
    ) -> Result<(), EngineError> {
        let (of, session, at) = (workspace.clone(), delete.session_id.clone(), self.services().env.now());
        let begun = self
            .store()
            .write("session.delete", move |txn| session_delete_begin(txn, &of, &session, at))
            .await?;
        let sessions: Vec<SessionId> = begun.into_iter().map(|(session, _)| session).collect();
        if let Ok(living) = self.0.directory.send(Terminate(sessions.clone())).await {
            futures_util::future::join_all(living.iter().map(|handle| handle.close())).await;
        }
        for session in &sessions {
            self.services().hub.end(session);
            info!(session.id = %session, "session.deleted");
        }
        let (services, gone) = (Arc::clone(self.services()), sessions.clone());
        self.on_io(async move {
            let profile = services.profiles.lease_default();
            for session in &gone {
                session_deleted(&profile, session).await;
            }
        })
        .await?;
        self.sweep(sessions);
        Ok(())
    }

    /// Removes the rows of deleted sessions, in portions, in the background.
    fn sweep(&self, sessions: Vec<SessionId>) {
        let (engine, stop) = (self.clone(), self.0.stop.clone());
        self.services().io.spawn(stop.run_until_cancelled_owned(async move {
            for session in &sessions {
                loop {
                    let of = session.clone();
                    let portion = engine
                        .store()
                        .write_bulk("session.sweep", move |txn| session_delete_portion(txn, &of, SWEEP_ROWS))
                        .await;
                    match portion {
                        Ok(false) => {}
                        Ok(true) => break,
                        Err(error) => {
                            // It stays marked: the next start goes on.
                            warn!(session.id = %session, error = %error, "session.sweep_failed");
                            break;
                        }
                    }
                }
            }
            if engine.0.directory.send(Forget(sessions)).await.is_err() {
                debug!("sweep.directory_gone");
            }
        }));
    }

    /// Goes on with the deletes that an earlier start did not finish.
    pub(super) async fn resume_sweeps(&self) -> Result<(), EngineError> {
        let left = self.store().read("sessions.deleting", |txn| sessions_deleting(txn)).await?;
        if !left.is_empty() {
            self.sweep(left);
        }
        Ok(())
    }
}

fn check_cwd(cwd: &str) -> Result<(), EngineError> {
    let message = if !Path::new(cwd).is_absolute() {
        format!("`cwd` must be an absolute path, and {cwd:?} is not")
    } else if cwd.contains(char::is_control) {
        format!("`cwd` must be a path without control characters, and {cwd:?} has one")
    } else {
        return Ok(());
    };
    Err(EngineError::InvalidState { message })
}

/// A session's name: the given one, else the first line of its first prompt.
fn name(given: Option<&str>, prompt: Option<&str>) -> String {
    let line = given
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .or_else(|| prompt.and_then(|text| text.lines().map(str::trim).find(|line| !line.is_empty())));
    line.map_or_else(|| "New session".to_owned(), |line| line.chars().take(NAME_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_directory_is_absolute_and_without_control_characters() {
        assert!(check_cwd("/a/b é").is_ok());
        for cwd in ["a", "", "/a\0b", "/a\nb", "/a\u{7f}"] {
            let refused = check_cwd(cwd).unwrap_err();
            assert!(matches!(refused, EngineError::InvalidState { .. }), "{cwd:?}");
            assert!(!refused.to_string().contains(char::is_control), "{refused}");
        }
    }

    #[test]
    fn a_session_is_named_after_the_first_line_of_its_prompt() {
        assert_eq!(name(Some(" a "), Some("b")), "a");
        assert_eq!(name(Some(" "), Some("\n  fix it \nplease")), "fix it");
        assert_eq!(name(None, Some(&"é".repeat(100))), "é".repeat(80));
        assert_eq!(name(None, None), "New session");
    }
}
