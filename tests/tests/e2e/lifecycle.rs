//! Owns the rows about branches and sessions over time: passivation, resuming, deletion.

use anyhow::Result;
use gent_e2e::harness::{Pipe, Setup, eventually};
use gent_e2e::scripted::{Script, Scripted};
use gent_protocol::{AgentEvent, DeleteSession, GetSession};
use serde_json::json;

use crate::offline;
use crate::world::open;

#[tokio::test]
async fn an_idle_branch_leaves_memory_and_comes_back_with_the_next_prompt_i1() -> Result<()> {
    let model = Scripted::new(Script::new().text("one").text("two")).start().await?;
    let gent = Setup::new(&model)?.with_env("GENT_BRANCH_IDLE_SECS", "1").start().await?;
    let session = gent.session().await?;
    session.ask("first").await?;
    eventually("no branch to be resident", async || {
        Ok((gent.status().await?.branches.resident == 0).then_some(()))
    })
    .await?;
    assert_eq!(session.ask("second").await?.answer(), "two");
    let request = model.request(2).await?;
    assert!(String::from_utf8_lossy(&request.bytes).contains("first"));
    Ok(())
}

#[tokio::test]
async fn a_turn_that_was_cut_by_a_crash_goes_on_without_anybody_looking_i3() -> Result<()> {
    let script = Script::new().text("lost half").stall("hold").text("whole answer");
    let (model, gent, session) = open(script).await?;
    let sent = session.send("go")?;
    model.gate("hold").reached(1).await?;
    let gent = gent.restart().await?;
    model.request(2).await?;
    let turn = session.again(&gent).await?.turn(&sent.message).await?;
    assert_eq!(turn.answer(), "whole answer");
    turn.expect_end("SC* SE1(Answered) MR(a1) TC")?;
    Ok(())
}

#[tokio::test]
async fn a_message_without_a_turn_that_is_older_than_a_receipt_is_not_resumed_i4() -> Result<()> {
    let (model, mut gent, session) = open(Script::new().text("one").text("two")).await?;
    gent.terminate()?;
    gent.wait().await?;
    offline::insert_user_message(gent.place(), &session.id, &session.branch, "message:forgotten").await?;
    let gent = gent.setup().clone().start().await?;
    let session = session.again(&gent).await?;
    session.ask("first").await?;
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    assert_eq!(session.ask("second").await?.answer(), "two");
    assert_eq!(model.requests().len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_server_stopped_while_a_tool_runs_leaves_no_receipt_and_goes_on_later_i6() -> Result<()> {
    let (model, mut gent, session) = open(Script::new()).await?;
    let running = Pipe::new(gent.place(), "running")?;
    let command = format!(": > {}; exec sleep 600", running.path().display());
    model.script(Script::new().tool("bash", json!({ "command": command })).text("later"));
    let sent = session.send("run it")?;
    running.opened().await?;
    gent.terminate()?;
    gent.terminate()?;
    gent.wait().await?;
    let is_receipt = |event: &AgentEvent| matches!(event, AgentEvent::TurnCompleted { .. });
    assert!(!session.events.events().iter().any(|envelope| is_receipt(&envelope.event)));
    let gent = gent.setup().clone().start().await?;
    let turn = session.again(&gent).await?.turn(&sent.message).await?;
    assert_eq!(turn.answer(), "later");
    Ok(())
}

#[tokio::test]
async fn deleting_a_session_in_the_middle_of_a_turn_ends_the_turn_and_its_streams_i7() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("part").stall("hold")).await?;
    let sent = session.send("go")?;
    model.gate("hold").reached(1).await?;
    session.client.call(DeleteSession { session_id: session.id.clone() }).await?;
    assert_eq!(session.events.ended().await?, "Deleted");
    assert!(sent.reply().await?.is_err());
    assert_eq!(session.client.call(GetSession { session_id: session.id.clone() }).await?, None);
    assert!(session.send("more")?.reply().await?.is_err());
    assert!(session.snapshot().await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_resumed_turn_whose_key_is_missing_waits_visibly_and_goes_on_at_the_offer() -> Result<()> {
    let script = Script::new().text("half").stall("hold").text("whole");
    let model = Scripted::new(script).demanding_key("sk-test").start().await?;
    let gent = Setup::new(&model)?.start().await?;
    let session = gent.session().await?;
    let sent = session.send("go")?;
    model.gate("hold").reached(1).await?;
    let gent = gent.restart().await?;
    let waiting = eventually("the branch to wait for a credential", async || {
        Ok(gent.actors().await?.into_iter().find(|row| row.waiting_for.is_some()))
    })
    .await?;
    assert_eq!(waiting.waiting_for.as_deref(), Some("credential"));
    assert_eq!(model.requests().len(), 1);
    let turn = session.again(&gent).await?.turn(&sent.message).await?;
    assert_eq!(turn.answer(), "whole");
    Ok(())
}
