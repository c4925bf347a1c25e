//! Owns the reference traces: what a client sees of a turn, event by event.

use anyhow::Result;
use gent_e2e::harness::{Gent, Pipe, Setup};
use gent_e2e::scripted::{Script, Scripted};
use gent_protocol::{AgentEvent, client_message_id};
use serde_json::json;

use crate::world::open;

#[tokio::test]
async fn a_plain_answer_trace_1() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("hello")).await?;
    let turn = session.ask("hi").await?;
    turn.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    assert_eq!(turn.answer(), "hello");
    let AgentEvent::TurnCompleted { usage, .. } = turn.receipt().unwrap() else { panic!() };
    assert_eq!(usage.unwrap().input_tokens, 100);
    Ok(())
}

#[tokio::test]
async fn one_step_with_two_calls_trace_2() -> Result<()> {
    let read = |name: &str| ("read", json!({ "path": name }));
    let script = Script::new().tools([read("a.txt"), read("b.txt")]).text("both are there");
    let (model, gent, session) = open(script).await?;
    gent.place().write("a.txt", "alpha\n")?;
    gent.place().write("b.txt", "beta\n")?;
    let turn = session.ask("read both").await?;
    turn.expect(
        "MR(u) MCP SS1 SC* SE1(ToolCalls) MR(a1) {TS(c1) TS(c2) TOK(c1) TOK(c2)} MR(t1) \
         MCP SS2 SC* SE2(Answered) MR(a2) TC",
    )?;
    let results = model.request(2).await?.tool_results();
    assert!(results[0].contains("alpha") && results[1].contains("beta"), "{results:?}");
    Ok(())
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_an_answer_keeps_its_text_trace_4() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("half of it").stall("hold")).await?;
    let sent = session.send("go")?;
    session.events.wait_for("text", |event| matches!(event, AgentEvent::StreamChunk { .. })).await?;
    session.cancel().await?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) MCP SS1 SC* SE1(Interrupted) MR(a1) TC(interrupted)")?;
    assert_eq!(turn.answer(), "half of it");
    let AgentEvent::TurnCompleted { usage, .. } = turn.receipt().unwrap() else { panic!() };
    assert_eq!(*usage, None);
    Ok(())
}

#[tokio::test]
async fn a_cancel_after_a_whole_call_arrived_reports_the_call_trace_5() -> Result<()> {
    let script = Script::new().text("let me look").call("c1", "read", json!({ "path": "a" })).stall("hold");
    let model = Scripted::new(script).start().await?;
    let gent = Setup::with_messages_api(&model)?.start().await?;
    let session = gent.session().await?;
    let sent = session.send("go")?;
    session.events.wait_for("text", |event| matches!(event, AgentEvent::StreamChunk { .. })).await?;
    session.cancel().await?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) MCP SS1 SC* SE1(Interrupted) MR(a1) MR(t1:c1=Interrupted) TF(c1) TC(interrupted)")
}

#[tokio::test]
async fn a_stream_that_breaks_after_text_goes_on_with_a_continuation_trace_6() -> Result<()> {
    let script = Script::new().text("first half").cut_after(1).text("second half");
    let (model, _gent, session) = open(script).await?;
    let turn = session.ask("go").await?;
    turn.expect(
        "MR(u) MCP SS1 SC* SE1(Failed) ERR MR(a1) MR(u:continuation:1) MCP SS2 SC* SE2(Answered) MR(a2) TC",
    )?;
    let AgentEvent::TurnCompleted { usage, .. } = turn.receipt().unwrap() else { panic!() };
    assert_eq!(*usage, None);
    assert!(String::from_utf8_lossy(&model.request(2).await?.bytes).contains("first half"));
    Ok(())
}

#[tokio::test]
async fn a_transient_failure_before_output_is_tried_again_within_one_step_trace_7_g5() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().error(503, Some(0)).text("hello")).await?;
    let turn = session.ask("hi").await?;
    turn.expect("MR(u) MCP SS1 RETRY(1/3) SC* SE1(Answered) MR(a1) TC")
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_tool_reports_the_call_and_goes_on_trace_10_e2() -> Result<()> {
    let model = Scripted::new(Script::new()).start().await?;
    let gent = Gent::start(&model).await?;
    let running = Pipe::new(gent.place(), "running")?;
    let command = format!("echo c1 >> ran; : > {}; exec sleep 600", running.path().display());
    model.script(Script::new().tool("bash", json!({ "command": command })).text("it was cut"));
    let session = gent.session().await?;
    let sent = session.send("run it")?;
    running.opened().await?;
    let gent = gent.restart().await?;
    let turn = session.again(&gent).await?.turn(&sent.message).await?;
    turn.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) MR(t1:c1=Interrupted) TF(c1) \
         MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    assert_eq!(gent.place().read("ran"), "c1\n");
    Ok(())
}

#[tokio::test]
async fn a_turn_that_cannot_begin_says_why_and_fails_its_caller_trace_11() -> Result<()> {
    let (model, _gent, session) = open(Script::new()).await?;
    let sent = session.send(&"x".repeat(600_000))?;
    let turn = session.turn(&sent.message).await?;
    turn.expect("MR(u) ERR TC(streamFailed)")?;
    let error = sent.reply().await?.unwrap_err();
    let gent_client::CallError::Rpc(error) = error else { panic!("{error:?}") };
    assert_eq!(error.tag(), "SessionRuntimeError");
    assert_eq!(model.requests().len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_cancel_that_names_a_message_before_it_is_sent_stops_its_turn_trace_12() -> Result<()> {
    let (model, _gent, session) = open(Script::new()).await?;
    let request = session.new_request()?;
    session.cancel_message(&client_message_id(&request)).await?;
    let sent = session.send_as("never to be asked", request);
    session.turn(&sent.message).await?.expect("MR(u) TC(interrupted)")?;
    assert_eq!(model.requests().len(), 0);
    Ok(())
}

#[tokio::test]
async fn the_last_step_may_not_call_a_tool_trace_13_e17() -> Result<()> {
    let (model, gent, session) = open(Script::new()).await?;
    gent.place().write("a.txt", "alpha\n")?;
    let turn = session.ask("TOOLS:500 FILE:a.txt").await?;
    let end = "MR(u:final-step) MCP SS200 SE200(ToolCalls) MR(a200) MR(t200:call__200=StepLimit) \
               TF(call__200) TC(unanswered)";
    turn.expect_end(end)?;
    let last = model.request(200).await?;
    assert_eq!(last.body.0["tool_choice"], json!("none"));
    assert_eq!(last.tools(), model.request(199).await?.tools());
    Ok(())
}
