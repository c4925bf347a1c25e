//! Owns the script of the crash matrix: everything a client does, each command under a request id of its own. Run again
//! it repeats every command and waits for what is not there yet, so the same script is what a client does after a
//! restart. Never judges.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use gent_client::CallError;
use gent_e2e::harness::{Gent, OpenSession, eventually, within};
use gent_e2e::scripted::ScriptedServer;
use gent_protocol::{
    ActorState, AgentEvent, Approval, CreateSession, Done, EventEnvelope, InteractionRequestId, MessageId,
    QuestionDecision, RequestId, RespondInteraction, RuntimeState, SteerCommand, SteerParams,
    client_message_id, interjection_message_id,
};
use tokio::task::JoinHandle;

use crate::model::{FIRST, GATE, NEXT, RAN, SECOND, STEER};

type Call = JoinHandle<Result<Done, CallError>>;

/// The request ids.
fn request(name: &str) -> Result<RequestId> {
    Ok(RequestId::parse(format!("matrix-{name}"))?)
}

/// The opening message of a prompt.
pub(crate) fn opening(prompt: &str) -> Result<MessageId> {
    Ok(client_message_id(&request(prompt)?))
}

/// The message of the steer.
pub(crate) fn steer_message() -> Result<MessageId> {
    Ok(interjection_message_id(&request(STEER)?))
}

/// What the client knows: what it saw, and which commands it got an answer to.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) session: Option<Arc<OpenSession>>,
    /// The second prompt was seen to be admitted.
    pub(crate) second: bool,
    pub(crate) steer: bool,
    pub(crate) answer: bool,
    pub(crate) cancel: bool,
    /// Who wrote while it looked.
    pub(crate) epochs: Vec<i64>,
}

fn create(gent: &Gent) -> Result<CreateSession> {
    Ok(CreateSession {
        approval: Some(Approval::Ask),
        request_id: Some(request("create")?),
        ..gent.create()?
    })
}

fn send(gent: &Gent, session: &OpenSession, prompt: &str) -> Result<Call> {
    let mut params = session.prompt(prompt, Some(request(prompt)?));
    if prompt == FIRST {
        let marker = gent.place().root().display().to_string();
        params.env = BTreeMap::from([("GENT_TEST_MARK".to_owned(), marker)]);
    }
    let client = session.client.clone();
    Ok(tokio::spawn(async move { client.call(params).await }))
}

async fn reply(call: Call) -> Result<()> {
    within("the reply to a prompt", async { Ok(call.await??) }).await.map(drop)
}

async fn steer(session: &OpenSession) -> Result<()> {
    let command = SteerCommand::Interject {
        session_id: session.id.clone(),
        branch_id: session.branch.clone(),
        request_id: request(STEER)?,
        message: STEER.to_owned(),
        metadata: None,
        wake: true,
    };
    Ok(session.client.call(SteerParams { command }).await.map(drop)?)
}

async fn cancel(session: &OpenSession) -> Result<()> {
    let command = SteerCommand::Cancel {
        session_id: session.id.clone(),
        branch_id: session.branch.clone(),
        request_id: request("cancel")?,
        message_id: Some(opening(SECOND)?),
    };
    Ok(session.client.call(SteerParams { command }).await.map(drop)?)
}

async fn answer(session: &OpenSession, question: &InteractionRequestId) -> Result<()> {
    let respond = RespondInteraction {
        request_id: question.clone(),
        session_id: session.id.clone(),
        branch_id: session.branch.clone(),
        decision: QuestionDecision { approved: true, notes: None, edited_content: None },
    };
    Ok(session.client.call(respond).await.map(drop)?)
}

fn question(events: &[EventEnvelope]) -> Option<InteractionRequestId> {
    events.iter().find_map(|envelope| match &envelope.event {
        AgentEvent::InteractionPresented { request_id, .. } => Some(request_id.clone()),
        _ => None,
    })
}

/// The turn has come so far that it streamed this step, or is over.
fn has_streamed(events: &[EventEnvelope], turn: &MessageId, step: u32) -> bool {
    events.iter().any(|envelope| match &envelope.event {
        AgentEvent::StreamChunk { message_id, step: at, .. } => message_id == turn && *at >= step,
        AgentEvent::StreamEnded { message_id, step: at, .. } => message_id == turn && *at >= step,
        AgentEvent::TurnCompleted { message_id, .. } => message_id == turn,
        _ => false,
    })
}

/// The question was answered, or the turn is over without it.
fn is_past_question(events: &[EventEnvelope], turn: &MessageId) -> bool {
    events.iter().any(|envelope| match &envelope.event {
        AgentEvent::InteractionResolved { .. } => true,
        AgentEvent::TurnCompleted { message_id, .. } => message_id == turn,
        _ => false,
    })
}

