//! Owns sending and stopping: what a client orders of a branch.
//! Tested end to end (A8, A9, A13, C1, D7–D9, D12, D14, D22).

use gent_protocol::{
    Message, MessageId, MessageKind, MessageMetadata, Part, Role, SendMessage, SteerCommand, WorkspaceId,
    client_message_id,
};
use gent_storage::session_set_env;
use tokio::sync::OwnedMutexGuard;

use super::Engine;
use crate::branch::{BranchKey, CancelTurn, Lane, Submit};
use crate::error::EngineError;
use crate::limits::PROMPT_BYTES;
use crate::process::session_environment;

impl Engine {
    /// Sends a message. With a request id it returns when the message's turn has ended, and fails only when that
    /// turn could not be run; without one it returns when the message is stored. Dropping the future does not
    /// take the message back.
    pub async fn message_send(&self, workspace: &WorkspaceId, send: SendMessage) -> Result<(), EngineError> {
        check_prompt(&send.content)?;
        let key = BranchKey {
            workspace: workspace.clone(),
            session: send.session_id.clone(),
            branch: send.branch_id.clone(),
        };
        // Before anything else is awaited: messages reach the branch in the order in which they came.
        let line = self.services().lines.lock(key).await;
        let (key, _) = self.branch_of(workspace, &send.session_id, &send.branch_id).await?;
        let environment = session_environment(&send.env);
        if !environment.is_empty() {
            let session = send.session_id.clone();
            self.store()
                .write("session.setEnvironment", move |txn| session_set_env(txn, &session, &environment))
                .await?;
        }
        let id = match &send.request_id {
            Some(request) => client_message_id(request),
            None => self.new_message_id(),
        };
        let message = self.client_message(&key, id, send.content);
        self.submit(&key, Some(line), message, send.approval, send.request_id.is_some()).await
    }

    /// Admits a message; with `waits`, waits for its turn.
    pub(super) async fn submit(
        &self,
        key: &BranchKey,
        line: Option<OwnedMutexGuard<()>>,
        message: Message,
        approval: Option<gent_protocol::Approval>,
        waits: bool,
    ) -> Result<(), EngineError> {
        let sent = self.order(key, Lane::Data, true, line, |permit| Submit {
            message: message.clone(),
            approval,
            waits,
            permit,
        });
        match sent.await {
            Err(given_up @ EngineError::GivenUp { .. }) => {
                self.queue_given_up(key, message, approval).await?;
                // Whoever waits for its turn would wait for nothing.
                if waits { Err(given_up) } else { Ok(()) }
            }
            other => other,
        }
    }

    pub(super) fn new_message_id(&self) -> MessageId {
        #[expect(clippy::expect_used, reason = "ids of `Env` are short and printable")]
        MessageId::parse(self.services().env.new_id()).expect("a valid id")
    }

    /// A message as a client sends it.
    pub(super) fn client_message(&self, key: &BranchKey, id: MessageId, content: String) -> Message {
        Message {
            kind: MessageKind::Regular,
            id,
            session_id: key.session.clone(),
            branch_id: key.branch.clone(),
            role: Role::User,
            parts: vec![Part::text(content)],
            created_at: self.services().env.now(),
            turn_duration_ms: None,
            metadata: Some(MessageMetadata { from_client: true, ..MessageMetadata::default() }),
        }
    }

    /// Stops a turn. Returns when the stop is stored; its effect shows in the events.
    pub async fn steer(&self, workspace: &WorkspaceId, command: SteerCommand) -> Result<(), EngineError> {
        let SteerCommand::Cancel { session_id, branch_id, request_id, message_id } = command;
        let (key, _) = self.branch_of(workspace, &session_id, &branch_id).await?;
        match (self.open(&key, false).await, &message_id) {
            (Err(EngineError::GivenUp { .. }), _) => {
                return self.stop_given_up(&key, request_id, message_id).await;
            }
            // The latch names its turn: flipping it early cannot hit another one.
            (Ok(handle), Some(message)) => handle.flip_latch(message),
            (Ok(_) | Err(_), _) => {}
        }
        let ordered = self.order(&key, Lane::Control, false, None, |permit| CancelTurn {
            request: request_id.clone(),
            message: message_id.clone(),
            permit,
        });
        match ordered.await {
            Err(EngineError::GivenUp { .. }) => self.stop_given_up(&key, request_id, message_id).await,
            other => other,
        }
    }
}

/// Refuses a prompt that no model would take.
pub(super) fn check_prompt(content: &str) -> Result<(), EngineError> {
    if content.len() <= PROMPT_BYTES {
        return Ok(());
    }
    Err(EngineError::LimitExceeded {
        limit: "promptBytes",
        max: u64::try_from(PROMPT_BYTES).unwrap_or(u64::MAX),
        message: format!(
            "the prompt has {} bytes, {PROMPT_BYTES} are allowed: put the text in a file and name it",
            content.len()
        ),
    })
}
