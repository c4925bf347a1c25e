//! Owns the rows about the order of turns on a branch.

use anyhow::Result;
use gent_e2e::scripted::Script;
use gent_protocol::GetQueue;

use crate::world::open;

#[tokio::test]
async fn three_prompts_to_an_idle_branch_run_one_after_the_other_in_their_order_c1() -> Result<()> {
    let script = Script::new().text("one").stall("hold").text("two").text("three");
    let (model, _gent, session) = open(script).await?;
    let first = session.send("first")?;
    model.gate("hold").reached(1).await?;
    let second = session.send("second")?;
    session.queued(1).await?;
    let third = session.send("third")?;
    let admitted = [first.message.clone(), second.message.clone(), third.message.clone()];
    assert_eq!(session.queued(2).await?, admitted[1..]);
    model.gate("hold").open();
    for (message, answer) in admitted.iter().zip(["one", "two", "three"]) {
        let turn = session.turn(message).await?;
        // Whole: nothing of another turn stands between its events.
        turn.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")?;
        assert_eq!(turn.answer(), answer);
    }
    for sent in [first, second, third] {
        sent.reply().await??;
    }
    assert_eq!(session.ended_turns(), admitted);
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_fails_in_its_own_turn_fails_its_caller_alone_c13() -> Result<()> {
    let script = Script::new().text("before").stall("hold").text("still here");
    let (model, _gent, session) = open(script).await?;
    let before = session.send("before")?;
    model.gate("hold").reached(1).await?;
    let failing = session.send(&"x".repeat(600_000))?;
    session.queued(1).await?;
    let waiting = session.send("waiting")?;
    let order = [before.message.clone(), failing.message.clone(), waiting.message.clone()];
    assert_eq!(session.queued(2).await?, order[1..]);
    model.gate("hold").open();
    session.turn(&failing.message).await?.expect("MR(u) ERR TC(streamFailed)")?;
    assert!(failing.reply().await?.is_err());
    before.reply().await??;
    waiting.reply().await??;
    assert_eq!(session.turn(&order[2]).await?.answer(), "still here");
    assert_eq!(session.ended_turns(), order);
    Ok(())
}

#[tokio::test]
async fn a_waiting_prompt_is_shown_in_the_queue_until_its_turn_begins() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("one").stall("hold").text("two")).await?;
    let _first = session.send("first")?;
    model.gate("hold").reached(1).await?;
    let second = session.send("second")?;
    let queue = GetQueue { session_id: session.id.clone(), branch_id: session.branch.clone() };
    assert_eq!(session.queued(1).await?, std::slice::from_ref(&second.message));
    model.gate("hold").open();
    session.turn(&second.message).await?;
    assert!(session.client.call(queue).await?.follow_up.is_empty());
    Ok(())
}
