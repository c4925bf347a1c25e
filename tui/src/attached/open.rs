//! Owns how an attached client comes to its session and to where that stands. Changes nothing there.
//! Tested in `tui/tests/it/attached.rs`.

use gent_client::{Connector, Link};
use gent_protocol::{GetSession, GetSnapshot, SessionId, SessionSnapshot};

use super::AttachRequest;
use crate::open::{first_branch, link_error};
use crate::outcome::RunError;

/// Where the branch stands: the one that was asked for, else the one that is shown first.
pub(super) async fn look<C: Connector>(
    link: &mut Link<C>,
    request: &AttachRequest,
) -> Result<SessionSnapshot, RunError> {
    let session_id = request.session_id.clone();
    let found = link.call(&GetSession { session_id: session_id.clone() }).await.map_err(link_error)?;
    let Some(session) = found else { return Err(not_there(link, &session_id).await) };
    let branch_id = match request.branch_id.clone().or(session.active_branch_id) {
        Some(branch_id) => branch_id,
        None => first_branch(link, &session_id).await?,
    };
    link.call(&GetSnapshot { session_id, branch_id, before: None }).await.map_err(link_error)
}

/// Why a session is not there. Asking for its branches is refused with the directory it belongs to.
async fn not_there<C: Connector>(link: &mut Link<C>, session_id: &SessionId) -> RunError {
    match first_branch(link, session_id).await {
        Err(error) => error,
        // It came to be between the two questions.
        Ok(_) => RunError::new("NotFoundError", format!("session {session_id} was not there: attach again")),
    }
}
