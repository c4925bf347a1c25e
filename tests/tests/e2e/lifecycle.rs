//! Owns the rows about branches and sessions over time: passivation, resuming, deletion.

use anyhow::Result;
use gent_e2e::harness::{Pipe, Setup, eventually};
use gent_e2e::scripted::{Script, Scripted};
use gent_protocol::{DeleteSession, EventSeq, GetSession};
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
    let (model, mut gent, session) = open(Script::new().text("one").text("two").text("never")).await?;
    gent.terminate()?;
    gent.wait().await?;
    offline::insert_user_message(gent.place(), &session.id, &session.branch, "message:forgotten").await?;
    let gent = gent.setup().clone().start().await?;
    let session = session.again(&gent).await?;
    let first = session.ask("first").await?;
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    // Looking at a branch resumes what is unfinished there.
    let messages = session.messages().await?.into_iter();
    let forgotten = messages.filter(|message| message.id.as_str() == "message:forgotten").count();
    assert_eq!(forgotten, 1);
    let second = session.ask("second").await?;
    assert_eq!((first.answer().as_str(), second.answer().as_str()), ("one", "two"));
    assert_eq!(session.ended_turns(), [first.message, second.message]);
    assert_eq!(model.requests().len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_server_stopped_while_a_tool_runs_leaves_no_receipt_and_goes_on_later_i6() -> Result<()> {
    let (model, mut gent, session) = open(Script::new()).await?;
    let running = Pipe::new(gent.place(), "running")?;
    let command = format!("echo c1 >> ran; : > {}; exec sleep 600", running.path().display());
    model.script(Script::new().tool("bash", json!({ "command": command })).text("later"));
    let sent = session.send("run it")?;
    running.opened().await?;
    gent.terminate()?;
    assert_eq!(gent.wait().await?, Some(0));
    assert_eq!(session.ended_turns(), []);
    let gent = gent.setup().clone().start().await?;
    model.request(2).await?;
    let session = session.again(&gent).await?;
    // The call that was cut is told of by the server that ends or by the next one.
    session.turn(&sent.message).await?.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) {TF(c1) MR(t1:c1=Interrupted)} \
         MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    let next = session.ask("TEXT:1").await?;
    assert_eq!(session.ended_turns(), [sent.message, next.message]);
    assert_eq!((gent.place().read("ran").as_str(), model.requests().len()), ("c1\n", 3));
    Ok(())
}

#[tokio::test]
async fn deleting_a_session_in_the_middle_of_a_turn_ends_the_turn_and_its_streams_i7() -> Result<()> {
    let (model, gent, session) = open(Script::new()).await?;
    // More rows than a portion of the sweep.
    session.ask("TOOLS:60 FILE:nothing").await?;
    let sent = session.send("TEXT:9 HOLD:hold")?;
    model.gate("hold").reached(1).await?;
    session.client.call(DeleteSession { session_id: session.id.clone() }).await?;
    assert_eq!(session.events.ended().await?, "Deleted");
    assert!(sent.reply().await?.is_err());
    assert_eq!(session.client.call(GetSession { session_id: session.id.clone() }).await?, None);
    assert!(session.send("more")?.reply().await?.is_err());
    assert!(session.snapshot().await.is_err());
    eventually("the rows of the session to go", async || {
        let left = offline::rows_left(gent.place(), &session.id, &session.branch)?;
        Ok((left == 0).then_some(()))
    })
    .await?;
    assert_eq!(offline::dangling_rows(gent.place())?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn the_numbers_of_a_session_are_its_own_whatever_was_deleted_before_i7() -> Result<()> {
    let (_model, mut gent, session) = open(Script::new()).await?;
    session.ask("TEXT:1").await?;
    session.client.call(DeleteSession { session_id: session.id.clone() }).await?;
    let next = gent.session().await?;
    next.ask("TEXT:1").await?;
    gent.terminate()?;
    gent.wait().await?;
    let stored = offline::stored_events(gent.place(), &next.id)?;
    assert_eq!(stored.first().map(|first| first.id), Some(EventSeq(1)));
    assert_eq!(next.events.lasting(), stored);
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
