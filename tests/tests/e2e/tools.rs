//! Owns the rows about tool calls of a step: how many at once, what a failed one means, what the model sees.

use anyhow::Result;
use gent_e2e::harness::Pipe;
use gent_e2e::scripted::Script;
use gent_protocol::{AgentEvent, Message, Part, QuestionDecision};
use serde_json::{Value, json};

use crate::questions::{answer, no, open_asking, question};
use crate::world::open;

/// The most calls that ran at the same time, as the events tell.
fn most_at_once(events: &[gent_protocol::EventEnvelope]) -> usize {
    let (mut now, mut most) = (0, 0);
    for envelope in events {
        match envelope.event {
            AgentEvent::ToolCallStarted { .. } => now += 1,
            AgentEvent::ToolCallSucceeded { .. } | AgentEvent::ToolCallFailed { .. } => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

#[tokio::test]
async fn ten_calls_of_a_step_run_at_most_eight_at_once_and_answer_in_order_e1() -> Result<()> {
    let (model, gent, session) = open(Script::new()).await?;
    let eighth = Pipe::new(gent.place(), "eighth")?;
    let go = gent.place().root().join("go");
    let wait = |n: usize| {
        let tell = if n == 8 { format!(": > {};", eighth.path().display()) } else { String::new() };
        let until = format!("while [ ! -e {} ]; do read -t 0.05 < <(:) || :; done; echo {n}", go.display());
        ("bash", json!({ "command": format!("{tell} {until}") }))
    };
    model.script(Script::new().tools((1..=10).map(wait)).text("done"));
    let sent = session.send("run ten")?;
    eighth.opened().await?;
    std::fs::write(go, "")?;
    let turn = session.turn(&sent.message).await?;
    assert_eq!(most_at_once(&turn.events), 8);
    let results = model.request(2).await?.tool_results();
    let printed = results.iter().map(|result| serde_json::from_str::<Value>(result));
    let printed: Vec<Value> = printed.map(|result| Ok(result?["stdout"].clone())).collect::<Result<_>>()?;
    let expected: Vec<Value> = (1..=10).map(|n| json!(format!("{n}\n"))).collect();
    assert_eq!(printed, expected);
    Ok(())
}

#[tokio::test]
async fn a_call_of_an_unknown_tool_fails_and_the_turn_goes_on_e14() -> Result<()> {
    let (model, _gent, session) = open(Script::new().tool("fly", json!({})).text("no wings")).await?;
    let turn = session.ask("fly").await?;
    turn.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) TS(c1) TF(c1) MR(t1:c1=error) MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    assert!(model.request(2).await?.tool_results()[0].contains("fly"));
    Ok(())
}

#[tokio::test]
async fn a_call_with_input_that_does_not_fit_fails_with_the_reason_e15() -> Result<()> {
    let calls = [("read", json!({ "path": 7 })), ("bash", json!({ "comand": "echo ran > ran" }))];
    let script = Script::new().tools(calls).text("I see");
    let (model, gent, session) = open(script).await?;
    let turn = session.ask("read").await?;
    turn.expect(
        "MR(u) MCP SS1 SE1(ToolCalls) MR(a1) {TS(c1) TS(c2) TF(c1) TF(c2)} MR(t1:c1=error:c2=error) \
         MCP SS2 SE2(Answered) MR(a2) TC",
    )?;
    let results = model.request(2).await?.tool_results();
    let told = results.iter().map(|result| serde_json::from_str::<Value>(result));
    let told: Vec<Value> = told.map(|result| Ok(result?["error"].clone())).collect::<Result<_>>()?;
    assert_eq!(told[0], "Tool 'read' input failed: invalid type: integer `7`, expected a string");
    assert_eq!(told[1], "Tool 'bash' input failed: missing field `command`");
    assert_eq!(gent.place().read("ran"), "");
    Ok(())
}

#[tokio::test]
async fn a_call_whose_input_is_no_json_fails_and_the_turn_goes_on() -> Result<()> {
    let script = Script::new().empty().raw_call("read", "{\"path\": ").text("I see");
    let (model, _gent, session) = open(script).await?;
    let turn = session.ask("read").await?;
    turn.expect_end("MCP SS2 SC* SE2(Answered) MR(a2) TC")?;
    assert!(model.request(2).await?.tool_results()[0].contains("Tool 'read' input failed"));
    Ok(())
}

#[tokio::test]
async fn a_long_result_is_bounded_for_the_model_and_stored_whole_e19() -> Result<()> {
    let script = Script::new()
        .tool("bash", json!({ "command": "head -c 200000 /dev/zero | tr '\\0' x" }))
        .tool("bash", json!({ "command": "true" }))
        .text("long");
    let (model, gent, session) = open(script).await?;
    let turn = session.ask("print").await?;
    let seen = model.request(2).await?.tool_results()[0].clone();
    assert!((7000..=8000).contains(&seen.chars().count()), "{}", seen.chars().count());
    let gent = gent.restart().await?;
    let session = session.again(&gent).await?;
    session.ask("TEXT:1").await?;
    for number in 3..=4 {
        assert_eq!(model.request(number).await?.tool_results()[0], seen, "request {number}");
    }
    let whole = |result: &Value| result["stdout"] == json!("x".repeat(200_000));
    let first = |messages: &[Message]| messages.iter().flat_map(Message::tool_outcomes).next().cloned();
    assert!(whole(&first(&session.messages().await?).unwrap().result));
    let told: Vec<Message> = turn.messages().cloned().collect();
    assert!(whole(&first(&told).unwrap().result));
    let ended = turn.events.iter().find_map(|envelope| match &envelope.event {
        AgentEvent::ToolCallSucceeded { result_json, .. } => result_json.clone(),
        _ => None,
    });
    assert!(whole(&serde_json::from_str(&ended.unwrap())?));
    Ok(())
}

#[tokio::test]
async fn without_leave_a_command_does_not_run_and_the_model_is_told_why() -> Result<()> {
    let script = Script::new().tool("bash", json!({ "command": "echo ran > ran" })).text("may I?");
    let (model, gent, session) = open_asking(script).await?;
    let sent = session.send("run")?;
    let shown = question(&session, 1).await?;
    assert_eq!(shown.question.metadata.as_ref().unwrap()["command"], "echo ran > ran");
    let declined = QuestionDecision { notes: Some("not today".into()), ..no() };
    answer(&session, &shown, declined).await?;
    session.turn(&sent.message).await?;
    let told = &model.request(2).await?.tool_results()[0];
    assert!(told.contains("blocked") && told.contains("not today"), "{told}");
    assert_eq!(gent.place().read("ran"), "");
    Ok(())
}

#[tokio::test]
async fn the_servers_own_token_never_reaches_the_model() -> Result<()> {
    let (model, gent, session) = open(Script::new()).await?;
    let token_file = gent_client::token_path(&gent.place().data());
    model.script(Script::new().tool("read", json!({ "path": token_file })).text("nothing to see"));
    session.ask("read it").await?;
    let shown = &model.request(2).await?.tool_results()[0];
    assert!(shown.contains("[REDACTED]") && !shown.contains(gent.token()?.expose()), "{shown}");
    Ok(())
}

#[tokio::test]
async fn calls_of_an_answer_that_was_cut_for_length_do_not_run() -> Result<()> {
    let script = Script::new().tool("bash", json!({ "command": "echo ran > ran" })).length_cut().text("cut");
    let (_model, gent, session) = open(script).await?;
    let turn = session.ask("run").await?;
    assert_eq!(gent.place().read("ran"), "", "{}", turn.trace());
    let calls = turn.messages().flat_map(|message| message.parts.iter());
    assert!(calls.filter(|part| matches!(part, Part::ToolCall(_))).count() <= 1);
    Ok(())
}
