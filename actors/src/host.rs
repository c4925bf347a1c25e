//! Owns what extensions may do to branches, in the engine's words: each message is stamped with its extension, each stop
//! with the branch that asked. Never has a power that the wire lacks. Tested in `actors/tests/it/`.

use std::sync::Arc;

use futures_util::FutureExt;
use gent_extension_api::{
    BranchTarget, FollowUp, ResidentHold, SOURCE_ID_CHARS, SessionError, SessionResult, SessionVerbs,
    SteerMessage, TurnMessage,
};
use gent_protocol::{
    ExtensionId, Message, MessageId, MessageKind, MessageMetadata, RequestId, client_message_id,
    follow_up_message_id, interjection_message_id,
};
use gent_storage::{QueueSender, SessionRow};

use crate::branch::{BranchKey, Hold, HoldCounter, Interjection, StopOrder, Submission, SubmitKind};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::services::Services;

/// The verbs of one extension in one context.
pub(crate) struct HostVerbs {
    pub(crate) services: Arc<Services>,
    /// The context's own branch.
    pub(crate) key: BranchKey,
    pub(crate) extension: ExtensionId,
    pub(crate) holds: HoldCounter,
}

struct Held {
    _hold: Hold,
}

impl ResidentHold for Held {}

impl HostVerbs {
    fn engine(&self) -> Result<Engine, SessionError> {
        self.services.engine().ok_or(SessionError::Stale)
    }

    /// The branch that is meant, of this workspace.
    async fn target(
        &self,
        engine: &Engine,
        to: Option<BranchTarget>,
    ) -> Result<(BranchKey, SessionRow), SessionError> {
        let (session, branch) = match to {
            Some(to) => (to.session_id, to.branch_id),
            None => (self.key.session.clone(), self.key.branch.clone()),
        };
        engine.branch_of(&self.key.workspace, &session, &branch).await.map_err(refused)
    }

    /// A message in this extension's name. What only the runtime may say of a message is not taken from it.
    fn message(
        &self,
        engine: &Engine,
        key: &BranchKey,
        id: MessageId,
        text: String,
        custom_type: Option<String>,
    ) -> Message {
        let stamp = MessageMetadata { custom_type, ..MessageMetadata::default() };
        let custom_type = if stamp.runtime_type().is_some() { None } else { stamp.custom_type };
        let mut message = engine.client_message(key, id, text);
        message.metadata = Some(MessageMetadata {
            custom_type,
            extension_id: Some(self.extension.clone()),
            ..MessageMetadata::default()
        });
        message
    }

    fn sender(&self) -> QueueSender {
        QueueSender { session_id: self.key.session.clone(), branch_id: self.key.branch.clone() }
    }

    async fn stop_what(
        &self,
        to: Option<BranchTarget>,
        message: Option<MessageId>,
    ) -> Result<bool, SessionError> {
        let engine = self.engine()?;
        let (key, _) = self.target(&engine, to).await?;
        let request = request(&self.services.env.new_id())?;
        let order = StopOrder { request, message, requester: Some(self.sender()) };
        engine.stop_turn(&key, order).await.map_err(refused)
    }
}

impl SessionVerbs for HostVerbs {
    fn follow_up<'a>(&'a self, to: Option<BranchTarget>, said: FollowUp) -> SessionResult<'a, MessageId> {
        async move {
            let chars = said.source_id.chars().count();
            if chars == 0 || chars > SOURCE_ID_CHARS {
                let message =
                    format!("a source id has 1 to {SOURCE_ID_CHARS} characters, this one has {chars}");
                return Err(SessionError::Failed { message });
            }
            let engine = self.engine()?;
            let (key, _) = self.target(&engine, to).await?;
            let id = follow_up_message_id(&key.workspace, &key.session, &key.branch, &said.source_id);
            let mut message = self.message(&engine, &key, id.clone(), said.content, said.custom_type);
            message.metadata.get_or_insert_default().hidden = said.hidden;
            let submission = Submission {
                message,
                kind: SubmitKind::FollowUp { wake: said.wake },
                sender: Some(self.sender()),
                approval: None,
            };
            engine.submit(&key, None, submission, false).await.map_err(refused)?;
            Ok(id)
        }
        .boxed()
    }

    fn dequeue_follow_up<'a>(
        &'a self,
        to: Option<BranchTarget>,
        message: MessageId,
    ) -> SessionResult<'a, bool> {
        async move {
            let engine = self.engine()?;
            let (key, _) = self.target(&engine, to).await?;
            engine.dequeue(&key, message).await.map_err(refused)
        }
        .boxed()
    }

    fn turn<'a>(&'a self, to: BranchTarget, said: TurnMessage) -> SessionResult<'a, MessageId> {
        async move {
            let engine = self.engine()?;
            let (key, row) = self.target(&engine, Some(to)).await?;
            if key == self.key {
                let message = "it is the branch that asks; queue a follow-up instead".to_owned();
                return Err(SessionError::WouldWait { message });
            }
            let is_spawned_here = row.session.parent_session_id.as_ref() == Some(&self.key.session);
            if said.wait && !is_spawned_here {
                let message = "only a session that this one spawned can be waited for".to_owned();
                return Err(SessionError::WouldWait { message });
            }
            let id = client_message_id(&request(&said.request_id)?);
            let message = self.message(&engine, &key, id.clone(), said.content, None);
            let sender = Some(self.sender());
            let submission = Submission { message, kind: SubmitKind::Prompt, sender, approval: None };
            engine.submit(&key, None, submission, said.wait).await.map_err(refused)?;
            Ok(id)
        }
        .boxed()
    }

    fn steer<'a>(&'a self, to: Option<BranchTarget>, said: SteerMessage) -> SessionResult<'a, MessageId> {
        async move {
            let engine = self.engine()?;
            let (key, _) = self.target(&engine, to).await?;
            let request = request(&said.request_id)?;
            let id = interjection_message_id(&request);
            let mut message = self.message(&engine, &key, id.clone(), said.content, said.custom_type);
            message.kind = MessageKind::Interjection;
            let interjection =
                Interjection { request, message, sender: Some(self.sender()), wake: said.wake };
            engine.interject(&key, interjection).await.map_err(refused)?;
            Ok(id)
        }
        .boxed()
    }

    fn stop<'a>(&'a self, to: Option<BranchTarget>) -> SessionResult<'a, ()> {
        async move { self.stop_what(to, None).await.map(|_reached| ()) }.boxed()
    }

    fn stop_message<'a>(&'a self, to: Option<BranchTarget>, message: MessageId) -> SessionResult<'a, bool> {
        self.stop_what(to, Some(message)).boxed()
    }

    fn hold_resident(&self) -> Box<dyn ResidentHold> {
        Box::new(Held { _hold: self.holds.hold() })
    }
}

fn request(id: &str) -> Result<RequestId, SessionError> {
    RequestId::parse(id).map_err(|error| SessionError::Failed { message: error.to_string() })
}

fn refused(error: EngineError) -> SessionError {
    match error {
        EngineError::LimitExceeded { limit: "followUps", max, .. } => SessionError::FollowUpQueueFull { max },
        other => SessionError::Failed { message: other.to_string() },
    }
}
