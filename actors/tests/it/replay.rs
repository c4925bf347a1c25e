//! Owns what runs again when a step goes on: only a call whose question has its answer, and only with the tool it was
//! meant for.

use gent_extension_api::{FinishReason, StreamPart};
use serde_json::{Value, json};

use crate::asker::{Extra, Runs, answers, asks, asks_beside, rest, rig_that_asks};
use crate::rig::{Answer, Rig, Setup, text};

fn empty() -> Answer {
    Ok(vec![Ok(StreamPart::Finish { reason: FinishReason::Stop })])
}

#[actix::test]
async fn a_death_behind_an_empty_answer_repeats_neither_the_step_nor_the_instruction_e6() {
    let mut rig = Rig::still(vec![empty(), text("cut"), empty(), empty()]).await;
    let cut = rig.script.hold(1, 0);
    rig.begin("r");
    cut.reached().await;
    rig.restart().await;
    rig.engine.resume(true);
    rig.ended(1).await;
    assert_eq!(
        rig.trace().await,
        "SessionStarted MR(r) MCP SS1 SE1(Answered) MR(r:continuation:1) MCP SS2 MCP SS2 SE2(Answered) \
         MR(r:continuation:2) MCP SS3 SE3(Answered) TC(unanswered)"
    );
}

/// The result of a call that did not run again.
fn refused(result: &(String, Value)) -> (&str, &str) {
    (&result.0, result.1["reason"].as_str().unwrap_or("it ran"))
}

/// A call waits for an answer; the server starts again with other extensions; the answer comes.
async fn answered_over_a_restart(call: Answer, before: Extra, after: Extra) -> Rig {
    let script = vec![call, text("next")];
    let mut rig = Rig::of(Setup { more: before.alone(), ..Setup::still(script) }).await;
    rig.begin("r");
    let question = rig.question(1).await;
    rest().await;
    rig.setup.more = after.alone();
    rig.restart().await;
    rig.engine.resume(true);
    rig.respond(&question, true).await.unwrap();
    rig.ended(1).await;
    rig
}

/// The call did not run, the turn says so, and the next one works.
async fn ends_refused(rig: &Rig, runs: &Runs, reason: &str) {
    assert_eq!(runs.began(), ["c1"]);
    assert_eq!(refused(&rig.results("r", 1).await[0]), ("c1", reason));
    let trace = rig.trace().await;
    let end = format!(
        "MR(r:tool-result:1) TF(c1) Error(the call of 'confirm' that waited for an answer did not run: \
         {reason}) TC(failed)"
    );
    assert!(trace.ends_with(&end), "{trace}");
    rig.send("s", "again").await.unwrap();
    assert!(rig.trace().await.ends_with("MR(s:assistant:1) TC()"));
}

#[actix::test]
async fn a_call_does_not_run_again_with_another_version_of_its_extension_e8() {
    let runs = Runs::default();
    let (before, after) = (runs.extension(), runs.extension().revision(Some("2")));
    let rig = answered_over_a_restart(asks(&[("c1", &["sure?"])]), before, after).await;
    ends_refused(&rig, &runs, "SourceMismatch").await;
}

#[actix::test]
async fn a_call_does_not_run_again_with_a_tool_that_is_declared_otherwise_e9() {
    let runs = Runs::default();
    let after = Extra::new().tool(runs.confirm("asks in other words"));
    let rig = answered_over_a_restart(asks(&[("c1", &["sure?"])]), runs.extension(), after).await;
    ends_refused(&rig, &runs, "SchemaMismatch").await;
}

#[actix::test]
async fn a_call_does_not_run_again_without_its_tool_e10() {
    let runs = Runs::default();
    let rig = answered_over_a_restart(asks(&[("c1", &["sure?"])]), runs.extension(), Extra::new()).await;
    ends_refused(&rig, &runs, "ToolUnavailable").await;
}

#[actix::test]
async fn a_call_of_an_extension_without_a_version_does_not_run_again_after_a_restart_e11() {
    let runs = Runs::default();
    let nameless = || runs.extension().revision(None);
    let rig = answered_over_a_restart(asks(&[("c1", &["sure?"])]), nameless(), nameless()).await;
    ends_refused(&rig, &runs, "MissingBinding").await;
}

#[actix::test]
async fn a_call_of_an_extension_without_a_version_runs_again_in_the_same_server_e11() {
    let runs = Runs::default();
    let (more, script) =
        (runs.extension().revision(None).alone(), vec![asks(&[("c1", &["sure?"])]), text("done")]);
    let rig = Rig::of(Setup { more, ..Setup::still(script) }).await;
    rig.begin("r");
    rig.respond(&rig.question(1).await, true).await.unwrap();
    rig.ended(1).await;
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes"])]);
}

#[actix::test]
async fn what_another_call_of_the_step_achieved_stands_when_one_may_not_run_again_e12() {
    let runs = Runs::default();
    let call = asks_beside(&[("c1", &["sure?"])], ("c2", "echo", "kept"));
    let nameless = || runs.extension().revision(None);
    let rig = answered_over_a_restart(call, nameless(), nameless()).await;
    let results = rig.results("r", 1).await;
    assert_eq!(refused(&results[0]), ("c1", "MissingBinding"));
    assert_eq!(results[1], ("c2".to_owned(), json!({ "said": "kept" })));
    let trace = rig.trace().await;
    assert_eq!((trace.matches("TOK(c2)").count(), trace.matches("TF(").count()), (1, 1), "{trace}");
}

#[actix::test]
async fn of_three_calls_only_those_that_asked_run_again_each_with_its_answer_e21() {
    let call = asks_beside(&[("c1", &["one?"]), ("c2", &["two?"])], ("c3", "wait", "a"));
    let (mut rig, runs) = rig_that_asks(vec![call, text("done")]).await;
    rig.begin("r");
    let first = rig.question(1).await;
    rest().await;
    rig.tools.gate("a").open();
    rest().await;
    assert_eq!(rig.shown().await, (Some(first.clone()), true));
    rig.restart().await;
    rig.engine.resume(true);
    rig.respond(&first, true).await.unwrap();
    let second = rig.question(2).await;
    rest().await;
    assert_eq!(runs.began(), ["c1", "c2", "c1"]);
    rig.respond(&second, false).await.unwrap();
    rig.ended(1).await;
    assert_eq!(runs.began(), ["c1", "c2", "c1", "c2"]);
    assert_eq!(rig.tools.began(), ["c3"]);
    let kept = ("c3".to_owned(), json!({ "said": "a" }));
    let results = [answers("c1", &["yes"]), answers("c2", &["no"]), kept];
    assert_eq!(rig.results("r", 1).await, results);
}
