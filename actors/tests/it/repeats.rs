//! Owns what a repeated request does: nothing new, and the answer that the first one had.

use serde_json::json;

use crate::rig::{Rig, calls, calls_with, text};

#[actix::test]
async fn a_send_that_is_repeated_while_its_turn_waits_for_an_answer_waits_for_that_turn_a10() {
    let script = vec![calls_with(&[("c1", "ask", json!({ "ask": ["may I?"] }))]), text("done")];
    let rig = Rig::still(script).await;
    let answer = async {
        let question = rig.question(1).await;
        let mut again = Box::pin(rig.send("r", "hi"));
        let is_waiting = futures_util::poll!(&mut again).is_pending();
        rig.respond(&question, true).await.unwrap();
        again.await.unwrap();
        is_waiting
    };
    let (sent, is_waiting) = futures_util::join!(rig.send("r", "hi"), answer);
    sent.unwrap();
    assert!(is_waiting);
    let trace = rig.trace().await;
    assert_eq!((trace.matches("TC()").count(), rig.script.left()), (1, 0), "{trace}");
    assert_eq!((rig.tools.began(), rig.tools.passed()), (vec!["c1".into(); 2], vec!["c1".into()]));
}

#[actix::test]
async fn a_queue_drain_that_is_repeated_answers_as_the_first_and_takes_nothing_a11() {
    let rig = Rig::still(vec![calls(&[("c1", "wait", "a")]), text("done"), text("later")]).await;
    let gate = rig.tools.gate("a");
    rig.post("hi").await.unwrap();
    gate.reached().await;
    rig.post("one").await.unwrap();
    let first = rig.drain("d").await.unwrap();
    rig.post("two").await.unwrap();
    assert_eq!(rig.drain("d").await.unwrap(), first);
    assert_eq!((first.follow_up.len(), rig.queue().await.follow_up.len()), (1, 1));
    gate.open();
    rig.ended(2).await;
    assert_eq!(rig.script.read(2).last().unwrap(), "user: two");
}