/// The steer has joined a turn, or its own turn is over.
fn is_heard(events: &[EventEnvelope]) -> bool {
    let Ok(steer) = steer_message() else { return false };
    events.iter().any(|envelope| match &envelope.event {
        AgentEvent::MessageReceived { message } if message.id == steer => {
            message.metadata.as_ref().is_some_and(|facts| facts.joined_turn)
        }
        AgentEvent::TurnCompleted { message_id, .. } => *message_id == steer,
        _ => false,
    })
}

/// Does everything there is to do, or what is left of it.
pub(crate) async fn drive(gent: &Gent, model: &ScriptedServer, known: &mut Known) -> Result<()> {
    let (first, second) = (opening(FIRST)?, opening(SECOND)?);
    let client = gent.client().await?;
    let created = client.call(create(gent)?).await?;
    let session = OpenSession::attach(client, created.session_id, created.branch_id).await?;
    let session = Arc::new(session);
    known.session = Some(Arc::clone(&session));

    let sent_first = send(gent, &session, FIRST)?;
    let begun = |events: &[EventEnvelope]| has_streamed(events, &first, 1).then_some(());
    session.events.wait("the first text", begun).await?;
    model.gate(GATE).open();
    eventually("the first turn to wait for its answer", async || {
        let waits = matches!(session.snapshot().await?.runtime, RuntimeState::WaitingForInteraction { .. });
        Ok((waits || is_past_question(&session.events.events(), &first)).then_some(()))
    })
    .await?;
    look(gent, known).await?;

    let sent_second = send(gent, &session, SECOND)?;
    eventually("the second prompt to be admitted", async || {
        let is_there = session.messages().await?.iter().any(|message| message.id == second);
        Ok((is_there || is_queued(&session, &second).await?).then_some(()))
    })
    .await?;
    known.second = true;
    steer(&session).await?;
    known.steer = true;
    if let Some(question) = question(&session.events.events()) {
        answer(&session, &question).await?;
        known.answer = true;
    }
    session.turn(&first).await?;

    eventually("the second turn to run its call", async || {
        let runs = gent.place().read(RAN).contains("c3");
        Ok((runs || has_streamed(&session.events.events(), &second, 2)).then_some(()))
    })
    .await?;
    cancel(&session).await?;
    known.cancel = true;
    session.turn(&second).await?;
    reply(sent_first).await?;
    reply(sent_second).await?;
    session.events.wait("the steer to be heard", |events| is_heard(events).then_some(())).await?;
    // The branch has done what follows a turn once it answers again.
    cancel(&session).await?;
    look(gent, known).await
}

/// Notes who may write the branch now; one that still opens may not.
async fn look(gent: &Gent, known: &mut Known) -> Result<()> {
    let rows = gent.actors().await?;
    let open = rows.iter().filter(|row| row.state != ActorState::Opening);
    known.epochs.extend(open.map(|row| row.epoch));
    Ok(())
}

async fn is_queued(session: &OpenSession, message: &MessageId) -> Result<bool> {
    let ask = gent_protocol::GetQueue { session_id: session.id.clone(), branch_id: session.branch.clone() };
    let waiting = session.client.call(ask).await?.follow_up;
    Ok(waiting.iter().any(|entry| match entry {
        gent_protocol::QueueEntry::FollowUp { id, .. } | gent_protocol::QueueEntry::Steering { id, .. } => {
            id == message
        }
    }))
}

/// Repeats every command of a script that is done: each is answered as before, and nothing comes of it.
pub(crate) async fn repeat(gent: &Gent, session: &OpenSession) -> Result<()> {
    let before = session.snapshot().await?;
    let created = session.client.call(create(gent)?).await?;
    ensure!(
        (created.session_id, created.branch_id) == (session.id.clone(), session.branch.clone()),
        "another session"
    );
    for prompt in [FIRST, SECOND] {
        reply(send(gent, session, prompt)?).await.with_context(|| format!("{prompt} again"))?;
    }
    steer(session).await.context("the steer again")?;
    if let Some(question) = question(&session.events.events()) {
        answer(session, &question).await.context("the answer again")?;
    }
    cancel(session).await.context("the cancel again")?;
    let after = session.snapshot().await?;
    let made = session.events.events().into_iter().filter(|envelope| envelope.id > before.last_event_id);
    let made: Vec<EventEnvelope> = made.collect();
    ensure!(before.last_event_id == after.last_event_id, "a repeat made events: {made:?}");
    ensure!(before.messages == after.messages, "a repeat made messages");
    Ok(())
}

/// Sends one more prompt and waits for its answer.
pub(crate) async fn next(gent: &Gent, session: &OpenSession) -> Result<()> {
    let sent = send(gent, session, NEXT)?;
    let turn = session.turn(&opening(NEXT)?).await?;
    reply(sent).await?;
    ensure!(turn.answer() == "done", "the next prompt: {}", turn.trace());
    Ok(())
}
