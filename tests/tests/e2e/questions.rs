//! Owns the rows about questions to a person: what is shown, who gets the answer, what survives.

use anyhow::{Context as _, Result};
use gent_e2e::harness::{Gent, OpenSession, Setup, Stop, eventually};
use gent_e2e::scripted::{Script, Scripted, ScriptedServer};
use gent_protocol::{
    AgentEvent, CreateSession, EventEnvelope, InteractionRequestId, OpenQuestion, QuestionDecision,
    RespondInteraction, RuntimeState,
};
use serde_json::{Value, json};

/// A model that follows the script, a server with it behind, and a new session that asks before it does anything.
pub(crate) async fn open_asking(script: Script) -> Result<(ScriptedServer, Gent, OpenSession)> {
    let model = Scripted::new(script).start().await?;
    let gent = Gent::start(&model).await?;
    let session = asking_session(&gent).await?;
    Ok((model, gent, session))
}

async fn asking_session(gent: &Gent) -> Result<OpenSession> {
    let create = CreateSession { approval: None, ..gent.create()? };
    OpenSession::create(gent.client().await?, create).await
}

/// A call that asks one question.
fn asks(question: &str) -> (&'static str, Value) {
    ("ask_user", json!({ "questions": [{ "question": question, "header": "Choice" }] }))
}

fn says(notes: &str) -> QuestionDecision {
    QuestionDecision { approved: true, notes: Some(notes.to_owned()), edited_content: None }
}

pub(crate) fn no() -> QuestionDecision {
    QuestionDecision { approved: false, notes: None, edited_content: None }
}

/// The ids of the questions that were shown, a repeat included.
fn presented(events: &[EventEnvelope]) -> Vec<InteractionRequestId> {
    let shown = events.iter().filter_map(|envelope| match &envelope.event {
        AgentEvent::InteractionPresented { request_id, .. } => Some(request_id.clone()),
        _ => None,
    });
    shown.collect()
}

/// Waits until so many questions were shown, and returns the one that the snapshot has then.
pub(crate) async fn question(session: &OpenSession, count: usize) -> Result<OpenQuestion> {
    let is_shown = |events: &[EventEnvelope]| (presented(events).len() >= count).then_some(());
    session.events.wait("a question", is_shown).await?;
    session.snapshot().await?.question.context("the snapshot shows no question")
}

/// Waits until nothing of the turn is left in memory: no event tells of it.
async fn parked(session: &OpenSession) -> Result<()> {
    eventually("the turn to wait for an answer", async || {
        let runtime = session.snapshot().await?.runtime;
        Ok(matches!(runtime, RuntimeState::WaitingForInteraction { .. }).then_some(()))
    })
    .await
}

pub(crate) async fn answer(
    session: &OpenSession,
    question: &OpenQuestion,
    decision: QuestionDecision,
) -> Result<()> {
    let respond = RespondInteraction {
        request_id: question.request_id.clone(),
        session_id: session.id.clone(),
        branch_id: session.branch.clone(),
        decision,
    };
    session.client.call(respond).await?;
    Ok(())
}

/// The results that the model was shown in this request.
async fn results(model: &ScriptedServer, request: usize) -> Result<Vec<Value>> {
    let shown = model.request(request).await?.tool_results();
    shown.iter().map(|result| Ok(serde_json::from_str(result)?)).collect()
}

