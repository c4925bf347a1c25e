//! Owns the rows about how a turn ends: one receipt, the right facts in it, the right errors before it.

use anyhow::Result;
use gent_e2e::harness::{Setup, Stop, Turn};
use gent_e2e::scripted::{Script, Scripted};
use gent_protocol::AgentEvent;
use serde_json::json;

use crate::world::open;

fn accounts(turn: &Turn) -> (bool, bool) {
    let Some(AgentEvent::TurnCompleted { usage, cost_usd, .. }) = turn.receipt() else {
        panic!("no receipt")
    };
    (usage.is_some(), cost_usd.is_some())
}

#[tokio::test]
async fn every_turn_ends_with_exactly_one_receipt_g1() -> Result<()> {
    let script = Script::new()
        .text("one")
        .error(400, None)
        .text("cut")
        .cut_after(1)
        .text("whole")
        .tool("read", json!({ "path": "nothing" }))
        .text("four");
    let (_model, _gent, session) = open(script).await?;
    let mut turns = Vec::new();
    for prompt in ["answered", "failed", "continued", "with a tool"] {
        let sent = session.send(prompt)?;
        session.turn(&sent.message).await?;
        turns.push(sent.message);
    }
    let last = session.ask("TEXT:1").await?;
    assert!(turns.iter().all(|message| session.receipts(message) == 1));
    assert_eq!(session.receipts(&last.message), 1);
    Ok(())
}

#[tokio::test]
async fn a_storage_failure_in_a_turn_ends_it_and_the_queue_goes_on_g3() -> Result<()> {
    let model = Scripted::new(Script::new().text("lost").text("fine")).start().await?;
    let setup = Setup::new(&model)?.failpoint("store.in_write:turn.streamEnd@1=error");
    let gent = setup.start().await?;
    let session = gent.session().await?;
    let first = session.send("first")?;
    session.events.wait_for("the stream", |event| matches!(event, AgentEvent::StreamStarted { .. })).await?;
    let second = session.send("second")?;
    let turn = session.turn(&first.message).await?;
    turn.expect_end("ERR TC(streamFailed)")?;
    assert_eq!(session.turn(&second.message).await?.answer(), "fine");
    assert_eq!(session.receipts(&first.message), 1);
    Ok(())
}

#[tokio::test]
async fn a_death_after_the_receipt_brings_no_second_one_g4() -> Result<()> {
    let model = Scripted::new(Script::new().text("one").text("two")).start().await?;
    let setup = Setup::new(&model)?;
    let stop = Stop::at(setup.at(), "store.after_commit:branch.receipt")?;
    let gent = setup.stop(&stop).start().await?;
    let session = gent.session().await?;
    let sent = session.send("first")?;
    stop.reached().await?;
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    session.turn(&sent.message).await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    assert_eq!(session.ask("second").await?.answer(), "two");
    assert_eq!(session.receipts(&sent.message), 1);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_never_begins_fails_after_three_tries_without_a_continuation_g6() -> Result<()> {
    let script = Script::new().error(503, Some(0)).error(503, Some(0)).error(503, Some(0));
    let (model, _gent, session) = open(script).await?;
    let sent = session.send("go")?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) MCP SS1 RETRY(1/3) RETRY(2/3) SE1(Failed) ERR TC(streamFailed)")?;
    assert_eq!(model.requests().len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_refused_credential_is_not_tried_again_g10() -> Result<()> {
    let model = Scripted::new(Script::new()).demanding_key("sk-right").start().await?;
    let gent = Setup::new(&model)?.offering("OPENAI_API_KEY", "sk-wrong").start().await?;
    let session = gent.session().await?;
    let sent = session.send("go")?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) MCP SS1 SE1(Failed) ERR TC(streamFailed)")?;
    assert_eq!(model.refused(), 1);
    let error = turn.errors().join(" ");
    assert!(error.contains("OPENAI_API_KEY") && !error.contains("sk-wrong"), "{error}");
    assert!(sent.reply().await?.is_err());
    Ok(())
}

#[tokio::test]
async fn a_missing_credential_is_named_and_not_tried_again_g10() -> Result<()> {
    // Nothing is offered: without an address the key would be one of the provider itself.
    let gent = Setup::without_model()?.start().await?;
    let session = gent.session().await?;
    let sent = session.send("go")?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) ERR TC(streamFailed)")?;
    assert_eq!(turn.errors(), ["OpenAI needs a key; set OPENAI_API_KEY"]);
    assert!(sent.reply().await?.is_err());
    Ok(())
}

#[tokio::test]
async fn a_key_that_nobody_offered_to_a_server_that_wants_one_is_named_g10() -> Result<()> {
    let model = Scripted::new(Script::new()).demanding_key("sk-right").start().await?;
    let gent = Setup::new(&model)?.not_offering("OPENAI_API_KEY").start().await?;
    let session = gent.session().await?;
    let sent = session.send("go")?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) MCP SS1 SE1(Failed) ERR TC(streamFailed)")?;
    let error = turn.errors().join(" ");
    assert!(error.contains("wants a key (401)") && error.ends_with("set OPENAI_API_KEY"), "{error}");
    assert_eq!(model.refused(), 1);
    assert!(sent.reply().await?.is_err());
    Ok(())
}

#[tokio::test]
async fn a_step_without_usage_leaves_the_turn_without_usage_and_cost_g11() -> Result<()> {
    let script = Script::new().tool("read", json!({ "path": "nothing" })).no_usage().text("done");
    let (_model, _gent, session) = open(script).await?;
    assert_eq!(accounts(&session.ask("go").await?), (false, false));
    Ok(())
}

#[tokio::test]
async fn a_model_without_a_price_leaves_usage_and_no_cost_g12() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("done")).await?;
    assert_eq!(accounts(&session.ask("go").await?), (true, false));
    Ok(())
}
