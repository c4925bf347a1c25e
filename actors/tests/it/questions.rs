//! Owns questions to a person: what is asked when, whose answer counts, and that a call runs on with its own answer.

use futures_util::join;
use gent_actors::EngineError;
use gent_extension_api::{ToolError, tool_fn};
use gent_protocol::{InteractionRequestId, QuestionDecision, RespondInteraction};
use gent_storage::failpoint::arm_here;
use gent_storage::question_answer;
use serde_json::Value;

use crate::asker::{Runs, answers, asks, asks_beside, decision, declare, rest, rig_that_asks};
use crate::rig::{Gate, Rig, Setup, in_time, text, yields};

/// Answers with words.
async fn say(rig: &Rig, question: &InteractionRequestId, approved: bool, notes: &str) {
    let answer = RespondInteraction {
        request_id: question.clone(),
        session_id: rig.session.session_id.clone(),
        branch_id: rig.session.branch_id.clone(),
        decision: QuestionDecision { notes: Some(notes.into()), ..decision(approved) },
    };
    rig.engine.respond(&rig.workspace, answer).await.unwrap();
}

/// Stores the answer as a branch does that dies before it goes on.
fn store_answer(rig: &Rig, question: &InteractionRequestId) {
    let (branch, question) = (rig.session.branch_id.clone(), question.clone());
    let at = gent_protocol::Millis(1_700_000_000_000);
    let write = move |txn: &mut gent_storage::WriteTxn<'_>| {
        question_answer(txn, &branch, &question, &decision(true), at)
    };
    rig.store.write_blocking("test.answer", write).unwrap();
}

fn is_mismatch(answered: Result<(), EngineError>, shows: Option<&InteractionRequestId>) -> bool {
    matches!(answered, Err(EngineError::QuestionMismatch { shown, .. }) if shown.as_ref() == shows)
}

#[actix::test]
async fn a_call_that_asks_waits_and_runs_again_with_the_answer_f1() {
    let (rig, runs) = rig_that_asks(vec![asks(&[("c1", &["sure?"])]), text("done")]).await;
    let answer = async {
        let question = rig.question(1).await;
        rest().await;
        assert_eq!(rig.shown().await, (Some(question.clone()), true));
        say(&rig, &question, true, "go").await;
    };
    let both = Box::pin(async { join!(rig.send("r", "hi"), answer) });
    let (sent, ()) = in_time("the turn ends", both).await;
    sent.unwrap();
    assert_eq!(runs.began(), ["c1", "c1"]);
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes: go"])]);
    assert_eq!(
        rig.trace().await,
        "SessionStarted MR(r) MCP SS1 SE1(ToolCalls) MR(r:assistant:1) TS(c1) InteractionPresented \
         InteractionResolved TS(c1) TOK(c1) MR(r:tool-result:1) MCP SS2 SE2(Answered) MR(r:assistant:2) TC()"
    );
    assert_eq!(rig.shown().await, (None, false));
}

#[actix::test]
async fn a_question_is_shown_again_after_a_restart_and_its_answer_resumes_the_turn_f2() {
    let (mut rig, runs) = rig_that_asks(vec![asks(&[("c1", &["sure?"])]), text("done")]).await;
    rig.begin("r");
    let question = rig.question(1).await;
    rest().await;
    rig.restart().await;
    rig.engine.resume(true);
    rest().await;
    assert_eq!(rig.shown().await, (Some(question.clone()), true));
    assert_eq!(runs.began(), ["c1"], "it runs again with its answer and not before");
    rig.respond(&question, true).await.unwrap();
    rig.ended(1).await;
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes"])]);
    assert_eq!(rig.asked().await, ["sure?"]);
    assert!(rig.trace().await.ends_with("MR(r:assistant:2) TC()"));
}

#[actix::test]
async fn an_answer_that_was_stored_before_a_death_is_taken_once_at_the_start_f3() {
    let (mut rig, runs) = rig_that_asks(vec![asks(&[("c1", &["sure?"])]), text("done")]).await;
    rig.begin("r");
    let question = rig.question(1).await;
    rest().await;
    store_answer(&rig, &question);
    rest().await;
    assert_eq!(runs.began(), ["c1"]);
    rig.restart().await;
    rig.engine.resume(true);
    rig.ended(1).await;
    assert_eq!(runs.began(), ["c1", "c1"]);
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes"])]);
    assert_eq!((rig.asked().await.len(), rig.resolved().await), (1, vec!["yes"]));
}

