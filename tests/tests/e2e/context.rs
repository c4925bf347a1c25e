//! Owns the rows about what a request is made of: the window, the prompt, the prefix that stays.

use anyhow::Result;
use gent_e2e::scripted::{Script, ScriptedServer};
use serde_json::json;

use crate::world::open;

/// Bytes of `next` that are not those of `before`, counted from the end of `before`.
fn lost_prefix(before: &[u8], next: &[u8]) -> usize {
    let shared = before.iter().zip(next).take_while(|(a, b)| a == b).count();
    before.len() - shared
}

async fn rounds(model: &ScriptedServer, count: usize) -> Result<()> {
    for number in 1..count {
        let (before, next) = (model.request(number).await?, model.request(number + 1).await?);
        assert_eq!(next.system(), before.system());
        assert_eq!(next.tools(), before.tools());
        let lost = lost_prefix(&before.bytes, &next.bytes);
        assert!(lost <= 64, "round {number}: {lost} bytes of the earlier request are not repeated");
    }
    Ok(())
}

#[tokio::test]
async fn a_message_larger_than_the_window_fails_its_turn_and_the_next_truncates_h5() -> Result<()> {
    let (model, _gent, session) = open(Script::new().text("small again")).await?;
    let sent = session.send(&"x".repeat(600_000))?;
    let turn = session.turn(&sent.message).await?;
    let error = turn.errors().join(" ");
    assert!(error.contains("BudgetExceeded"), "{error}");
    assert!(sent.reply().await?.is_err());
    assert_eq!(model.requests().len(), 0);
    assert_eq!(session.messages().await?.len(), 1);
    assert_eq!(session.ask("small").await?.answer(), "small again");
    assert!(model.request(1).await?.bytes.len() < 100_000);
    Ok(())
}

#[tokio::test]
async fn an_unknown_reason_to_finish_is_an_answer_h12() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().text("done").finish("whatever")).await?;
    session.ask("go").await?.expect("MR(u) MCP SS1 SC* SE1(Answered) MR(a1) TC")
}

#[tokio::test]
async fn each_round_repeats_the_bytes_of_the_one_before_h20() -> Result<()> {
    let (model, gent, session) = open(Script::new()).await?;
    for number in 1..=30 {
        gent.place().write(&format!("f{number}.txt"), &format!("file {number}\n").repeat(100))?;
    }
    session.ask("TOOLS:30 FILE:f%.txt").await?;
    rounds(&model, 31).await
}

#[tokio::test]
async fn a_second_turn_repeats_the_prompt_and_the_tools_of_the_first_h20() -> Result<()> {
    let script = Script::new().tool("read", json!({ "path": "a" })).text("one").text("two");
    let (model, _gent, session) = open(script).await?;
    session.ask("first").await?;
    session.ask("second").await?;
    rounds(&model, 3).await
}

#[tokio::test]
async fn an_empty_answer_is_asked_to_answer_twice_and_then_left_unanswered_g8() -> Result<()> {
    let (_model, _gent, session) = open(Script::new().empty().empty().empty()).await?;
    let turn = session.ask("go").await?;
    assert!(turn.trace().contains("MR(u:continuation:2)"), "{}", turn.trace());
    turn.expect_end("TC(unanswered)")?;
    Ok(())
}
