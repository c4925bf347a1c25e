//! Owns the rows about the order of turns on a branch.

use anyhow::Result;
use gent_e2e::scripted::Script;
use gent_protocol::{AgentEvent, GetQueue, MessageId};

use crate::world::open;

#[tokio::test]
async fn two_prompts_to_an_idle_branch_run_one_after_the_other_c1() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("one").stall("hold").text("two")).await?;
    let first = session.send("first")?;
    model.gate("hold").reached(1).await?;
    let second = session.send("second")?;
    session.events.wait_for("the text", |event| matches!(event, AgentEvent::StreamChunk { .. })).await?;
    model.gate("hold").open();
    session.turn(&first.message).await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    session.turn(&second.message).await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
    let ended = session.events.events().into_iter().filter_map(|envelope| match envelope.event {
        AgentEvent::TurnCompleted { message_id, .. } => Some(message_id),
        _ => None,
    });
    let (first_id, second_id) = (first.message.clone(), second.message.clone());
    first.reply().await??;
    second.reply().await??;
    assert_eq!(ended.collect::<Vec<MessageId>>(), [first_id, second_id]);
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_fails_in_its_own_turn_fails_its_caller_alone_c13() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("still here")).await?;
    let first = session.send(&"x".repeat(600_000))?;
    let second = session.send("second")?;
    assert!(first.reply().await?.is_err());
    let turn = session.turn(&second.message).await?;
    assert_eq!(turn.answer(), "still here");
    second.reply().await??;
    Ok(())
}

#[tokio::test]
async fn a_waiting_prompt_is_shown_in_the_queue_until_its_turn_begins() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("one").stall("hold").text("two")).await?;
    let _first = session.send("first")?;
    model.gate("hold").reached(1).await?;
    let second = session.send("second")?;
    let queue = GetQueue { session_id: session.id.clone(), branch_id: session.branch.clone() };
    let waiting = gent_e2e::harness::eventually("the queue to hold the prompt", async || {
        let queue = session.client.call(queue.clone()).await?;
        Ok((!queue.follow_up.is_empty()).then_some(queue))
    })
    .await?;
    assert_eq!(waiting.follow_up.len(), 1);
    model.gate("hold").open();
    session.turn(&second.message).await?;
    assert!(session.client.call(queue).await?.follow_up.is_empty());
    Ok(())
}
