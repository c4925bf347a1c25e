//! Owns what a failure inside the server may and may not do: a dead branch comes back, its neighbours do not notice.

use anyhow::Result;
use gent_e2e::harness::{OpenSession, Setup, eventually, processes_with_env_marker};
use gent_e2e::scripted::{Script, Scripted};
use gent_protocol::ActorState;
use serde_json::json;

#[tokio::test]
async fn a_branch_whose_actor_panics_comes_back_and_its_neighbour_does_not_notice() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    model.script_for("neighbour", Script::new().text("quiet").stall("hold"));
    let gent = Setup::new(&model)?.failpoint("actor.command@1=panic").start().await?;
    let (victim, neighbour) = (gent.session().await?, gent.session().await?);
    let calm = neighbour.send("neighbour")?;
    model.gate("hold").reached(1).await?;
    let sent = victim.send("TEXT:3")?;
    victim.turn(&sent.message).await?;
    assert_eq!(victim.ask("TEXT:1").await?.answer(), "tick");
    model.gate("hold").open();
    assert_eq!(neighbour.turn(&calm.message).await?.answer(), "quiet");
    Ok(())
}

#[tokio::test]
async fn a_branch_that_dies_three_times_is_faulted_until_the_next_prompt() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let gent = Setup::new(&model)?
        .failpoint("actor.command@1=panic,actor.command@2=panic,actor.command@3=panic")
        .start()
        .await?;
    let session = gent.session().await?;
    let sent = session.send("TEXT:1")?;
    let request = sent.request.clone();
    assert!(sent.reply().await?.is_err());
    let row = eventually("the branch to be faulted", async || {
        Ok(gent.actors().await?.into_iter().find(|row| row.state == ActorState::Faulted))
    })
    .await?;
    assert!(row.last_error.is_some());
    assert_eq!(session.ask("TEXT:2").await?.answer(), "ticktick");
    let again = session.send_as("TEXT:1", request);
    assert_eq!(session.turn(&again.message).await?.answer(), "tick");
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_could_not_be_taken_from_the_queue_is_taken_again() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    model.script_for("first", Script::new().text("one").stall("hold"));
    let gent = Setup::new(&model)?.failpoint("store.in_write:branch.takeNext@1=error").start().await?;
    let session = gent.session().await?;
    let first = session.send("first")?;
    model.gate("hold").reached(1).await?;
    let second = session.send("TEXT:2")?;
    session.queued(1).await?;
    model.gate("hold").open();
    assert_eq!(session.turn(&first.message).await?.answer(), "one");
    assert_eq!(session.turn(&second.message).await?.answer(), "ticktick");
    Ok(())
}

#[tokio::test]
async fn a_branch_that_loses_track_of_a_commit_goes_on_from_its_rows() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let gent = Setup::new(&model)?.failpoint("store.after_commit:branch.receipt@1=error").start().await?;
    let session = gent.session().await?;
    let sent = session.send("TEXT:1")?;
    assert_eq!(session.turn(&sent.message).await?.answer(), "tick");
    assert_eq!(session.ask("TEXT:2").await?.answer(), "ticktick");
    Ok(())
}

#[tokio::test]
async fn a_branch_that_cannot_be_opened_at_once_resumes_all_the_same() -> Result<()> {
    let model = Scripted::new(Script::new().text("half").stall("hold").text("whole")).start().await?;
    let gent = Setup::new(&model)?.start().await?;
    let session = gent.session().await?;
    let sent = session.send("go")?;
    model.gate("hold").reached(1).await?;
    let setup = gent.setup().clone().failpoint("store.in_write:branch.open@1=error");
    let mut gent = gent;
    gent.kill9().await?;
    let gent = setup.start().await?;
    model.gate("hold").open();
    let session = OpenSession::attach(gent.client().await?, session.id, session.branch).await?;
    session.turn(&sent.message).await?.expect_end("TC")?;
    Ok(())
}

#[tokio::test]
async fn a_call_ends_with_the_turn_when_the_end_of_its_neighbour_cannot_be_stored() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let gent = Setup::new(&model)?.failpoint("store.in_write:turn.toolEnd@1=error").start().await?;
    let session = gent.session().await?;
    let call = |command: &str| ("bash", json!({ "command": command }));
    model.script(Script::new().tools([call("true"), call("sleep 600")]).text("never"));
    let sent = session.send("go")?;
    session.turn(&sent.message).await?.expect_end("TC(streamFailed)")?;
    let marker = gent.setup().marker();
    eventually("the other call to end", async || {
        Ok(processes_with_env_marker(&marker)?.iter().all(|pid| *pid == gent.pid).then_some(()))
    })
    .await
}
