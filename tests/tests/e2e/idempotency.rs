//! Owns the rows about request ids: a repeated command has its first outcome and no second effect.

use anyhow::Result;
use futures_util::future::try_join_all;
use gent_client::CallError;
use gent_e2e::harness::{Gent, OpenSession, RawSocket, Setup, Stop};
use gent_e2e::scripted::{Script, Scripted};
use gent_protocol::{
    AgentEvent, CreateSession, EventEnvelope, ListMessages, ListSessions, Message, PageParams, RequestId,
    Role, WorkspaceId, initial_prompt_message_id,
};
use serde_json::json;

use crate::world::open;

fn request(id: &str) -> Result<RequestId> {
    Ok(RequestId::parse(id)?)
}

fn prompts(messages: &[Message]) -> usize {
    messages.iter().filter(|message| message.role == Role::User).count()
}

async fn sessions(client: &gent_client::Client) -> Result<usize> {
    Ok(client.call(ListSessions { page: PageParams::default() }).await?.items.len())
}

fn create(gent: &Gent, id: &str, prompt: Option<&str>) -> Result<CreateSession> {
    let initial_prompt = prompt.map(str::to_owned);
    Ok(CreateSession { request_id: Some(request(id)?), initial_prompt, ..gent.create()? })
}

#[tokio::test]
async fn a_repeated_create_makes_one_session_and_runs_its_prompt_once_a1() -> Result<()> {
    let model = Scripted::new(Script::new().text("hello")).start().await?;
    let gent = Gent::start(&model).await?;
    let client = gent.client().await?;
    let first = client.call(create(&gent, "create", Some("hi"))?).await?;
    let session =
        OpenSession::attach(client.clone(), first.session_id.clone(), first.branch_id.clone()).await?;
    let prompt = initial_prompt_message_id(&request("create")?);
    session.turn(&prompt).await?;
    let before = session.snapshot().await?;
    assert_eq!(client.call(create(&gent, "create", Some("hi"))?).await?, first);
    let after = session.snapshot().await?;
    assert_eq!((after.last_event_id, after.messages), (before.last_event_id, before.messages));
    let next = session.ask("TEXT:1").await?;
    assert_eq!(session.ended_turns(), [prompt, next.message]);
    let is_start = |envelope: &EventEnvelope| matches!(envelope.event, AgentEvent::SessionStarted { .. });
    assert_eq!(session.events.events().iter().filter(|envelope| is_start(envelope)).count(), 1);
    assert_eq!(sessions(&client).await?, 1);
    assert_eq!(prompts(&session.messages().await?), 2);
    assert_eq!(model.requests().len(), 2);
    Ok(())
}

#[tokio::test]
async fn twenty_creates_at_once_with_one_request_id_make_one_session_a2() -> Result<()> {
    let (_model, gent, session) = open(Script::new()).await?;
    let params = create(&gent, "create", None)?;
    let all = try_join_all((0..20).map(|_| session.client.call(params.clone()))).await?;
    assert!(all.iter().all(|created| *created == all[0]));
    assert_eq!(sessions(&session.client).await?, 2);
    Ok(())
}

async fn create_and_kill_at(failpoint: &str) -> Result<usize> {
    let model = Scripted::new(Script::new()).start().await?;
    let setup = Setup::new(&model)?;
    let stop = Stop::at(setup.at(), failpoint)?;
    let gent = setup.stop(&stop).start().await?;
    let (client, params) = (gent.client().await?, create(&gent, "create", Some("TEXT:2"))?);
    let again = params.clone();
    let first = tokio::spawn(async move { client.call(params).await });
    stop.reached().await?;
    let gent = gent.restart().await?;
    assert!(matches!(first.await?, Err(CallError::Closed { .. })));
    let client = gent.client().await?;
    let created = client.call(again).await?;
    let session = OpenSession::attach(client.clone(), created.session_id, created.branch_id).await?;
    let prompt = initial_prompt_message_id(&request("create")?);
    session.turn(&prompt).await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    assert_eq!(prompts(&session.messages().await?), 1);
    sessions(&client).await
}

#[tokio::test]
async fn a_create_killed_before_its_reply_is_answered_from_what_was_stored_a3() -> Result<()> {
    assert_eq!(create_and_kill_at("store.after_commit:branch.admit").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_create_killed_before_its_prompt_was_sent_sends_it_on_the_retry_a4() -> Result<()> {
    assert_eq!(create_and_kill_at("store.after_commit:session.create").await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_same_request_id_in_another_workspace_is_another_request_a5() -> Result<()> {
    let (_model, gent, session) = open(Script::new()).await?;
    let other = gent.client_of(&WorkspaceId::for_directory(gent.place().root())).await?;
    let params = create(&gent, "create", None)?;
    let first = session.client.call(params.clone()).await?;
    let second = other.call(params).await?;
    assert_ne!(first.session_id, second.session_id);
    Ok(())
}

#[tokio::test]
async fn a_prompt_sent_again_after_its_turn_does_nothing_a8() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("once")).await?;
    let id = session.new_request()?;
    session.send_as("go", id.clone()).reply().await??;
    let before = session.snapshot().await?;
    session.send_as("go", id).reply().await??;
    let after = session.snapshot().await?;
    assert_eq!(after.last_event_id, before.last_event_id);
    assert_eq!(after.messages, before.messages);
    assert_eq!(model.requests().len(), 1);
    Ok(())
}

#[tokio::test]
async fn two_sends_at_once_with_one_request_id_are_one_turn_a9() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("once").stall("hold")).await?;
    let id = session.new_request()?;
    let first = session.send_as("go", id.clone());
    let second = session.send_as("go", id);
    model.gate("hold").reached(1).await?;
    assert!(!first.call.is_finished() && !second.call.is_finished());
    model.gate("hold").open();
    first.reply().await??;
    second.reply().await??;
    assert_eq!(prompts(&session.messages().await?), 1);
    assert_eq!(model.requests().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_request_id_of_129_characters_is_refused_and_nothing_is_stored_a13() -> Result<()> {
    let (_model, gent, session) = open(Script::new()).await?;
    let mut raw = RawSocket::open(&gent).await?;
    let params = json!({
        "sessionId": session.id, "branchId": session.branch, "content": "x", "requestId": "r".repeat(129),
    });
    let meta = json!({ "workspace": gent.place().workspace() });
    let answer = raw.call("message.send", params, meta).await?;
    assert_eq!(answer["error"]["data"]["tag"], "InvalidParams", "{answer}");
    let list = ListMessages { branch_id: session.branch.clone(), page: PageParams::default() };
    assert_eq!(session.client.call(list).await?.items, vec![]);
    Ok(())
}
