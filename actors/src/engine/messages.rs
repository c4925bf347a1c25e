//! Owns sending and stopping: what a client orders of a branch.
//! Tested end to end (A8, A9, A13, C1, D7–D9, D12, D14, D22).

use gent_protocol::{
    DrainQueue, Message, MessageId, MessageKind, MessageMetadata, Part, QueueSnapshot, RespondInteraction,
    Role, SendMessage, SteerCommand, WorkspaceId, client_message_id, interjection_message_id,
};
use gent_storage::session_set_env;
use tokio::sync::OwnedMutexGuard;

use super::Engine;
use crate::branch::{
    Answer, BranchKey, Dequeue, DrainAll, Interject, Interjection, Lane, Stop, StopOrder, Submission, Submit,
    SubmitKind,
};
use crate::error::EngineError;
use crate::limits::{ANSWER_TEXT_BYTES, PROMPT_BYTES};
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
        let submission =
            Submission { message, kind: SubmitKind::Prompt, sender: None, approval: send.approval };
        self.submit(&key, Some(line), submission, send.request_id.is_some()).await
    }

    /// Admits a message; with `waits`, waits for its turn.
    pub(crate) async fn submit(
        &self,
        key: &BranchKey,
        line: Option<OwnedMutexGuard<()>>,
        submission: Submission,
        waits: bool,
    ) -> Result<(), EngineError> {
        let sent = self.order(key, Lane::Data, true, line, |permit| Submit {
            submission: submission.clone(),
            waits,
            permit,
        });
        match sent.await {
            Err(given_up @ EngineError::GivenUp { .. }) => {
                self.queue_given_up(key, submission).await?;
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
    pub(crate) fn client_message(&self, key: &BranchKey, id: MessageId, content: String) -> Message {
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

    /// Stops a turn, or says something to it. Returns when that is stored; its effect shows in the events.
    pub async fn steer(&self, workspace: &WorkspaceId, command: SteerCommand) -> Result<(), EngineError> {
        match command {
            SteerCommand::Cancel { session_id, branch_id, request_id, message_id } => {
                let (key, _) = self.branch_of(workspace, &session_id, &branch_id).await?;
                let order = StopOrder { request: request_id, message: message_id, requester: None };
                self.stop_turn(&key, order).await.map(|_reached| ())
            }
            SteerCommand::Interject { session_id, branch_id, request_id, message, metadata, wake } => {
                check_prompt(&message)?;
                let (key, _) = self.branch_of(workspace, &session_id, &branch_id).await?;
                let id = interjection_message_id(&request_id);
                let mut message = self.client_message(&key, id, message);
                message.kind = MessageKind::Interjection;
                // What only the server may say of a message is not taken from a client.
                let said = metadata.unwrap_or_default();
                message.metadata = Some(MessageMetadata {
                    from_client: true,
                    hidden: said.hidden,
                    details: said.details,
                    ..MessageMetadata::default()
                });
                let interjection = Interjection { request: request_id, message, sender: None, wake };
                self.interject(&key, interjection).await
            }
        }
    }

    /// Stops a turn. True once for each message that a stop reached.
    pub(crate) async fn stop_turn(&self, key: &BranchKey, order: StopOrder) -> Result<bool, EngineError> {
        match (self.open(key, false).await, &order.message) {
            (Err(EngineError::GivenUp { .. }), _) => return self.stop_given_up(key, order).await,
            // The latch names its turn: flipping it early cannot hit another one.
            (Ok(handle), Some(message)) => handle.flip_latch(message),
            (Ok(_) | Err(_), _) => {}
        }
        let ordered =
            self.order(key, Lane::Control, false, None, |permit| Stop { order: order.clone(), permit });
        match ordered.await {
            Err(EngineError::GivenUp { .. }) => self.stop_given_up(key, order).await,
            other => other,
        }
    }

    pub(crate) async fn interject(
        &self,
        key: &BranchKey,
        interjection: Interjection,
    ) -> Result<(), EngineError> {
        let ordered = self.order(key, Lane::Control, true, None, |permit| Interject {
            interjection: interjection.clone(),
            permit,
        });
        match ordered.await {
            Err(EngineError::GivenUp { .. }) => self.steer_given_up(key, interjection).await,
            other => other,
        }
    }

    /// Takes a waiting follow-up back.
    pub(crate) async fn dequeue(&self, key: &BranchKey, message: MessageId) -> Result<bool, EngineError> {
        let dequeued =
            self.order(key, Lane::Control, true, None, |permit| Dequeue { message: message.clone(), permit });
        dequeued.await
    }

    /// Answers a question. The first answer counts; the same one again is fine.
    pub async fn respond(
        &self,
        workspace: &WorkspaceId,
        answer: RespondInteraction,
    ) -> Result<(), EngineError> {
        let (key, _) = self.branch_of(workspace, &answer.session_id, &answer.branch_id).await?;
        let RespondInteraction { request_id: question, decision, .. } = answer;
        let texts = [&decision.notes, &decision.edited_content];
        let bytes: usize = texts.iter().map(|text| text.as_ref().map_or(0, String::len)).sum();
        if bytes > ANSWER_TEXT_BYTES {
            return Err(EngineError::LimitExceeded {
                limit: "answerTextBytes",
                max: u64::try_from(ANSWER_TEXT_BYTES).unwrap_or(u64::MAX),
                message: format!(
                    "the answer has {bytes} bytes of text, {ANSWER_TEXT_BYTES} are allowed: put the text in a file and \
                     name it"
                ),
            });
        }
        let ordered = self.order(&key, Lane::Control, true, None, |permit| Answer {
            question: question.clone(),
            decision: decision.clone(),
            permit,
        });
        match ordered.await {
            Err(EngineError::GivenUp { .. }) => self.answer_given_up(&key, question, decision).await,
            other => other,
        }
    }

    /// Takes everything that waits out of the queue; what runs goes on.
    pub async fn queue_drain(
        &self,
        workspace: &WorkspaceId,
        ask: DrainQueue,
    ) -> Result<QueueSnapshot, EngineError> {
        let (key, _) = self.branch_of(workspace, &ask.session_id, &ask.branch_id).await?;
        let request = ask.request_id;
        let ordered = self
            .order(&key, Lane::Control, false, None, |permit| DrainAll { request: request.clone(), permit });
        match ordered.await {
            Err(EngineError::GivenUp { .. }) => self.drain_given_up(&key, request).await,
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
