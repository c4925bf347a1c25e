//! Owns the rows about cancelling: what stops, what is kept, what is left alone.

use anyhow::Result;
use gent_e2e::harness::{Pipe, eventually, processes_with_env_marker};
use gent_e2e::scripted::Script;
use gent_protocol::{AgentEvent, client_message_id};
use serde_json::json;

use crate::world::open;

#[tokio::test]
async fn a_cancel_while_streaming_ends_the_turn_without_an_error_d7() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("part").stall("hold")).await?;
    let sent = session.send("go")?;
    session.events.wait_for("text", |event| matches!(event, AgentEvent::StreamChunk { .. })).await?;
    session.cancel().await?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) MCP SS1 SC* SE1(Interrupted) MR(a1) TC(interrupted)")?;
    assert_eq!(turn.answer(), "part", "what was said is kept");
    assert_eq!(turn.errors(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_cancel_during_the_wait_before_a_retry_ends_the_wait_d8() -> Result<()> {
    let (model, _gent, session) = open(Script::new().error(429, Some(25))).await?;
    let sent = session.send("go")?;
    let is_retry = |event: &AgentEvent| matches!(event, AgentEvent::ProviderRetrying { .. });
    let told = session.events.wait_for("a retry", is_retry).await?;
    let AgentEvent::ProviderRetrying { delay_ms, .. } = told.event else { panic!() };
    assert_eq!(delay_ms.0, 25_000);
    session.cancel().await?;
    session.turn(&sent.message).await?.expect("MR(u) MCP SS1 RETRY(1/3) SE1(Interrupted) TC(interrupted)")?;
    let ended = session.events.turn_completed(&sent.message).await?;
    assert!(ended.created_at.0 - told.created_at.0 < delay_ms.0, "the wait was not cut short");
    assert_eq!(session.ask("TEXT:1").await?.answer(), "tick");
    // Of the turn that was stopped the model saw one request, and the other is the next turn's.
    assert_eq!(model.requests().len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_cancel_while_a_tool_runs_gives_the_call_a_result_and_ends_its_processes_d9() -> Result<()> {
    let (model, gent, session) = open(Script::new()).await?;
    let running = Pipe::new(gent.place(), "running")?;
    let command = format!("setsid sleep 600 & : > {}; wait", running.path().display());
    model.script(Script::new().tool("bash", json!({ "command": command })));
    let sent = session.send("run it")?;
    running.opened().await?;
    session.cancel().await?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) TOK(c1) MR(t1) TC(interrupted)")?;
    let marker = gent.setup().marker();
    eventually("the tool's processes to end", async || {
        let left = processes_with_env_marker(&marker)?;
        Ok(left.iter().all(|pid| *pid == gent.pid).then_some(()))
    })
    .await
}

#[tokio::test]
async fn a_cancel_of_an_idle_branch_does_nothing_to_its_next_turn_d12() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("one").text("two")).await?;
    session.cancel().await?;
    session.ask("first").await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    session.cancel().await?;
    session.ask("second").await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")
}

#[tokio::test]
async fn a_waiting_turn_that_is_cancelled_makes_no_model_call_d14() -> Result<()> {
    let (model, gent, session) = open(Script::new().text("one").stall("hold")).await?;
    let first = session.send("first")?;
    model.gate("hold").reached(1).await?;
    let second = session.send("second")?;
    assert_eq!(session.queued(1).await?, std::slice::from_ref(&second.message));
    session.cancel_message(&second.message).await?;
    assert_eq!(
        session.queued(1).await?,
        std::slice::from_ref(&second.message),
        "it is stopped when its turn comes"
    );
    model.gate("hold").open();
    session.turn(&first.message).await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    session.turn(&second.message).await?.expect("MR(u) TC(interrupted)")?;
    assert_eq!(model.requests().len(), 1);
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    let stored = session.messages().await?.into_iter().filter(|message| message.id == second.message);
    assert_eq!(stored.map(|message| message.text()).collect::<Vec<_>>(), ["second"]);
    assert_eq!(session.receipts(&second.message), 1);
    Ok(())
}

#[tokio::test]
async fn a_cancel_that_names_another_message_leaves_the_running_turn_alone_d22() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("one").stall("hold")).await?;
    let later = session.new_request()?;
    let first = session.send("first")?;
    model.gate("hold").reached(1).await?;
    session.cancel_message(&client_message_id(&later)).await?;
    model.gate("hold").open();
    session.turn(&first.message).await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    let stopped = session.send_as("second", later);
    session.turn(&stopped.message).await?.expect("MR(u) TC(interrupted)")
}

#[tokio::test]
async fn a_cancel_on_another_branch_does_not_touch_a_message_of_the_same_id_d23() -> Result<()> {
    let (_model, gent, session) = open(Script::new().text("one")).await?;
    let other = gent.session().await?;
    let request = session.new_request()?;
    other.cancel_message(&client_message_id(&request)).await?;
    let sent = session.send_as("go", request);
    session.turn(&sent.message).await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")
}
