//! Owns what a turn costs that waits for an answer for a day, and what it stands.

use std::time::Duration;

use gent_actors::EngineError;
use gent_protocol::{
    ActorState, GetSnapshot, ListActors, PageParams, QuestionDecision, RespondInteraction, RuntimeState,
};
use serde_json::json;

use crate::rig::{Rig, calls_with, text};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Time goes on; whatever is due meanwhile happens.
async fn pass(time: Duration) {
    assert!(tokio::time::timeout(time, std::future::pending::<()>()).await.is_err());
}

impl Rig {
    async fn only_actor(&self) -> gent_protocol::ActorRow {
        let page = PageParams { limit: None, cursor: None };
        let mut rows = self.engine.actor_list(ListActors { page }).await.unwrap().items;
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }
}

#[actix::test]
async fn a_turn_that_waits_for_a_day_is_nothing_but_rows_and_goes_on_at_its_answer() {
    let ask = calls_with(&[("c1", "ask", json!({ "ask": ["may I?"] }))]);
    let rig = Rig::still(vec![ask, text("thanks")]).await;
    rig.post("hi").await.unwrap();
    let question = rig.question(1).await;
    pass(DAY).await;
    let row = rig.only_actor().await;
    assert_eq!((row.state, row.waiting_for.as_deref()), (ActorState::Waiting, Some("answer")));
    assert_eq!((row.generation, row.holds.len()), (0, 0), "no activation is left of it");
    for _ in 0..1_000 {
        let look = GetSnapshot {
            session_id: rig.session.session_id.clone(),
            branch_id: rig.session.branch_id.clone(),
            before: None,
        };
        let seen = rig.engine.snapshot(&rig.workspace, look).await.unwrap();
        assert_eq!(seen.question.unwrap().request_id, question);
        assert!(matches!(seen.runtime, RuntimeState::WaitingForInteraction { .. }));
    }
    assert_eq!(rig.only_actor().await.generation, 0, "looking does not take it into memory");
    rig.respond(&question, true).await.unwrap();
    rig.ended(1).await;
    let trace = rig.trace().await;
    assert!(trace.contains("InteractionPresented InteractionResolved TS(c1) TOK(c1)"), "{trace}");
    assert!(trace.ends_with(" TC()"), "{trace}");
}

#[actix::test]
async fn an_answer_larger_than_its_bound_is_refused_and_the_question_stays() {
    let ask = calls_with(&[("c1", "ask", json!({ "ask": ["may I?"] }))]);
    let rig = Rig::still(vec![ask, text("thanks")]).await;
    rig.post("hi").await.unwrap();
    let question = rig.question(1).await;
    let answer = |notes: String| RespondInteraction {
        request_id: question.clone(),
        session_id: rig.session.session_id.clone(),
        branch_id: rig.session.branch_id.clone(),
        decision: QuestionDecision { approved: true, notes: Some(notes), edited_content: None },
    };
    let refused = rig.engine.respond(&rig.workspace, answer("x".repeat(1024 * 1024 + 1))).await.unwrap_err();
    assert!(matches!(refused, EngineError::LimitExceeded { limit: "answerTextBytes", .. }), "{refused}");
    rig.engine.respond(&rig.workspace, answer("x".repeat(1024 * 1024))).await.unwrap();
    rig.ended(1).await;
}
