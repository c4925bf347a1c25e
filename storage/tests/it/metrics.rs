//! Tests that the running totals are what a fold over all of a branch's events gives.

use gent_protocol::{AgentEvent, EventEnvelope, MessageId, Millis, ModelId, StepOutcome, Usage};
use gent_storage::{BranchMetrics, metrics_get};

use crate::fixture::{message_id, named};

suite! {
    fn the_totals_are_the_fold_of_the_branch_s_events(db) {
        let of = db.session("s", 1);
        let (session_id, branch_id) = of.clone();
        let projected = |compacted: bool, cost_usd: Option<f64>| AgentEvent::ModelContextProjected {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            estimated_tokens: 10,
            available_input_tokens: 100,
            context_limit_tokens: 128,
            omitted_messages: 1,
            handoff_message_id: compacted.then(|| MessageId::parse("h").unwrap()),
            compacted,
            cost_usd,
        };
        let streamed = |usage: Option<Usage>| AgentEvent::StreamEnded {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            message_id: message_id("m"),
            step: 1,
            usage,
            request_overhead_tokens: usage.map(|_| 3),
            model: usage.map(|_| ModelId::parse("p/m").unwrap()),
            cost_usd: Some(0.25),
            priced_model: None,
            interrupted: false,
            outcome: StepOutcome::Answered,
        };
        let completed = AgentEvent::TurnCompleted {
            session_id: session_id.clone(),
            branch_id: branch_id.clone(),
            message_id: message_id("m"),
            duration_ms: Millis(120),
            interrupted: false,
            stream_failed: false,
            unanswered: false,
            usage: None,
            cost_usd: None,
        };
        let usage = Usage { input_tokens: 77, output_tokens: 5, ..Usage::default() };
        for event in [
            projected(false, None),
            streamed(Some(usage)),
            projected(true, Some(0.5)),
            named(&session_id, "x"),
            streamed(None),
            completed.clone(),
            projected(true, None),
            streamed(Some(usage)),
            completed,
        ] {
            db.append(event);
        }
        let mut folded = BranchMetrics::default();
        for item in db.events(&of.0, 0).items {
            let envelope: EventEnvelope = serde_json::from_str(&item.json).unwrap();
            folded.fold(&envelope.event, envelope.id);
        }
        let kept = db.read(move |r| metrics_get(r, &of.1)).unwrap();
        assert_eq!(kept, folded);
        assert_eq!((kept.metrics.turns, kept.metrics.duration_ms), (2, Millis(240)));
        assert_eq!(kept.metrics.context.unwrap().compactions, 2);
        assert!((kept.metrics.cost_usd - 1.25).abs() < 1e-9);
        assert_eq!(kept.metrics.last_input_tokens, 77);
    }

    fn a_branch_without_a_step_has_no_totals(db) {
        let of = db.session("s", 1);
        assert_eq!(db.read(move |r| metrics_get(r, &of.1)).unwrap(), BranchMetrics::default());
    }
}
