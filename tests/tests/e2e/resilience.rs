//! Owns what a failure inside the server may and may not do: a dead branch comes back, its neighbours do not notice.

use anyhow::Result;
use gent_e2e::harness::{Setup, eventually};
use gent_e2e::scripted::{Script, Scripted};
use gent_protocol::ActorState;

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
