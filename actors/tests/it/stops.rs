//! Owns what a stop reaches: the turn it names, also one that has not started, and no other.

use crate::rig::{Rig, calls, contents, ids, text};

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
