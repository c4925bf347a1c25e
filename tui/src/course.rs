//! Owns what a run sends about its turn, the same over every connection, and the end of a session that it made in vain.
//! Never sends the prompt itself. Tested through `run`.

use std::time::Duration;

use gent_client::Client;
use gent_protocol::{
    Approval, DeleteSession, GetSnapshot, MessageId, SendMessage, SteerCommand, client_message_id,
};
use tokio::time::timeout;

use crate::asking::Asking;
use crate::open::Opened;
use crate::request::{Grant, RunRequest, SessionChoice};
use crate::turn::Turn;

/// How long a run whose prompt was refused waits for its empty session to be gone.
const DISCARD: Duration = Duration::from_secs(2);

/// The turn of a run, what it is asked, and its connection.
pub(crate) struct Course {
    pub(crate) turn: Turn,
    pub(crate) message_id: MessageId,
    pub(crate) send: SendMessage,
    pub(crate) cancel: SteerCommand,
    pub(crate) snapshot: GetSnapshot,
    pub(crate) asking: Asking,
    pub(crate) client: Option<Client>,
    pub(crate) connection: u32,
}

impl Course {
    pub(crate) fn new(request: &RunRequest, opened: &Opened) -> Self {
        let (session_id, branch_id) = (opened.session_id.clone(), opened.branch_id.clone());
        let message_id = client_message_id(&request.ids.send);
        let is_new = matches!(request.session, SessionChoice::New { .. });
        Self {
            turn: Turn::new(message_id.clone(), branch_id.clone()),
            message_id: message_id.clone(),
            send: SendMessage {
                session_id: session_id.clone(),
                branch_id: branch_id.clone(),
                content: request.prompt.clone(),
                request_id: Some(request.ids.send.clone()),
                // A new session was made with its own.
                approval: match request.grant {
                    Grant::Session if !is_new => Some(Approval::Approve),
                    Grant::Session | Grant::Nothing => None,
                },
                env: if is_new { Default::default() } else { request.env.clone() },
            },
            cancel: SteerCommand::Cancel {
                session_id: session_id.clone(),
                branch_id: branch_id.clone(),
                request_id: request.ids.cancel.clone(),
                message_id: Some(message_id),
            },
            asking: Asking::new(session_id.clone(), branch_id.clone(), &request.cwd),
            snapshot: GetSnapshot { session_id, branch_id, before: None },
            client: None,
            connection: 0,
        }
    }
    /// Deletes the session, where this run made it and its prompt was refused: nothing is in it. Only on the first
    /// connection, where nothing else can have become of an earlier try. True when it is gone.
    pub(crate) async fn discard(&self, request: &RunRequest) -> bool {
        let is_new = matches!(request.session, SessionChoice::New { .. });
        let Some(client) = self.client.as_ref().filter(|_| is_new && self.connection == 1) else {
            return false;
        };
        let delete = DeleteSession { session_id: self.send.session_id.clone() };
        matches!(timeout(DISCARD, client.call(delete)).await, Ok(Ok(_done)))
    }
}
