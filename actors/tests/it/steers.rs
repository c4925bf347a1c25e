//! Owns what is said to a turn: where it joins, where it waits, that it is said once.

use gent_extension_api::{Context, SteerMessage};
use gent_protocol::{AgentEvent, Message, MessageId};
use gent_storage::failpoint::arm_here;
use gent_storage::message_get;

use crate::rig::{Rig, Setup, calls, contents, races, text, yields};

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
async fn a_steer_does_not_join_before_the_last_step_either_d3() {
    let script = vec![calls(&[("c1", "wait", "a")]), text("done"), text("next")];
    let rig = Rig::of(Setup { max_steps: Some(2), ..Setup::still(script) }).await;
    let gate = rig.tools.gate("a");
    let steer = async {
        gate.reached().await;
        rig.steer("s", "and this").await;
        gate.open();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), steer);
    sent.unwrap();
    rig.ended(2).await;
    let trace = rig.trace().await;
    assert!(trace.contains("MR(r:assistant:2) TC() MR(s:interjection) "), "{trace}");
}

#[actix::test]
async fn a_steer_to_an_idle_branch_waits_and_is_shown_d4() {
    let rig = Rig::still(Vec::new()).await;
    rig.steer("s", "later").await;
    assert_eq!(contents(&rig.queue().await.steering), ["later"]);
    assert_eq!(rig.trace().await, "SessionStarted");
}

/// A branch that is killed at this place of the write that takes a steer into its turn, and goes on.
async fn killed_where_a_steer_joins(place: &str) -> Rig {
    let mut rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    let steer = async {
        rig.tools.gate("a").reached().await;
        rig.steer("s", "look there").await;
        // Nothing is stored after it: what broke cannot be told either.
        arm_here(&format!("{place}:turn.joinSteers=error,store.in_write:branch.receipt=error")).unwrap();
        rig.tools.gate("a").open();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), steer);
    sent.unwrap_err();
    rig.restart().await;
    rig
}

/// The turn goes on, and reads the steer once.
async fn reads_the_steer_once(rig: &Rig) {
    rig.engine.resume(true);
    rig.ended(1).await;
    let said = rig.script.read(1);
    assert_eq!(said.last().unwrap(), "user: look there");
    assert_eq!(said.len(), 4, "{said:?}");
    let trace = rig.trace().await;
    assert_eq!(trace.matches("MR(s:interjection)").count(), 1, "{trace}");
    assert!(trace.ends_with("MR(r:assistant:2) TC()"), "{trace}");
    assert!(rig.queue().await.steering.is_empty());
}

#[actix::test]
async fn a_kill_before_a_steer_joins_leaves_it_for_the_turn_that_goes_on_d6() {
    let rig = killed_where_a_steer_joins("store.before_commit").await;
    assert_eq!(contents(&rig.queue().await.steering), ["look there"]);
    reads_the_steer_once(&rig).await;
}

#[actix::test]
async fn a_kill_after_a_steer_joined_says_it_once_and_opens_no_turn_of_it_d6() {
    let rig = killed_where_a_steer_joins("store.after_commit").await;
    assert!(rig.queue().await.steering.is_empty());
    reads_the_steer_once(&rig).await;
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
    rig.steer("s", "look there").await;
    assert!(rig.queue().await.steering.is_empty());
    rig.wake("s", "look there").await;
    assert!(rig.queue().await.steering.is_empty());
    assert_eq!(rig.trace().await, before);
}

#[actix::test]
async fn a_steer_that_wakes_joins_the_turn_that_ends_or_opens_its_own_and_is_read_once_d5() {
    let rig = Rig::still((0..3 * races().len()).map(|_| text("done")).collect()).await;
    let mut outcomes = Vec::new();
    for (n, (end_after, steer_after)) in races().enumerate() {
        let (gate, asked) = (rig.script.hold(0, 0), rig.script.n_asked());
        rig.post("hi").await.unwrap();
        rig.script.asked(asked + 1).await;
        let (name, say) = (format!("s{n}"), format!("say {n}"));
        let end = async {
            yields(end_after).await;
            gate.open();
        };
        let steer = async {
            yields(steer_after).await;
            rig.wake(&name, &say).await;
        };
        futures_util::join!(end, steer);
        let is_stored = |event: &AgentEvent| match event {
            AgentEvent::MessageReceived { message } => {
                (message.id.as_str() == format!("{name}:interjection")).then_some(())
            }
            _ => None,
        };
        rig.event(1, is_stored).await;
        rig.send(&format!("next{n}"), "hi").await.unwrap();
        let steer = message(&rig, &format!("{name}:interjection"));
        outcomes.push((name, steer.metadata.unwrap().joined_turn));
        let read = rig.script.read(rig.script.n_asked() - 1);
        assert_eq!(read.iter().filter(|said| **said == format!("user: {say}")).count(), 1);
    }
    let trace = rig.trace().await;
    for (race, (name, has_joined)) in races().zip(&outcomes) {
        assert_eq!(trace.matches(&format!("MR({name}:interjection)")).count(), 1, "{race:?}: {trace}");
        let opened = trace.contains(&format!("MR({name}:interjection:assistant:1)"));
        assert_ne!(*has_joined, opened, "{race:?}: {trace}");
    }
    let n_joined = outcomes.iter().filter(|(_, has_joined)| *has_joined).count();
    assert!(0 < n_joined && n_joined < races().len(), "{n_joined}");
}

