//! Owns what waits behind a turn: the order, the bounds, how it is taken back, and when it begins.

use std::time::Duration;

use futures_util::poll;
use gent_actors::EngineError;
use gent_extension_api::{SessionError, TurnMessage};
use gent_protocol::{Message, MessageId, QueueEntry};
use gent_storage::failpoint::arm_here;
use gent_storage::message_get;

use crate::rig::{Gate, Rig, Setup, calls, contents, follow_up, ids, races, text, yields};

fn stored(rig: &Rig, id: &str) -> Option<Message> {
    let (branch, id) = (rig.session.branch_id.clone(), MessageId::parse(id).unwrap());
    rig.read(move |txn| message_get(txn, &branch, &id)).map(|stored| stored.message)
}

/// A branch whose turn runs: its first answer is held at the gate.
async fn running(setup: Setup) -> (Rig, Gate) {
    let rig = Rig::of(setup).await;
    let gate = rig.script.hold(0, 0);
    rig.post("hi").await.unwrap();
    rig.script.asked(1).await;
    (rig, gate)
}

fn answers(n: usize) -> Setup {
    Setup::still((0..n).map(|_| text("done")).collect())
}

#[actix::test]
async fn a_prompt_that_comes_between_a_turns_admission_and_its_start_waits_behind_it_c2() {
    let rig = Rig::of(answers(2)).await;
    let gate = rig.script.hold_start();
    rig.post("one").await.unwrap();
    gate.reached().await;
    assert_eq!(rig.trace().await.split(' ').count(), 2, "it is admitted and has not begun");
    rig.post("two").await.unwrap();
    assert_eq!(contents(&rig.queue().await.follow_up), ["two"]);
    gate.open();
    rig.ended(2).await;
    assert_eq!(rig.script.read(1), ["user: one", "assistant: done", "user: two"]);
}

#[actix::test]
async fn a_turn_runs_whenever_its_caller_goes_away_c3() {
    const N: usize = 12;
    let rig = Rig::of(answers(2 * N)).await;
    let mut n_stored = 0;
    for n in 0..N {
        let name = format!("r{n}");
        let mut sent = Box::pin(rig.send(&name, "hi"));
        for _ in 0..n {
            if poll!(&mut sent).is_ready() {
                break;
            }
            yields(1).await;
        }
        drop(sent);
        rig.send(&format!("next{n}"), "hi").await.unwrap();
        let opened = stored(&rig, &format!("message:{name}"));
        n_stored += usize::from(opened.is_some());
        let has_ended = opened.is_none_or(|message| message.turn_duration_ms.is_some());
        assert!(has_ended, "its caller went after {n} polls");
    }
    assert!(0 < n_stored && n_stored < N, "{n_stored}");
    assert_eq!(rig.trace().await.matches("TC()").count(), N + n_stored);
}

#[actix::test]
async fn an_eleventh_message_that_would_wait_is_refused_and_nothing_is_dropped_c4() {
    let (rig, gate) = running(answers(11)).await;
    for n in 0..10 {
        rig.post(&n.to_string()).await.unwrap();
    }
    let before = rig.queue().await;
    let refused = rig.post("more").await.unwrap_err();
    assert!(matches!(refused, EngineError::LimitExceeded { limit: "followUps", max: 10, .. }), "{refused}");
    let other = rig.elsewhere().await;
    let refused = other.session().follow_up(rig.here(), follow_up("more", false)).await.unwrap_err();
    assert_eq!(refused, SessionError::FollowUpQueueFull { max: 10 });
    assert_eq!(rig.queue().await, before);
    gate.open();
    rig.ended(11).await;
    assert_eq!(rig.script.left(), 0);
}

#[actix::test]
async fn a_waiting_follow_up_is_replaced_in_its_place_also_when_the_queue_is_full_c5() {
    let (rig, _gate) = running(answers(1)).await;
    let other = rig.elsewhere().await;
    for n in 0..10 {
        other.session().follow_up(rig.here(), follow_up(&n.to_string(), false)).await.unwrap();
    }
    let mut before = contents(&rig.queue().await.follow_up);
    let again = gent_extension_api::FollowUp { content: "new".into(), ..follow_up("3", false) };
    other.session().follow_up(rig.here(), again).await.unwrap();
    before[3] = "new".into();
    assert_eq!(contents(&rig.queue().await.follow_up), before);
}