#[actix::test]
async fn a_call_that_asks_twice_is_not_asked_the_first_again_after_a_death_f4() {
    let (mut rig, _) = rig_that_asks(vec![asks(&[("c1", &["one?", "two?"])]), text("done")]).await;
    rig.begin("r");
    rig.respond(&rig.question(1).await, true).await.unwrap();
    let second = rig.question(2).await;
    rest().await;
    rig.restart().await;
    rig.engine.resume(true);
    rest().await;
    assert_eq!(rig.shown().await, (Some(second.clone()), true));
    rig.respond(&second, false).await.unwrap();
    rig.ended(1).await;
    assert_eq!(rig.asked().await, ["one?", "two?"]);
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes", "no"])]);
}

#[actix::test]
async fn the_first_of_two_answers_counts_and_the_other_is_refused_f5() {
    let script = vec![asks_beside(&[("c1", &["sure?"])], ("c2", "wait", "a")), text("done")];
    let (rig, _) = rig_that_asks(script).await;
    rig.begin("r");
    let question = rig.question(1).await;
    let (first, second) = join!(rig.respond(&question, true), rig.respond(&question, false));
    first.unwrap();
    let is_conflict = |answered: Result<(), EngineError>| matches!(answered, Err(EngineError::QuestionConflict { question: of }) if of == question);
    assert!(is_conflict(second));
    rig.tools.gate("a").open();
    rig.ended(1).await;
    assert!(is_conflict(rig.respond(&question, false).await), "nor when it has been taken");
    assert_eq!(rig.results("r", 1).await[0], answers("c1", &["yes"]));
    assert_eq!(rig.resolved().await, ["yes"]);
}

#[actix::test]
async fn an_answer_repeated_before_it_is_taken_wakes_the_turn_and_is_told_again_f6() {
    let (rig, _) = rig_that_asks(vec![asks(&[("c1", &["sure?"])]), text("done")]).await;
    rig.begin("r");
    let question = rig.question(1).await;
    rest().await;
    store_answer(&rig, &question);
    rig.respond(&question, true).await.unwrap();
    rig.ended(1).await;
    assert_eq!(rig.resolved().await, ["yes", "yes"]);
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes"])]);
}

#[actix::test]
async fn an_answer_repeated_after_it_was_taken_changes_and_tells_nothing_f7() {
    let (rig, runs) = rig_that_asks(vec![asks(&[("c1", &["sure?"])]), text("done")]).await;
    let answered = runs.hold_answered();
    rig.begin("r");
    let question = rig.question(1).await;
    rig.respond(&question, true).await.unwrap();
    answered.reached().await;
    rig.respond(&question, true).await.unwrap();
    answered.open();
    rig.ended(1).await;
    rig.respond(&question, true).await.unwrap();
    rest().await;
    assert_eq!(rig.resolved().await, ["yes"]);
    assert_eq!(runs.began(), ["c1", "c1"]);
}

#[actix::test]
async fn an_answer_at_another_branch_is_refused_and_leaves_the_question_f8() {
    let (mut rig, _) = rig_that_asks(vec![asks(&[("c1", &["sure?"])]), text("done")]).await;
    rig.begin("r");
    let question = rig.question(1).await;
    rest().await;
    let create = gent_protocol::CreateSession { cwd: Some("/".into()), ..Default::default() };
    let other = rig.engine.session_create(&rig.workspace, create).await.unwrap();
    let own = std::mem::replace(&mut rig.session, other);
    assert!(is_mismatch(rig.respond(&question, false).await, None));
    rig.session = own;
    assert_eq!(rig.shown().await, (Some(question.clone()), true));
    rig.respond(&question, true).await.unwrap();
    rig.ended(1).await;
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes"])]);
}

#[actix::test]
async fn an_answer_to_a_dismissed_question_is_refused_f9() {
    let (rig, _) = rig_that_asks(vec![asks(&[("c1", &["sure?"])]), text("next")]).await;
    rig.begin("r");
    let question = rig.question(1).await;
    rest().await;
    rig.cancel().await;
    rig.ended(1).await;
    assert_eq!(rig.resolved().await, ["dismissed"]);
    assert!(is_mismatch(rig.respond(&question, true).await, None));
    rig.send("s", "again").await.unwrap();
    assert_eq!(rig.resolved().await, ["dismissed"]);
    assert!(rig.trace().await.ends_with("MR(s:assistant:1) TC()"));
}

/// Two calls of one step ask; the first is told yes, the second no.
async fn two_calls_that_ask(one: &str, two: &str) -> (Rig, Runs) {
    let script = vec![asks(&[("c1", &[one]), ("c2", &[two])]), text("done")];
    let (rig, runs) = rig_that_asks(script).await;
    rig.begin("r");
    let first = rig.question(1).await;
    rest().await;
    assert_eq!(rig.asked().await, [one]);
    assert_eq!(rig.shown().await, (Some(first.clone()), true));
    say(&rig, &first, true, "first").await;
    let second = rig.question(2).await;
    rest().await;
    assert_eq!(rig.shown().await, (Some(second.clone()), true));
    assert_ne!(first, second);
    say(&rig, &second, false, "second").await;
    rig.ended(1).await;
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["yes: first"]), answers("c2", &["no: second"])]);
    (rig, runs)
}

