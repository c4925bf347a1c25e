//! Owns how a run comes to its session and to the place in the session's events where it begins.
//! Every call may be repeated: the session is made under the run's own request id.
//! Tested in `tui/tests/it`.

use gent_client::{CallError, Connector, FollowError, FollowFrom, Link, LinkError};
use gent_protocol::{
    Approval, BranchId, CreateSession, EventSeq, GetSession, GetSnapshot, ListBranches, ListSessions,
    PageParams, RpcError, Session, SessionAdmission, SessionId, SessionSnapshot, UpdateSettings,
};

use crate::outcome::RunError;
use crate::request::{Grant, RunRequest, SessionChoice};

/// Characters of a session's name that is taken from its first prompt.
const NAME_CHARS: usize = 80;

/// Sessions asked for at once while the newest top-level one is looked for.
const PAGE: u32 = 20;

/// Where a run begins.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session_id: SessionId,
    pub(crate) branch_id: BranchId,
    pub(crate) from: FollowFrom,
    /// What is known of an older session.
    pub(crate) snapshot: Option<Box<SessionSnapshot>>,
}

/// Makes or finds the session.
pub(crate) async fn open<C: Connector>(link: &mut Link<C>, request: &RunRequest) -> Result<Opened, RunError> {
    let session_id = match &request.session {
        SessionChoice::New { agent } => return create(link, request, agent.as_ref()).await,
        SessionChoice::Existing(session_id) => session_id.clone(),
        SessionChoice::Newest => newest(link, request).await?,
    };
    resume(link, request, session_id).await
}

async fn create<C: Connector>(
    link: &mut Link<C>,
    request: &RunRequest,
    agent: Option<&gent_protocol::AgentName>,
) -> Result<Opened, RunError> {
    let params = CreateSession {
        name: name_of(&request.prompt),
        cwd: Some(request.cwd.clone()),
        admission: agent.map(|agent| SessionAdmission { agent: Some(agent.clone()) }),
        model_id: request.model.clone(),
        approval: (request.grant == Grant::Session).then_some(Approval::Approve),
        env: request.env.clone(),
        request_id: Some(request.ids.create.clone()),
        ..CreateSession::default()
    };
    let created = link.call(&params).await.map_err(link_error)?;
    let from = FollowFrom {
        session_id: created.session_id.clone(),
        branch_id: Some(created.branch_id.clone()),
        after: Some(EventSeq(0)),
        store: None,
    };
    Ok(Opened { session_id: created.session_id, branch_id: created.branch_id, from, snapshot: None })
}

async fn resume<C: Connector>(
    link: &mut Link<C>,
    request: &RunRequest,
    session_id: SessionId,
) -> Result<Opened, RunError> {
    let found = link.call(&GetSession { session_id: session_id.clone() }).await.map_err(link_error)?;
    let Some(session) = found else { return Err(not_found(link, request, &session_id).await) };
    if let Some(model) = &request.model {
        let params = UpdateSettings {
            session_id: session_id.clone(),
            model_id: Some(Some(model.clone())),
            reasoning_level: None,
        };
        link.call(&params).await.map_err(link_error)?;
    }
    let branch_id = match session.active_branch_id {
        Some(branch_id) => branch_id,
        None => first_branch(link, &session_id).await?,
    };
    let params = GetSnapshot { session_id: session_id.clone(), branch_id: branch_id.clone(), before: None };
    let snapshot = link.call(&params).await.map_err(link_error)?;
    let from = FollowFrom {
        session_id: session_id.clone(),
        branch_id: Some(branch_id.clone()),
        after: Some(snapshot.last_event_id),
        store: Some(snapshot.store.clone()),
    };
    Ok(Opened { session_id, branch_id, from, snapshot: Some(Box::new(snapshot)) })
}

async fn newest<C: Connector>(link: &mut Link<C>, request: &RunRequest) -> Result<SessionId, RunError> {
    let mut cursor = None;
    loop {
        let params = ListSessions { page: PageParams { limit: Some(PAGE), cursor } };
        let page = link.call(&params).await.map_err(link_error)?;
        let is_top = |session: &&Session| session.parent_session_id.is_none();
        if let Some(session) = page.items.iter().find(is_top) {
            return Ok(session.id.clone());
        }
        cursor = page.next;
        if cursor.is_none() {
            let cwd = &request.cwd;
            let message = format!("there is no session of {cwd} to continue: start one without --continue");
            return Err(RunError::new("NotFoundError", message));
        }
    }
}

pub(crate) async fn first_branch<C: Connector>(
    link: &mut Link<C>,
    session_id: &SessionId,
) -> Result<BranchId, RunError> {
    let page = PageParams { limit: Some(1), cursor: None };
    let params = ListBranches { session_id: session_id.clone(), page };
    let branches = link.call(&params).await.map_err(link_error)?;
    let first = branches.items.into_iter().next().map(|branch| branch.id);
    first.ok_or_else(|| RunError::new("NotFoundError", format!("session {session_id} has no branch")))
}

/// Why a session is not there. Asking for its branches is refused with the directory it belongs to.
async fn not_found<C: Connector>(
    link: &mut Link<C>,
    request: &RunRequest,
    session_id: &SessionId,
) -> RunError {
    if let Err(error) = first_branch(link, session_id).await {
        return error;
    }
    // It came to be between the two questions.
    let cwd = &request.cwd;
    let message = format!("there is no session {session_id} of {cwd}: `gent sessions` lists those there are");
    RunError::new("NotFoundError", message)
}

/// The first line of a prompt that has any text.
fn name_of(prompt: &str) -> Option<String> {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect())
}

/// A failure of the link, for the result object.
pub(crate) fn link_error(error: LinkError) -> RunError {
    RunError::of(link_tag(&error), &error)
}

fn link_tag(error: &LinkError) -> &'static str {
    match error {
        LinkError::Unreachable(_) | LinkError::Refused(_) => "ServerUnavailable",
        LinkError::GaveUp { .. } => "ServerLost",
        LinkError::Call(call) => call.tag(),
    }
}

/// A refusal of the server, for the result object.
pub(crate) fn call_error(error: &CallError) -> RunError {
    RunError::of(error.tag(), error)
}

/// The end of following a session, for the result object.
pub(crate) fn follow_error(error: FollowError, session_id: &SessionId) -> RunError {
    let tag = match &error {
        FollowError::Link(link) => link_tag(link),
        FollowError::CursorInvalid => "CursorInvalid",
        FollowError::Deleted => "Terminated",
        FollowError::Failed(error) => error.as_ref().map_or("EventStoreError", RpcError::tag),
        FollowError::Undecodable { .. } | FollowError::NoEnvelope => "ProtocolError",
    };
    let mut failure = RunError::of(tag, &error);
    failure.message = format!("{} (session {session_id})", failure.message);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_after_the_first_line_of_its_prompt() {
        assert_eq!(name_of("\n  Fix the build \nplease"), Some("Fix the build".into()));
        assert_eq!(name_of(&"é".repeat(100)), Some("é".repeat(80)));
        assert_eq!(name_of(" \n "), None);
    }
}
