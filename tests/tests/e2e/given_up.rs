//! Owns what holds for a branch that was given up: a stop ends its turn from the rows, a prompt is stored, and a
//! revival blames nobody.

use anyhow::Result;
use gent_e2e::harness::{Gent, OpenSession, Setup, eventually};
use gent_e2e::scripted::{Script, Scripted, ScriptedServer};
use gent_protocol::{ActorRow, ActorState, GetQueue, MessageId, SteerCommand, SteerParams};

async fn until_given_up(gent: &Gent) -> Result<ActorRow> {
    eventually("the branch to be given up", async || {
        Ok(gent.actors().await?.into_iter().find(|row| row.state == ActorState::Faulted))
    })
    .await
}

/// A turn waits in its model while the branch dies of its first three commands after the prompt.
async fn given_up_mid_turn(gent: &Gent, model: &ScriptedServer) -> Result<(OpenSession, MessageId)> {
    let half = |script: Script| script.text("half").stall("hold");
    model.script(half(half(half(Script::new()))).text("whole").text("more"));
    let session = gent.session().await?;
    let sent = session.send("go")?;
    model.gate("hold").reached(1).await?;
    assert!(session.send("one more")?.reply().await?.is_err(), "it is told that the branch is given up");
    until_given_up(gent).await?;
    Ok((session, sent.message))
}

const DIES_AFTER_THE_PROMPT: &str = "actor.command@2=panic,actor.command@3=panic,actor.command@4=panic";

#[tokio::test]
async fn a_stop_closes_the_turn_of_a_branch_that_was_given_up_without_running_it() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let gent = Setup::new(&model)?.failpoint(DIES_AFTER_THE_PROMPT).start().await?;
    let (session, turn) = given_up_mid_turn(&gent, &model).await?;
    session.cancel_message(&turn).await?;
    session.turn(&turn).await?.expect_end("TC(interrupted)")?;
    assert_eq!(until_given_up(&gent).await?.restarts, 3, "nothing was started for it");
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_meets_the_third_death_is_stored_and_runs_with_the_revival() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let gent = Setup::new(&model)?
        .failpoint("actor.command@1=panic,actor.command@2=panic,actor.command@3=panic")
        .start()
        .await?;
    let session = gent.session().await?;
    let sent = session.send("TEXT:1")?;
    let message = sent.message.clone();
    assert!(sent.reply().await?.is_err());
    until_given_up(&gent).await?;
    let next = session.send("TEXT:2")?;
    assert_eq!(session.turn(&message).await?.answer(), "tick");
    assert_eq!(session.turn(&next.message).await?.answer(), "ticktick");
    Ok(())
}

#[tokio::test]
async fn a_revival_does_not_blame_the_turn_for_the_deaths_of_its_actor() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let gent = Setup::new(&model)?.failpoint(DIES_AFTER_THE_PROMPT).start().await?;
    let (session, turn) = given_up_mid_turn(&gent, &model).await?;
    session.send("again")?;
    model.gate("hold").open();
    session.turn(&turn).await?.expect_end("TC")?;
    Ok(())
}

#[tokio::test]
async fn a_call_whose_end_could_not_be_stored_is_closed_with_its_turn() -> Result<()> {
    let model = Scripted::new(Script::new().tool("read", serde_json::json!({ "path": "a" }))).start().await?;
    let gent = Setup::new(&model)?.failpoint("store.in_write:turn.toolEnd@1=error").start().await?;
    let session = gent.session().await?;
    let sent = session.send("go")?;
    session.turn(&sent.message).await?.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) MR(t1:c1=Interrupted) TF(c1) ERR TC(streamFailed)",
    )
}

#[tokio::test]
async fn what_is_said_to_a_branch_that_dies_of_it_waits_in_its_queue() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let dies_four_times =
        "actor.command@1=panic,actor.command@2=panic,actor.command@3=panic,actor.command@4=panic";
    let gent = Setup::new(&model)?.failpoint(dies_four_times).start().await?;
    let session = gent.session().await?;
    assert!(session.send("TEXT:1")?.reply().await?.is_err());
    until_given_up(&gent).await?;
    let command = SteerCommand::Interject {
        session_id: session.id.clone(),
        branch_id: session.branch.clone(),
        request_id: session.new_request()?,
        message: "and mind the gap".into(),
        metadata: None,
        wake: false,
    };
    session.client.call(SteerParams { command }).await?;
    let queue = GetQueue { session_id: session.id.clone(), branch_id: session.branch.clone() };
    assert_eq!(session.client.call(queue).await?.steering.len(), 1);
    Ok(())
}
