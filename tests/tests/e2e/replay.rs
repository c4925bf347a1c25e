//! Owns the rows about what a restart makes of a step whose tools had begun: nothing runs twice, nothing is lost.

use anyhow::Result;
use gent_e2e::harness::{Gent, Setup, Stop, Turn};
use gent_e2e::scripted::{Script, Scripted, ScriptedServer};
use gent_protocol::AgentEvent;
use serde_json::json;

use crate::offline;

/// A step of two calls, both with a stored end: the first one good.
const BOTH_ENDED: &str = "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) {TS(c1) TS(c2)} TOK(c1) TOK(c2)";
/// What becomes of them when the second one's end cannot be read.
const BOTH_CORRUPT: &str = "MR(t1:c1=CorruptResult:c2=CorruptResult)";
const COMMAND: &str = "echo c1 >> ran; cat ran";

/// Runs one call, kills the server at `failpoint`, starts it again and returns the whole turn.
async fn kill_at(
    failpoint: &str,
    between: impl AsyncFnOnce(&Gent) -> Result<()>,
) -> Result<(ScriptedServer, Gent, Turn)> {
    let script = Script::new().tool("bash", json!({ "command": COMMAND })).text("done").text("again");
    kill_with(script, failpoint, between).await
}

/// As [`kill_at`], with a script whose first answer has the calls and whose last is for the turn after.
async fn kill_with(
    script: Script,
    failpoint: &str,
    between: impl AsyncFnOnce(&Gent) -> Result<()>,
) -> Result<(ScriptedServer, Gent, Turn)> {
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
    let calls = (1..=10).map(|n| ("bash", json!({ "command": format!("echo {n} >> ran") })));
    let script = Script::new().tools(calls).text("done").text("again");
    let (model, gent, turn) = kill_with(script, "store.after_commit:turn.streamEnd", nothing).await?;
    let each = |token: &str| (1..=10).map(|n| token.replace('#', &n.to_string())).collect::<String>();
    // Eight had been told to begin; none had, and all ten have a result and an end.
    turn.expect(&format!(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) TS(c2) TS(c3) TS(c4) TS(c5) TS(c6) TS(c7) TS(c8) \
         MR(t1{}) {} MCP SS2 SE2(Answered) MR(a2) TC",
        each(":c#=Interrupted"),
        each("TF(c#) "),
    ))?;
    let results = model.request(2).await?.tool_results();
    assert_eq!(results.iter().filter(|result| result.contains("Interrupted")).count(), 10, "{results:?}");
    assert_eq!(gent.place().read("ran"), "");
    Ok(())
}

#[tokio::test]
async fn a_stored_result_that_is_corrupt_fails_all_calls_of_its_step_and_the_turn_e7() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let setup = Setup::new(&model)?;
    let stop = Stop::at(setup.at(), "store.in_write:turn.toolEnd@2")?;
    let mut gent = setup.stop(&stop).start().await?;
    let wait = "echo c2 >> ran; while [ ! -e go ]; do read -t 0.05 < <(:) || :; done";
    let call = |command: &str| ("bash", json!({ "command": command }));
    model.script(Script::new().tools([call("echo c1 >> ran"), call(wait)]).text("well again"));
    let session = gent.session().await?;
    let sent = session.send("run both")?;
    session.events.wait_for("c1", |event| matches!(event, AgentEvent::ToolCallSucceeded { .. })).await?;
    gent.place().write("go", "")?;
    stop.reached().await?;
    gent.kill9().await?;
    offline::append_corrupt_result(gent.place(), "c2").await?;
    let gent = gent.setup().clone().without_failpoints().start().await?;
    let session = session.again(&gent).await?;
    session
        .turn(&sent.message)
        .await?
        .expect(&format!("{BOTH_ENDED} {BOTH_CORRUPT} ERR TC(streamFailed)"))?;
    assert_eq!(session.ask("and now?").await?.answer(), "well again");
    assert_eq!((session.receipts(&sent.message), model.requests().len()), (1, 2));
    let ran = gent.place().read("ran");
    assert!(["c1\nc2\n", "c2\nc1\n"].contains(&ran.as_str()), "each ran once: {ran:?}");
    Ok(())
}
