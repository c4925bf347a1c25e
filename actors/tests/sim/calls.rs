//! Owns what clients ask of the engine: each call with when it was made, when it ended and what came of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gent_actors::{Engine, EngineError};
use gent_protocol::{
    CreatedSession, DrainQueue, EventSeq, InteractionRequestId, MessageId, QuestionDecision, QueueEntry,
    RequestId, RespondInteraction, SendMessage, SteerCommand, WorkspaceId, client_message_id,
    interjection_message_id,
};

use crate::world::{World, last};

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Send { request: Option<String>, say: String },
    Steer { request: String, say: String, wake: bool },
    Stop { request: String, message: Option<String> },
    Drain { request: String },
    Answer { question: InteractionRequestId, approved: bool, notes: String },
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// What was taken out of the queue.
    Drained(Vec<(MessageId, String)>),
    /// It was refused, and nothing was changed.
    Refused(String),
    /// The turn failed, or its message was taken back.
    Turn(String),
    /// The question has another answer.
    Conflict,
    /// The question is not the one that waits.
    Mismatch,
    /// Nobody knows: the engine went away, or a write failed.
    Unknown(String),
}

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) branch: usize,
    pub(crate) what: What,
    /// The order in which things happened.
    pub(crate) began: usize,
    pub(crate) ended: Option<Ended>,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) at: usize,
    pub(crate) outcome: Outcome,
    /// The session's newest event then; none when the store was closed.
    pub(crate) last: Option<EventSeq>,
}

impl Call {
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.ended.as_ref().map(|ended| &ended.outcome)
    }

    /// It was acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.outcome(), Some(Outcome::Done | Outcome::Drained(_)))
    }

    /// The message that it is about, where its id is known before.
    pub(crate) fn message(&self) -> Option<MessageId> {
        match &self.what {
            What::Send { request, .. } => request.as_deref().map(|text| client_message_id(&id(text))),
            What::Steer { request, .. } => Some(interjection_message_id(&id(request))),
            What::Stop { .. } | What::Drain { .. } | What::Answer { .. } => None,
        }
    }
}

fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

/// All calls of a run.
#[derive(Clone, Default)]
pub(crate) struct Calls {
    all: Rc<RefCell<Vec<Call>>>,
    ticks: Rc<Cell<usize>>,
}

impl Calls {
    pub(crate) fn all(&self) -> Vec<Call> {
        self.all.borrow().clone()
    }

    /// Calls that have not ended.
    pub(crate) fn open(&self) -> Vec<Call> {
        self.all.borrow().iter().filter(|call| call.ended.is_none()).cloned().collect()
    }

    fn tick(&self) -> usize {
        self.ticks.set(self.ticks.get() + 1);
        self.ticks.get()
    }

    /// Makes a call and does not wait for its end.
    pub(crate) fn make(&self, world: &World, branch: usize, what: What) -> tokio::task::JoinHandle<()> {
        let place = self.all.borrow().len();
        let began = self.tick();
        self.all.borrow_mut().push(Call { branch, what: what.clone(), began, ended: None });
        let (calls, session) = (self.clone(), world.branches[branch].clone());
        let (engine, store, workspace) = (world.engine.clone(), world.store.clone(), world.workspace.clone());
        tokio::task::spawn_local(async move {
            let outcome = ask(&engine, &workspace, &session, what).await;
            let ended = Ended { at: calls.tick(), outcome, last: last(&store, &session) };
            calls.all.borrow_mut()[place].ended = Some(ended);
        })
    }

    /// Makes a call and waits for its end.
    pub(crate) async fn made(&self, world: &World, branch: usize, what: What) -> Outcome {
        let place = self.all.borrow().len();
        self.make(world, branch, what).await.unwrap();
        self.all.borrow()[place].outcome().cloned().unwrap()
    }
}

async fn ask(engine: &Engine, workspace: &WorkspaceId, of: &CreatedSession, what: What) -> Outcome {
    let (session_id, branch_id) = (of.session_id.clone(), of.branch_id.clone());
    let done = match what {
        What::Send { request, say } => {
            let send = SendMessage {
                session_id,
                branch_id,
                content: say,
                request_id: request.as_deref().map(id),
                approval: None,
                env: Default::default(),
            };
            engine.message_send(workspace, send).await
        }
        What::Steer { request, say, wake } => {
            let (request_id, message, metadata) = (id(&request), say, None);
            let steer =
                SteerCommand::Interject { session_id, branch_id, request_id, message, metadata, wake };
            engine.steer(workspace, steer).await
        }
        What::Stop { request, message } => {
            let message_id = message.map(|text| MessageId::parse(text).unwrap());
            let stop = SteerCommand::Cancel { session_id, branch_id, request_id: id(&request), message_id };
            engine.steer(workspace, stop).await
        }
        What::Drain { request } => {
            let drain = DrainQueue { session_id, branch_id, request_id: id(&request) };
            match engine.queue_drain(workspace, drain).await {
                Ok(taken) => {
                    let entries = taken.steering.into_iter().chain(taken.follow_up);
                    return Outcome::Drained(entries.map(entry).collect());
                }
                Err(error) => Err(error),
            }
        }
        What::Answer { question, approved, notes } => {
            let decision = QuestionDecision { approved, notes: Some(notes), edited_content: None };
            let answer = RespondInteraction { request_id: question, session_id, branch_id, decision };
            engine.respond(workspace, answer).await
        }
    };
    match done {
        Ok(()) => Outcome::Done,
        Err(error) => outcome(&error),
    }
}

fn entry(entry: QueueEntry) -> (MessageId, String) {
    match entry {
        QueueEntry::Steering { id, content, .. } | QueueEntry::FollowUp { id, content, .. } => (id, content),
    }
}

fn outcome(error: &EngineError) -> Outcome {
    let words = error.chain();
    match error {
        EngineError::LimitExceeded { .. } => Outcome::Refused(words),
        EngineError::Turn { .. } => Outcome::Turn(words),
        EngineError::QuestionConflict { .. } => Outcome::Conflict,
        EngineError::QuestionMismatch { .. } => Outcome::Mismatch,
        _ => Outcome::Unknown(words),
    }
}
