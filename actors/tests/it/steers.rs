//! Owns what is said to a turn: where it joins, where it waits, that it is said once.

use gent_protocol::{Message, MessageId};
use gent_storage::message_get;

use crate::rig::{Rig, Setup, calls, contents, text};

/// A stored message.
fn message(rig: &Rig, id: &str) -> Message {
    let (branch, id) = (rig.session.branch_id.clone(), MessageId::parse(id).unwrap());
    rig.read(move |txn| message_get(txn, &branch, &id)).expect("the message is stored").message
}

#[actix::test]
async fn a_steer_during_a_tool_step_is_read_behind_its_results_by_the_same_turn_d1() {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    let gate = rig.tools.gate("a");
    let steer = async {
        gate.reached().await;
        rig.steer("s", "look there").await;
        gate.open();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), steer);
    sent.unwrap();
    assert_eq!(
        rig.trace().await,
        "SessionStarted MR(r) MCP SS1 SE1(ToolCalls) MR(r:assistant:1) TS(c1) TOK(c1) \
         MR(r:tool-result:1) MR(s:interjection) MCP SS2 SE2(Answered) MR(r:assistant:2) TC()"
    );
    assert_eq!(rig.script.read(1).last().unwrap(), "user: look there");
    let (results, steer) = (message(&rig, "message:r:tool-result:1"), message(&rig, "s:interjection"));
    assert!(steer.created_at > results.created_at);
    assert!(steer.metadata.unwrap().joined_turn);
}

#[actix::test]
async fn a_steer_while_the_final_answer_streams_gets_one_more_step_d2() {
    let rig = Rig::still(vec![text("done"), text("more")]).await;
    let gate = rig.script.hold(0, 1);
    let steer = async {
        gate.reached().await;
        rig.steer("s", "and this").await;
        gate.open();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), steer);
    sent.unwrap();
    let trace = rig.trace().await;
    assert!(trace.contains("SE1(Answered) MR(r:assistant:1) MR(s:interjection) MCP SS2 "), "{trace}");
    assert_eq!(rig.script.read(1), ["user: hi", "assistant: done", "user: and this"]);
    assert_eq!(trace.matches("TC(").count(), 1, "{trace}");
}

#[actix::test]
async fn a_steer_on_the_last_step_waits_and_opens_the_next_turn_d3() {
    let setup = Setup { max_steps: Some(1), ..Setup::still(vec![text("done"), text("next")]) };
    let rig = Rig::of(setup).await;
    let gate = rig.script.hold(0, 1);
    let steer = async {
        gate.reached().await;
        rig.steer("s", "and this").await;
        gate.open();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), steer);
    sent.unwrap();
    rig.ended(2).await;
    let trace = rig.trace().await;
    assert!(trace.contains("MR(r:assistant:1) TC() MR(s:interjection) "), "{trace}");
    assert!(trace.ends_with("MR(s:interjection:assistant:1) TC()"), "{trace}");
}

#[actix::test]
async fn a_steer_to_an_idle_branch_waits_and_is_shown_d4() {
    let rig = Rig::still(Vec::new()).await;
    rig.steer("s", "later").await;
    assert_eq!(contents(&rig.queue().await.steering), ["later"]);
    assert_eq!(rig.trace().await, "SessionStarted");
}

#[actix::test]
async fn a_kill_before_a_steer_joins_leaves_it_for_the_turn_that_goes_on_d6() {
    let mut rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    rig.post("hi").await.unwrap();
    rig.tools.gate("a").reached().await;
    rig.steer("s", "look there").await;
    rig.restart().await;
    rig.engine.resume(true);
    rig.ended(1).await;
    assert_eq!(rig.script.read(1).last().unwrap(), "user: look there");
    let trace = rig.trace().await;
    assert_eq!(trace.matches("MR(s:interjection)").count(), 1, "{trace}");
    assert!(trace.ends_with(":assistant:2) TC()"), "{trace}");
    assert!(rig.queue().await.steering.is_empty());
}

#[actix::test]
async fn a_kill_after_a_steer_joined_says_it_once_and_opens_no_turn_of_it_d6() {
    let mut rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("lost"), text("done")]).await;
    rig.script.hold(1, 0);
    rig.post("hi").await.unwrap();
    let gate = rig.tools.gate("a");
    gate.reached().await;
    rig.steer("s", "look there").await;
    gate.open();
    rig.script.asked(2).await;
    rig.restart().await;
    rig.engine.resume(true);
    rig.ended(1).await;
    assert_eq!(rig.script.read(2), rig.script.read(1));
    let trace = rig.trace().await;
    assert_eq!(trace.matches("MR(s:interjection)").count(), 1, "{trace}");
    assert!(trace.ends_with(":assistant:2) TC()"), "{trace}");
}

#[actix::test]
async fn a_steer_that_joined_is_not_said_again_when_it_is_repeated_a12() {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    let gate = rig.tools.gate("a");
    let steer = async {
        gate.reached().await;
        rig.steer("s", "look there").await;
        gate.open();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), steer);
    sent.unwrap();
    let before = rig.trace().await;
    rig.wake("s", "look there").await;
    assert!(rig.queue().await.steering.is_empty());
    assert_eq!(rig.trace().await, before);
}
