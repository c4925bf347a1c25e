//! Owns one session as a test uses it: prompts, cancels, snapshots, and the record of its events.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use gent_client::{CallError, Client};
use gent_protocol::{
    AgentEvent, BranchId, CreateSession, Done, EventSeq, GetQueue, GetSnapshot, Message, MessageId,
    QueueEntry, RequestId, SendMessage, SessionEvents, SessionId, SessionSnapshot, SteerCommand, SteerParams,
    client_message_id,
};
use tokio::task::JoinHandle;

use super::trace::Turn;
use super::{Gent, Recorder, eventually, within};

fn id_of(entry: QueueEntry) -> MessageId {
    match entry {
        QueueEntry::Steering { id, .. } | QueueEntry::FollowUp { id, .. } => id,
    }
}

/// Numbers the request ids of this process, so that a session attached twice never repeats one.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// A session on a connection.
pub struct OpenSession {
    /// The connection.
    pub client: Client,
    /// The session.
    pub id: SessionId,
    /// Its branch.
    pub branch: BranchId,
    /// What was seen of it.
    pub events: Recorder,
}

/// A prompt on its way.
pub struct Sent {
    /// Its request id.
    pub request: RequestId,
    /// Its message id.
    pub message: MessageId,
    /// The call, which returns when the turn has ended.
    pub call: JoinHandle<Result<Done, CallError>>,
}

impl Sent {
    /// Goes away without waiting: the call's connection has no user here any more.
    pub async fn abandon(self) {
        self.call.abort();
        // An error says that it was aborted.
        drop(self.call.await);
    }

    /// Waits for the call's own answer.
    pub async fn reply(self) -> Result<Result<Done, CallError>> {
        within("the reply to a prompt", async { Ok(self.call.await?) }).await
    }
}

impl OpenSession {
    /// Makes a session and records it from its first event.
    pub async fn create(client: Client, create: CreateSession) -> Result<Self> {
        let created = client.call(create).await?;
        Self::attach(client, created.session_id, created.branch_id).await
    }

    /// Attaches to a session that is there and records it from its first event.
    pub async fn attach(client: Client, id: SessionId, branch: BranchId) -> Result<Self> {
        let from = SessionEvents { session_id: id.clone(), branch_id: None, after: None, store: None };
        let events = Recorder::start(&client, from).await?;
        Ok(Self { client, id, branch, events })
    }

    /// The same session on a new connection to `gent`, recorded from its first event.
    pub async fn again(&self, gent: &Gent) -> Result<Self> {
        Self::attach(gent.client().await?, self.id.clone(), self.branch.clone()).await
    }

    /// A request id that nobody has used.
    pub fn new_request(&self) -> Result<RequestId> {
        let number = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(RequestId::parse(format!("{}-r{number}", self.id))?)
    }

    /// What is sent for a prompt.
    pub fn prompt(&self, text: &str, request: Option<RequestId>) -> SendMessage {
        SendMessage {
            session_id: self.id.clone(),
            branch_id: self.branch.clone(),
            content: text.to_owned(),
            request_id: request,
            approval: None,
            env: Default::default(),
        }
    }

    /// Sends a prompt and does not wait for its turn.
    pub fn send(&self, text: &str) -> Result<Sent> {
        Ok(self.send_as(text, self.new_request()?))
    }

    /// Sends a prompt under this request id.
    pub fn send_as(&self, text: &str, request: RequestId) -> Sent {
        let (client, params) = (self.client.clone(), self.prompt(text, Some(request.clone())));
        let call = tokio::spawn(async move { client.call(params).await });
        Sent { message: client_message_id(&request), request, call }
    }

    /// Sends a prompt, waits for its turn and for the call's answer.
    pub async fn ask(&self, text: &str) -> Result<Turn> {
        let sent = self.send(text)?;
        let turn = self.turn(&sent.message).await?;
        sent.reply().await??;
        Ok(turn)
    }

    /// Waits for the end of a turn and returns it.
    pub async fn turn(&self, message: &MessageId) -> Result<Turn> {
        self.events.turn_completed(message).await?;
        Ok(Turn::cut(message, &self.events.events()))
    }

    /// Waits until so many prompts wait in the branch's queue, and returns their messages, the next one first.
    pub async fn queued(&self, count: usize) -> Result<Vec<MessageId>> {
        let queue = GetQueue { session_id: self.id.clone(), branch_id: self.branch.clone() };
        eventually(&format!("{count} waiting prompts"), async || {
            let waiting = self.client.call(queue.clone()).await?.follow_up;
            let ids: Vec<MessageId> = waiting.into_iter().map(id_of).collect();
            Ok((ids.len() == count).then_some(ids))
        })
        .await
    }

    /// The messages whose turns have ended, in that order: one entry for each receipt that was seen.
    pub fn ended_turns(&self) -> Vec<MessageId> {
        let events = self.events.events().into_iter();
        let ended = events.filter_map(|envelope| match envelope.event {
            AgentEvent::TurnCompleted { message_id, .. } => Some(message_id),
            _ => None,
        });
        ended.collect()
    }

    /// How many receipts of this message's turn were seen.
    pub fn receipts(&self, message: &MessageId) -> usize {
        self.ended_turns().iter().filter(|ended| *ended == message).count()
    }

    /// Cancels whatever runs now.
    pub async fn cancel(&self) -> Result<()> {
        self.steer(None).await
    }

    /// Cancels the turn of this message, running or not.
    pub async fn cancel_message(&self, message: &MessageId) -> Result<()> {
        self.steer(Some(message.clone())).await
    }

    async fn steer(&self, message_id: Option<MessageId>) -> Result<()> {
        let command = SteerCommand::Cancel {
            session_id: self.id.clone(),
            branch_id: self.branch.clone(),
            request_id: self.new_request()?,
            message_id,
        };
        within("the answer to a cancel", async {
            self.client.call(SteerParams { command }).await?;
            Ok(())
        })
        .await
    }

    /// The session as it stands.
    pub async fn snapshot(&self) -> Result<SessionSnapshot> {
        let params =
            GetSnapshot { session_id: self.id.clone(), branch_id: self.branch.clone(), before: None };
        Ok(self.client.call(params).await?)
    }

    /// Its stored messages.
    pub async fn messages(&self) -> Result<Vec<Message>> {
        Ok(self.snapshot().await?.messages)
    }

    /// A second recording, from after this event, of this branch alone.
    pub async fn record_from(&self, after: Option<EventSeq>) -> Result<Recorder> {
        let from = SessionEvents {
            session_id: self.id.clone(),
            branch_id: Some(self.branch.clone()),
            after,
            store: None,
        };
        Recorder::start(&self.client, from).await
    }
}