#[actix::test]
async fn two_calls_of_a_step_ask_one_after_the_other_f10() {
    let (rig, runs) = two_calls_that_ask("one?", "two?").await;
    assert_eq!(rig.asked().await, ["one?", "two?"]);
    assert_eq!(runs.began(), ["c1", "c2", "c1", "c2"]);
}

#[actix::test]
async fn two_calls_that_ask_the_same_get_an_answer_each_f11() {
    let (rig, _) = two_calls_that_ask("sure?", "sure?").await;
    assert_eq!(rig.asked().await, ["sure?", "sure?"]);
}

#[actix::test]
async fn a_call_that_asks_something_else_when_it_runs_again_is_answered_anew_f12() {
    let (rig, runs) = rig_that_asks(vec![asks(&[("c1", &["# time?"])]), text("done")]).await;
    rig.begin("r");
    let first = rig.question(1).await;
    rig.respond(&first, true).await.unwrap();
    let second = rig.question(2).await;
    rest().await;
    assert_ne!(first, second);
    assert_eq!(rig.shown().await, (Some(second.clone()), true));
    rig.respond(&second, false).await.unwrap();
    rig.ended(1).await;
    assert_eq!(rig.asked().await, ["first time?", "again time?"]);
    assert_eq!(rig.results("r", 1).await, [answers("c1", &["no"])]);
    assert_eq!(runs.began(), ["c1", "c1", "c1"]);
}

#[actix::test]
async fn an_answer_that_comes_while_another_call_runs_resumes_the_turn_at_once_f13() {
    let script = vec![asks_beside(&[("c1", &["sure?"])], ("c2", "wait", "a")), text("done")];
    let (rig, runs) = rig_that_asks(script).await;
    rig.begin("r");
    rig.respond(&rig.question(1).await, true).await.unwrap();
    rest().await;
    assert_eq!(runs.began(), ["c1"], "the step is not over");
    rig.tools.gate("a").open();
    rig.ended(1).await;
    assert_eq!(rig.results("r", 1).await[0], answers("c1", &["yes"]));
    assert_eq!((runs.began(), rig.tools.began()), (vec!["c1".into(), "c1".into()], vec!["c2".into()]));
}

fn breaks() -> Result<Value, ToolError> {
    panic!("it breaks");
}

#[actix::test]
async fn a_turn_that_fails_dismisses_its_question_f14() {
    let (runs, gate) = (Runs::default(), Gate::default());
    let holds = gate.clone();
    let burst = tool_fn(declare("burst", "breaks"), None, move |_, _: Value| {
        let gate = holds.clone();
        async move {
            gate.pass().await;
            breaks()
        }
    });
    let script = vec![asks_beside(&[("c1", &["sure?"])], ("c2", "burst", "")), text("next")];
    let more = runs.extension().tool(burst).alone();
    let rig = Rig::of(Setup { more, ..Setup::still(script) }).await;
    rig.begin("r");
    let question = rig.question(1).await;
    gate.open();
    rig.ended(1).await;
    let trace = rig.trace().await;
    let end = "InteractionResolved Error(the tool 'burst' broke: it breaks) TC(failed)";
    assert!(trace.ends_with(end), "{trace}");
    assert_eq!(rig.resolved().await, ["dismissed"]);
    assert_eq!(rig.shown().await, (None, false));
    assert!(is_mismatch(rig.respond(&question, true).await, None));
    rig.send("s", "again").await.unwrap();
}

#[actix::test]
async fn an_answer_to_a_call_that_has_ended_lets_the_turn_wait_for_the_next_question() {
    let script = vec![asks(&[("c1", &["one?"]), ("c2", &["two?"])]), text("done")];
    let (rig, runs) = rig_that_asks(script).await;
    // The question is stored, its call is not told so and ends.
    arm_here("store.after_commit:question.ask=error").unwrap();
    rig.begin("r");
    let first = rig.question(1).await;
    rest().await;
    say(&rig, &first, true, "go").await;
    let second = rig.question(2).await;
    // Not until nothing can move: what goes round always can.
    yields(1_000).await;
    assert_eq!(rig.shown().await, (Some(second.clone()), true), "it waits, and does not go round");
    say(&rig, &second, true, "go").await;
    rig.ended(1).await;
    assert_eq!(runs.began(), ["c1", "c2", "c2"], "the call that has ended does not run again");
    assert!(rig.trace().await.ends_with("MR(r:assistant:2) TC()"));
}
