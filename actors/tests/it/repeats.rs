//! Owns what a repeated request does: nothing new, and the answer that the first one had.

use gent_protocol::{CreateSession, DeleteSession, ListSessions, RequestId};
use gent_storage::failpoint::arm_here;
use serde_json::json;

use crate::rig::{Rig, calls, calls_with, text, yields};

#[actix::test]
async fn a_send_that_is_repeated_while_its_turn_waits_for_an_answer_waits_for_that_turn_a10() {
    let script = vec![calls_with(&[("c1", "ask", json!({ "ask": ["may I?"] }))]), text("done")];
    let rig = Rig::still(script).await;
    let answer = async {
        let question = rig.question(1).await;
        let mut again = Box::pin(rig.send("r", "hi"));
        for _ in 0..50 {
            assert!(futures_util::poll!(&mut again).is_pending(), "it answers before its turn has ended");
            yields(1).await;
        }
        rig.respond(&question, true).await.unwrap();
        again.await.unwrap();
    };
    let (sent, ()) = futures_util::join!(rig.send("r", "hi"), answer);
    sent.unwrap();
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

fn create(request: &str) -> CreateSession {
    CreateSession { request_id: Some(RequestId::parse(request).unwrap()), ..CreateSession::default() }
}

#[actix::test]
async fn a_create_that_is_repeated_after_its_session_was_deleted_makes_another_one_a7() {
    let rig = Rig::still(Vec::new()).await;
    let first = rig.engine.session_create(&rig.workspace, create("new")).await.unwrap();
    let same = rig.engine.session_create(&rig.workspace, create("new")).await.unwrap();
    assert_eq!(same.session_id, first.session_id);
    let delete = DeleteSession { session_id: first.session_id.clone() };
    rig.engine.session_delete(&rig.workspace, delete).await.unwrap();
    let second = rig.engine.session_create(&rig.workspace, create("new")).await.unwrap();
    assert_ne!(second.session_id, first.session_id);
}

#[actix::test]
async fn work_that_fails_in_its_write_leaves_no_outcome_and_a_repeat_does_it_a14() {
    let rig = Rig::still(Vec::new()).await;
    let n_sessions = async || {
        let listed = rig.engine.session_list(&rig.workspace, ListSessions::default()).await.unwrap();
        listed.items.len()
    };
    arm_here("store.in_write:session.create=error").unwrap();
    rig.engine.session_create(&rig.workspace, create("new")).await.unwrap_err();
    assert_eq!(n_sessions().await, 1);
    let made = rig.engine.session_create(&rig.workspace, create("new")).await.unwrap();
    let same = rig.engine.session_create(&rig.workspace, create("new")).await.unwrap();
    assert_eq!(same.session_id, made.session_id);
    assert_eq!(n_sessions().await, 2);
}
