//! Owns what a stop reaches: the turn it names, also one that has not started, and no other.

use gent_protocol::{AgentEvent, MessageId};
use serde_json::json;

use crate::rig::{Answer, Rig, Setup, calls, calls_with, contents, follow_up, ids, races, text, yields};

/// A branch whose turn runs, and behind which another one waits that was stopped.
async fn with_a_stopped_turn_behind() -> Rig {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done"), text("next")]).await;
    rig.post("hi").await.unwrap();
    rig.tools.gate("a").reached().await;
    rig.post("wait").await.unwrap();
    let waiting = ids(&rig.queue().await.follow_up);
    rig.cancel_of("cancel", Some(&waiting[0])).await;
    assert_eq!(contents(&rig.queue().await.follow_up), ["wait"]);
    rig
}

/// The first turn ends; the second is stopped without a request.
async fn ends_the_second_as_stopped(rig: &Rig) {
    let waiting = ids(&rig.queue().await.follow_up);
    rig.engine.resume(true);
    rig.ended(2).await;
    let trace = rig.trace().await;
    let end = format!(":assistant:2) TC() MR({}) TC(interrupted)", waiting[0]);
    assert!(trace.ends_with(&end), "{trace}");
    assert_eq!(rig.script.n_asked(), 2);
}

#[actix::test]
async fn a_stop_of_a_waiting_turn_outlives_a_kill_d15() {
    let mut rig = with_a_stopped_turn_behind().await;
    rig.restart().await;
    ends_the_second_as_stopped(&rig).await;
}

#[actix::test]
async fn a_stop_of_a_waiting_turn_outlives_an_orderly_stop_d15() {
    let mut rig = with_a_stopped_turn_behind().await;
    rig.stop_and_start().await;
    ends_the_second_as_stopped(&rig).await;
}

#[actix::test]
async fn a_stop_reaches_a_message_once_whether_it_waits_or_runs_d14_d18() {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")])]).await;
    let other = rig.elsewhere().await;
    let running = other.session().follow_up(rig.here(), follow_up("runs", true)).await.unwrap();
    rig.tools.gate("a").reached().await;
    let waiting = other.session().follow_up(rig.here(), follow_up("waits", false)).await.unwrap();
    let stop =
        async |message: &MessageId| other.session().stop_message(rig.here(), message.clone()).await.unwrap();
    assert_eq!((stop(&waiting).await, stop(&waiting).await), (true, false));
    assert_eq!((stop(&running).await, stop(&running).await), (true, false));
    rig.ended(2).await;
    assert!(!stop(&running).await, "its turn has ended");
    let trace = rig.trace().await;
    assert!(trace.ends_with(&format!("TC(interrupted) MR({waiting}) TC(interrupted)")), "{trace}");
}

fn asks() -> Answer {
    calls_with(&[("c1", "ask", json!({ "ask": ["may I?"] })), ("c2", "echo", json!({ "say": "a" }))])
}

#[actix::test]
async fn a_turn_that_waits_for_an_answer_is_stopped_and_leaves_nothing_open_d10() {
    let rig = Rig::still(vec![asks(), text("next")]).await;
    rig.post("hi").await.unwrap();
    let question = rig.question(1).await;
    rig.cancel().await;
    rig.ended(1).await;
    let trace = rig.trace().await;
    let end = ":tool-result:1) TF(c1) InteractionResolved TC(interrupted)";
    assert!(trace.contains("TOK(c2)") && trace.ends_with(end), "{trace}");
    let dismissed = |event: &AgentEvent| match event {
        AgentEvent::InteractionResolved { request_id, dismissed, .. } => {
            Some((request_id.clone(), *dismissed))
        }
        _ => None,
    };
    assert_eq!(rig.event(1, dismissed).await, (question.clone(), true));
    rig.respond(&question, true).await.unwrap_err();
    rig.send("s", "and now?").await.unwrap();
    let read = rig.script.read(1);
    assert_eq!(read[1], "assistant: call c1 call c2");
    assert!(read[2].contains("Interrupted") && read[2].ends_with(r#"result c2 {"said":"a"}"#), "{}", read[2]);
    assert_eq!(read[3..], ["user: and now?"]);
    assert!(rig.tools.passed().is_empty());
}

#[actix::test]
async fn an_answer_and_a_stop_that_come_together_end_the_turn_as_stopped_d11() {
    let script = races().flat_map(|_| [asks(), text("never read")]).collect();
    let rig = Rig::still(script).await;
    for (n, (answer_after, stop_after)) in races().enumerate() {
        // The request after the answer, where one is sent, finds the stop.
        rig.script.hold(1, 0);
        rig.post("hi").await.unwrap();
        let question = rig.question(n + 1).await;
        let answer = async {
            yields(answer_after).await;
            // It is too late when the stop has closed the question.
            drop(rig.respond(&question, true).await);
        };
        let stop = async {
            yields(stop_after).await;
            rig.cancel_of(&format!("cancel{n}"), None).await;
        };
        futures_util::join!(answer, stop);
        rig.ended(n + 1).await;
        if rig.script.left() % 2 == 1 {
            rig.script.skip();
        }
    }
    let (n_passed, trace) = (rig.tools.passed().len(), rig.trace().await);
    assert_eq!(trace.matches("TC(interrupted)").count(), races().len(), "{trace}");
    assert!(0 < n_passed && n_passed < races().len(), "{n_passed}");
}

#[actix::test]
async fn a_stop_behind_the_receipt_while_hooks_run_does_not_reach_the_next_turn_d13() {
    let script = vec![calls(&[("c1", "wait", "a")]), text("done"), text("next")];
    let rig = Rig::of(Setup { has_turn_after: true, ..Setup::still(script) }).await;
    let first = async {
        rig.tools.gate("a").reached().await;
        rig.post("next").await.unwrap();
        rig.tools.gate("a").open();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), first);
    sent.unwrap();
    rig.tools.gate("turnAfter").reached().await;
    rig.cancel_of("cancel-any", None).await;
    rig.cancel_of("cancel-r", Some("message:r")).await;
    rig.tools.gate("turnAfter").open();
    rig.ended(2).await;
    assert!(!rig.trace().await.contains("interrupted"));
}