#[actix::test]
async fn a_follow_up_whose_turn_has_begun_or_ended_opens_no_other_turn_c6() {
    let rig = Rig::of(answers(2)).await;
    let (gate, other) = (rig.script.hold(0, 0), rig.elsewhere().await);
    other.session().follow_up(rig.here(), follow_up("a", true)).await.unwrap();
    rig.script.asked(1).await;
    other.session().follow_up(rig.here(), follow_up("a", true)).await.unwrap();
    assert!(rig.queue().await.follow_up.is_empty(), "its turn runs");
    gate.open();
    rig.ended(1).await;
    other.session().follow_up(rig.here(), follow_up("a", true)).await.unwrap();
    assert!(rig.queue().await.follow_up.is_empty(), "its turn has ended");
    rig.send("r", "hi").await.unwrap();
    assert_eq!(rig.trace().await.matches("TC()").count(), 2);
}

#[actix::test]
async fn a_follow_up_does_not_begin_the_life_of_a_branch_and_waits_for_its_first_turn_c7() {
    let mut rig = Rig::of(answers(2)).await;
    let other = rig.elsewhere().await;
    other.session().follow_up(rig.here(), follow_up("later", false)).await.unwrap();
    rig.restart().await;
    rig.engine.resume(true);
    // The branch is opened by it, and starts nothing.
    rig.steer("s", "also later").await;
    assert_eq!(contents(&rig.queue().await.follow_up), ["later"]);
    assert_eq!(rig.trace().await, "SessionStarted");
    rig.drain("d").await.unwrap();
    let other = rig.elsewhere().await;
    other.session().follow_up(rig.here(), follow_up("later", false)).await.unwrap();
    rig.send("r", "first").await.unwrap();
    rig.ended(2).await;
    assert_eq!(rig.script.read(0), ["user: first"]);
    assert_eq!(rig.script.read(1).last().unwrap(), "user: later");
}

#[actix::test]
async fn a_follow_up_that_wakes_begins_the_life_of_a_branch_c8() {
    let rig = Rig::of(answers(1)).await;
    let other = rig.elsewhere().await;
    other.session().follow_up(rig.here(), follow_up("now", true)).await.unwrap();
    rig.ended(1).await;
    assert_eq!(rig.script.read(0), ["user: now"]);
}

#[actix::test]
async fn a_follow_up_is_taken_back_or_runs_and_never_both_c9() {
    let rig = Rig::of(answers(3 * races().len())).await;
    let other = rig.elsewhere().await;
    let mut outcomes = Vec::new();
    for (n, (end_after, take_after)) in races().enumerate() {
        let (gate, asked) = (rig.script.hold(0, 0), rig.script.n_asked());
        rig.post("hi").await.unwrap();
        rig.script.asked(asked + 1).await;
        let said = follow_up(&format!("f{n}"), false);
        let id = other.session().follow_up(rig.here(), said).await.unwrap();
        let end = async {
            yields(end_after).await;
            gate.open();
        };
        let take = async {
            yields(take_after).await;
            other.session().dequeue_follow_up(rig.here(), id.clone()).await.unwrap()
        };
        let ((), is_taken) = futures_util::join!(end, take);
        rig.send(&format!("next{n}"), "hi").await.unwrap();
        outcomes.push((id, is_taken));
    }
    let trace = rig.trace().await;
    for (race, (id, is_taken)) in races().zip(&outcomes) {
        let n_runs = trace.matches(&format!("MR({id}) MCP ")).count();
        assert_eq!(n_runs, usize::from(!is_taken), "{race:?}");
    }
    let n_taken = outcomes.iter().filter(|(_, is_taken)| *is_taken).count();
    assert!(0 < n_taken && n_taken < races().len(), "{n_taken}");
}

#[actix::test]
async fn a_stopped_follow_up_that_is_taken_back_leaves_its_stop_to_no_other_turn_c10() {
    let (rig, gate) = running(answers(2)).await;
    let other = rig.elsewhere().await;
    let id = other.session().follow_up(rig.here(), follow_up("a", false)).await.unwrap();
    other.session().follow_up(rig.here(), follow_up("b", false)).await.unwrap();
    assert!(other.session().stop_message(rig.here(), id.clone()).await.unwrap());
    assert!(other.session().dequeue_follow_up(rig.here(), id).await.unwrap());
    gate.open();
    rig.ended(2).await;
    let trace = rig.trace().await;
    assert_eq!((trace.matches("TC()").count(), trace.matches("interrupted").count()), (2, 0), "{trace}");
    assert_eq!(rig.script.read(1).last().unwrap(), "user: b");
}