#[tokio::test]
async fn a_question_is_shown_until_it_is_answered_and_the_model_gets_the_answer_f1() -> Result<()> {
    let script = Script::new().tools([asks("Which store?")]).text("as you wish");
    let (model, _gent, session) = open_asking(script).await?;
    let sent = session.send("build it")?;
    let shown = question(&session, 1).await?;
    assert_eq!(shown.question.text, "[Choice] Which store?");
    assert_eq!(shown.question.metadata.as_ref().unwrap()["type"], "ask-user");
    answer(&session, &shown, says(r#"[["SQLite"]]"#)).await?;
    session.turn(&sent.message).await?.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) InteractionPresented InteractionResolved TS(c1) TOK(c1) \
         MR(t1) MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    assert_eq!(results(&model, 2).await?, [json!({ "answers": [["SQLite"]] })]);
    let after = session.snapshot().await?;
    assert_eq!((after.question, matches!(after.runtime, RuntimeState::Idle { .. })), (None, true));
    Ok(())
}

#[tokio::test]
async fn a_question_outlives_the_server_and_its_answer_goes_on_with_the_turn_f2() -> Result<()> {
    let script = Script::new().tools([asks("Which store?")]).text("as you wish");
    let (model, gent, session) = open_asking(script).await?;
    let sent = session.send("build it")?;
    let shown = question(&session, 1).await?;
    parked(&session).await?;
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    assert_eq!(question(&session, 1).await?, shown);
    parked(&session).await?;
    answer(&session, &shown, says(r#"[["SQLite"]]"#)).await?;
    session.turn(&sent.message).await?.expect_end(
        "TS(c1) InteractionPresented InteractionResolved TS(c1) TOK(c1) MR(t1) MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    assert_eq!(results(&model, 2).await?, [json!({ "answers": [["SQLite"]] })]);
    assert_eq!(model.requests().len(), 2, "the step that asked was not made again");
    Ok(())
}

#[tokio::test]
async fn a_question_is_kept_where_the_server_dies_before_its_turn_could_wait_f2() -> Result<()> {
    let script = Script::new().tools([asks("Which store?")]).text("as you wish");
    let model = Scripted::new(script).start().await?;
    let setup = Setup::new(&model)?;
    let stop = Stop::at(setup.at(), "store.in_write:branch.park")?;
    let gent = setup.stop(&stop).start().await?;
    let session = asking_session(&gent).await?;
    let sent = session.send("build it")?;
    stop.reached().await?;
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    let shown = question(&session, 1).await?;
    answer(&session, &shown, says(r#"[["SQLite"]]"#)).await?;
    session.turn(&sent.message).await?.expect_end("TS(c1) TOK(c1) MR(t1) MCP SS2 SE2(Answered) MR(a2) TC")?;
    assert_eq!(presented(&session.events.events()), [shown.request_id], "it is the same question");
    assert_eq!(results(&model, 2).await?, [json!({ "answers": [["SQLite"]] })]);
    Ok(())
}

#[tokio::test]
async fn of_two_calls_that_ask_one_is_shown_and_each_gets_its_own_answer_f10() -> Result<()> {
    let script = Script::new().tools([asks("A?"), asks("B?")]).text("as you wish");
    let (model, _gent, session) = open_asking(script).await?;
    let sent = session.send("build it")?;
    let first = question(&session, 1).await?;
    parked(&session).await?;
    assert_eq!(presented(&session.events.events()), std::slice::from_ref(&first.request_id));
    answer(&session, &first, says(&first.question.text)).await?;
    let second = question(&session, 2).await?;
    assert_ne!(second.question.text, first.question.text);
    answer(&session, &second, says(&second.question.text)).await?;
    session.turn(&sent.message).await?.expect_end("MR(t1) MCP SS2 SE2(Answered) MR(a2) TC")?;
    let own = |text: &str| json!({ "answers": [[text]] });
    assert_eq!(results(&model, 2).await?, [own("[Choice] A?"), own("[Choice] B?")]);
    assert_eq!(presented(&session.events.events()), [first.request_id, second.request_id]);
    Ok(())
}

#[tokio::test]
async fn a_declined_question_is_an_answer_and_the_turn_goes_on() -> Result<()> {
    let (model, _gent, session) = open_asking(Script::new().tools([asks("A?")]).text("never mind")).await?;
    let sent = session.send("build it")?;
    let shown = question(&session, 1).await?;
    answer(&session, &shown, no()).await?;
    let turn = session.turn(&sent.message).await?;
    turn.expect_end("InteractionResolved TS(c1) TOK(c1) MR(t1) MCP SS2 SE2(Answered) MR(a2) TC")?;
    assert_eq!(results(&model, 2).await?, [json!({ "answers": [[]], "cancelled": true })]);
    Ok(())
}

#[tokio::test]
async fn a_reviewed_text_is_in_its_file_while_it_is_asked_for_and_as_edited_afterwards() -> Result<()> {
    let review = ("prompt", json!({ "mode": "review", "title": "Plan", "content": "one" }));
    let (model, gent, session) = open_asking(Script::new().tools([review]).text("as you wish")).await?;
    let sent = session.send("plan it")?;
    let shown = question(&session, 1).await?;
    parked(&session).await?;
    let facts = shown.question.metadata.clone().context("it has no facts")?;
    let path = facts["path"].as_str().context("it names no file")?.to_owned();
    assert!(std::path::Path::new(&path).starts_with(gent.place().work().join(".gent/prompts")), "{path}");
    assert_eq!(std::fs::read_to_string(&path)?, "one");
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    answer(&session, &shown, QuestionDecision { edited_content: Some("two".into()), ..says("") }).await?;
    session.turn(&sent.message).await?;
    let expected = json!({ "mode": "review", "decision": "edit", "path": path, "content": "two" });
    assert_eq!(results(&model, 2).await?, [expected]);
    assert_eq!(std::fs::read_to_string(&path)?, "two");
    Ok(())
}

#[tokio::test]
async fn a_presented_text_is_in_the_events_and_nobody_waits_for_it() -> Result<()> {
    let present = ("prompt", json!({ "mode": "present", "content": "look" }));
    let (model, _gent, session) = open_asking(Script::new().tools([present.clone()]).text("there")).await?;
    let turn = session.ask("show it").await?;
    turn.expect("MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) TOK(c1) MR(t1) MCP SS2 SE2(Answered) MR(a2) TC")?;
    let is_shown = |event: &AgentEvent| matches!(event, AgentEvent::ToolCallStarted { input, .. } if *input == Some(present.1.clone()));
    assert!(turn.events.iter().any(|envelope| is_shown(&envelope.event)));
    assert_eq!(results(&model, 2).await?, [json!({ "mode": "present", "status": "shown" })]);
    Ok(())
}

#[tokio::test]
async fn a_turn_that_was_stopped_while_it_waited_ends_after_a_restart() -> Result<()> {
    let model = Scripted::new(Script::new().tools([asks("Which store?")])).start().await?;
    let setup = Setup::new(&model)?;
    let stop = Stop::at(setup.at(), "store.after_commit:branch.cancel")?;
    let gent = setup.stop(&stop).start().await?;
    let session = asking_session(&gent).await?;
    let sent = session.send("build it")?;
    question(&session, 1).await?;
    parked(&session).await?;
    tokio::select! {
        answered = session.cancel() => anyhow::bail!("the server went on: {answered:?}"),
        reached = stop.reached() => reached?,
    }
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    let turn = session.turn(&sent.message).await?;
    turn.expect_end("InteractionPresented MR(t1:c1=Interrupted) TF(c1) InteractionResolved TC(interrupted)")?;
    assert_eq!(session.snapshot().await?.question, None, "it was dismissed");
    Ok(())
}
