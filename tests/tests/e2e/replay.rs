//! Owns the rows about what a restart makes of a step whose tools had begun: nothing runs twice, nothing is lost.

use anyhow::Result;
use gent_e2e::harness::{Gent, Setup, Stop, Turn};
use gent_e2e::scripted::{Script, Scripted, ScriptedServer};
use serde_json::json;

use crate::offline;

const COMMAND: &str = "echo c1 >> ran; cat ran";

/// Runs one call, kills the server at `failpoint`, starts it again and returns the whole turn.
async fn kill_at(
    failpoint: &str,
    between: impl AsyncFnOnce(&Gent) -> Result<()>,
) -> Result<(ScriptedServer, Gent, Turn)> {
    let script = Script::new().tool("bash", json!({ "command": COMMAND })).text("done").text("again");
    let model = Scripted::new(script).start().await?;
    let setup = Setup::new(&model)?;
    let stop = Stop::at(setup.at(), failpoint)?;
    let mut gent = setup.stop(&stop).start().await?;
    let session = gent.session().await?;
    let sent = session.send("run it")?;
    stop.reached().await?;
    gent.kill9().await?;
    between(&gent).await?;
    let gent = gent.setup().clone().without_failpoints().start().await?;
    let session = session.again(&gent).await?;
    let turn = session.turn(&sent.message).await?;
    session.ask("and now?").await?;
    Ok((model, gent, turn))
}

async fn nothing(_gent: &Gent) -> Result<()> {
    Ok(())
}

#[tokio::test]
async fn a_result_that_was_stored_is_used_and_the_tool_not_run_again_e3() -> Result<()> {
    let (model, gent, turn) = kill_at("store.in_write:turn.project@2", nothing).await?;
    turn.expect("MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) TOK(c1) MR(t1) MCP SS2 SE2(Answered) MR(a2) TC")?;
    assert_eq!(gent.place().read("ran"), "c1\n");
    assert!(model.request(2).await?.tool_results()[0].contains("c1"));
    Ok(())
}

#[tokio::test]
async fn a_step_whose_tool_message_was_stored_is_settled_e4() -> Result<()> {
    let (_model, gent, turn) = kill_at("store.after_commit:turn.project@2", nothing).await?;
    turn.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) TOK(c1) MR(t1) MCP SS2 MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    assert_eq!(gent.place().read("ran"), "c1\n");
    Ok(())
}

#[tokio::test]
async fn calls_that_had_not_begun_are_reported_and_not_lost_e5() -> Result<()> {
    let (model, _gent, turn) = kill_at("store.after_commit:turn.streamEnd", nothing).await?;
    turn.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) MR(t1:c1=Interrupted) TF(c1) MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    assert!(model.request(2).await?.tool_results()[0].contains("Interrupted"));
    Ok(())
}

#[tokio::test]
async fn a_stored_result_that_is_corrupt_fails_the_turn_and_not_the_next_e7() -> Result<()> {
    let corrupt = async |gent: &Gent| offline::append_corrupt_result(gent.place(), "c1").await;
    let (_model, gent, turn) = kill_at("store.in_write:turn.toolEnd", corrupt).await?;
    assert!(turn.trace().contains("MR(t1:c1=CorruptResult)"), "{}", turn.trace());
    turn.expect_end("TC(streamFailed)")?;
    assert_eq!(gent.place().read("ran"), "c1\n");
    Ok(())
}