#[actix::test]
async fn what_was_said_to_a_turn_that_has_ended_goes_before_what_waits_for_one_c11() {
    let (rig, gate) = running(Setup { max_steps: Some(1), ..answers(4) }).await;
    rig.post("a prompt").await.unwrap();
    rig.steer("s1", "one").await;
    rig.steer("s2", "two").await;
    gate.open();
    rig.ended(4).await;
    let last = |n: usize| rig.script.read(n).iter().rfind(|said| !said.contains("last step")).cloned();
    let opened = [1, 2, 3].map(|n| last(n).unwrap());
    assert_eq!(opened, ["user: one", "user: two", "user: a prompt"]);
}

#[actix::test]
async fn a_message_that_waited_is_dated_when_it_is_taken_c12() {
    let (rig, gate) = running(answers(2)).await;
    rig.post("two").await.unwrap();
    let waits = rig.queue().await.follow_up;
    let QueueEntry::FollowUp { id, created_at, .. } = &waits[0] else { panic!("{waits:?}") };
    tokio::time::advance(Duration::from_secs(3600)).await;
    gate.open();
    rig.ended(2).await;
    let waited = stored(&rig, id.as_str()).unwrap().created_at.0 - created_at.0;
    assert!(waited >= 3_600_000, "{waited}");
}

#[actix::test]
async fn a_message_that_cannot_be_stored_fails_its_own_caller_alone_c14() {
    let rig = Rig::of(answers(2)).await;
    arm_here("store.in_write:branch.admit=error").unwrap();
    rig.send("r", "one").await.unwrap_err();
    assert_eq!(rig.trace().await, "SessionStarted");
    rig.send("s", "two").await.unwrap();
    rig.send("r", "one").await.unwrap();
    assert_eq!(rig.trace().await.matches("TC()").count(), 2);
}

#[actix::test]
async fn a_message_of_which_nobody_knows_whether_it_was_stored_is_looked_up_and_runs_once_c14() {
    let rig = Rig::of(answers(2)).await;
    arm_here("store.after_commit:branch.admit=error").unwrap();
    rig.send("r", "one").await.unwrap_err();
    rig.send("r", "one").await.unwrap();
    rig.send("s", "two").await.unwrap();
    assert_eq!(rig.trace().await.matches("TC()").count(), 2);
    assert_eq!(rig.script.read(0), ["user: one"]);
}

#[actix::test]
async fn a_tool_queues_a_follow_up_on_its_own_branch_that_begins_behind_the_turns_hooks_c15() {
    let script = vec![calls(&[("c1", "queue", "later")]), text("done"), text("done")];
    let rig = Rig::of(Setup { has_turn_after: true, ..Setup::still(script) }).await;
    rig.send("r", "hi").await.unwrap();
    let gate = rig.tools.gate("turnAfter");
    gate.reached().await;
    yields(100).await;
    let trace = rig.trace().await;
    assert!(trace.ends_with("TC()"), "{trace}");
    assert_eq!(contents(&rig.queue().await.follow_up), ["later"]);
    gate.open();
    rig.ended(2).await;
    assert_eq!(rig.script.read(2).last().unwrap(), "user: later");
    assert_eq!(rig.tools.after()[0].message_id.as_str(), "message:r");
}

#[actix::test]
async fn a_branch_cannot_begin_a_turn_on_itself_c16() {
    let rig = Rig::of(answers(1)).await;
    let own = rig.context_of(&rig.session).await;
    let prompt = TurnMessage { request_id: "r".into(), content: "hi".into(), wait: false };
    let refused = own.session().turn(rig.here().unwrap(), prompt).await.unwrap_err();
    assert!(matches!(refused, SessionError::WouldWait { .. }), "{refused}");
    assert_eq!(rig.trace().await, "SessionStarted");
}

#[actix::test]
async fn a_waiting_message_without_text_is_not_shown_and_runs_c17() {
    let (rig, gate) = running(answers(2)).await;
    rig.post("").await.unwrap();
    assert!(ids(&rig.queue().await.follow_up).is_empty());
    gate.open();
    rig.ended(2).await;
    assert_eq!(rig.script.left(), 0);
}