#[actix::test]
async fn a_steer_that_joined_cannot_be_stopped_and_its_turn_runs_on_d16() {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    let (gate, last, other) = (rig.tools.gate("a"), rig.script.hold(1, 0), rig.elsewhere().await);
    rig.post("hi").await.unwrap();
    gate.reached().await;
    rig.steer("s", "look there").await;
    gate.open();
    last.reached().await;
    let steer = MessageId::parse("s:interjection").unwrap();
    assert!(!other.session().stop_message(rig.here(), steer).await.unwrap());
    last.open();
    rig.ended(1).await;
    let trace = rig.trace().await;
    assert!(
        trace.contains(" MR(s:interjection) MCP SS2 ") && trace.ends_with(":assistant:2) TC()"),
        "{trace}"
    );
}

/// A branch whose turn `r` holds in a call, and to which another branch has said something.
async fn with_a_steer_from_elsewhere() -> (Rig, Context, MessageId) {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    let other = rig.elsewhere().await;
    rig.post("hi").await.unwrap();
    rig.tools.gate("a").reached().await;
    let said =
        SteerMessage { request_id: "s".into(), content: "look there".into(), custom_type: None, wake: false };
    let id = other.session().steer(rig.here(), said).await.unwrap();
    (rig, other, id)
}

#[actix::test]
async fn a_steer_that_waits_is_taken_back_by_its_stop_d17() {
    let (rig, other, steer) = with_a_steer_from_elsewhere().await;
    assert!(other.session().stop_message(rig.here(), steer.clone()).await.unwrap());
    assert!(rig.queue().await.steering.is_empty());
    assert!(!other.session().stop_message(rig.here(), steer).await.unwrap(), "it was stopped before");
    rig.tools.gate("a").open();
    rig.ended(1).await;
    let trace = rig.trace().await;
    assert!(trace.ends_with(" TC()") && !trace.contains("interjection"), "{trace}");
}

#[actix::test]
async fn a_stop_takes_what_its_sender_still_had_to_say_to_the_turn_with_it_d19() {
    let (rig, other, steer) = with_a_steer_from_elsewhere().await;
    let turn = opening(&rig).await;
    assert!(other.session().stop_message(rig.here(), turn).await.unwrap());
    assert!(!other.session().stop_message(rig.here(), steer).await.unwrap());
    rig.ended(1).await;
    assert!(rig.queue().await.steering.is_empty());
    assert!(rig.trace().await.ends_with("TC(interrupted)"));
}

#[actix::test]
async fn what_was_said_to_a_turn_that_somebody_else_stopped_can_be_taken_back_d20() {
    let (rig, other, steer) = with_a_steer_from_elsewhere().await;
    rig.cancel().await;
    assert!(other.session().stop_message(rig.here(), steer).await.unwrap());
    rig.ended(1).await;
    assert!(rig.queue().await.steering.is_empty());
    assert!(rig.trace().await.ends_with("TC(interrupted)"));
}

/// The message that opened the first turn.
async fn opening(rig: &Rig) -> MessageId {
    rig.event(1, |event| match event {
        AgentEvent::MessageReceived { message } => Some(message.id.clone()),
        _ => None,
    })
    .await
}

#[actix::test]
async fn a_steer_whose_stop_came_first_is_dropped_d21() {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done")]).await;
    rig.post("hi").await.unwrap();
    rig.tools.gate("a").reached().await;
    rig.cancel_of("cancel", Some("s:interjection")).await;
    rig.steer("s", "look there").await;
    assert!(rig.queue().await.steering.is_empty());
    rig.tools.gate("a").open();
    rig.ended(1).await;
    let trace = rig.trace().await;
    assert!(trace.ends_with(" TC()") && !trace.contains("interjection"), "{trace}");
}

#[actix::test]
async fn what_a_client_said_to_a_turn_that_was_stopped_opens_the_next_one_d24() {
    let rig = Rig::still(vec![calls(&[("c1", "hold", "a")]), text("next")]).await;
    rig.post("hi").await.unwrap();
    rig.tools.held.began.notified().await;
    rig.steer("s", "look there").await;
    rig.cancel().await;
    rig.ended(2).await;
    let trace = rig.trace().await;
    assert!(trace.contains("TC(interrupted) MR(s:interjection) MCP SS1 "), "{trace}");
    assert!(trace.ends_with("MR(s:interjection:assistant:1) TC()"), "{trace}");
}
