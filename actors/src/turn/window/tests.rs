//! Owns the tests of the window: what is chosen, what is refused.

use gent_protocol::{
    BranchId, Message, MessageKind, Millis, ModelId, ProviderId, SessionId, ToolCall, ToolOutcome,
};
use serde_json::json;

use super::*;

fn entry(ordinal: i64, role: Role, parts: Vec<Part>) -> Entry {
    let message = Message {
        kind: MessageKind::Regular,
        id: MessageId::parse(format!("m{ordinal}")).unwrap(),
        session_id: SessionId::parse("s").unwrap(),
        branch_id: BranchId::parse("b").unwrap(),
        role,
        parts,
        created_at: Millis(0),
        turn_duration_ms: None,
        metadata: None,
    };
    Entry::new(Ordinal(ordinal), Arc::new(message))
}

fn text(ordinal: i64, role: Role, chars: usize) -> Entry {
    entry(ordinal, role, vec![Part::text("x".repeat(chars))])
}

fn call(ordinal: i64, id: &str) -> Entry {
    let id = ToolCallId::parse(id).unwrap();
    let call =
        ToolCall { id, name: "read".into(), params: json!({}), provider_executed: false, options: None };
    entry(ordinal, Role::Assistant, vec![Part::ToolCall(call)])
}

fn result(ordinal: i64, id: &str, name: &str) -> Entry {
    let outcome = ToolOutcome {
        id: ToolCallId::parse(id).unwrap(),
        name: name.into(),
        is_failure: false,
        result: json!("ok"),
        provider_executed: false,
        options: None,
    };
    entry(ordinal, Role::Tool, vec![Part::ToolResult(outcome)])
}

fn model(window: u64, output: u64) -> Model {
    Model {
        id: ModelId::parse("p/m").unwrap(),
        name: "m".into(),
        provider: ProviderId::parse("p").unwrap(),
        context_length: Some(window),
        input_limit: None,
        output_limit: Some(output),
        pricing: None,
        release_date: None,
        reasoning: None,
    }
}

fn ids(projection: &Projection) -> Vec<String> {
    projection.messages.iter().map(|m| m.id.to_string()).collect()
}

#[test]
fn the_budget_is_the_window_less_output_prompt_and_tools() {
    let system = ["x".repeat(400)];
    let budget = budget(&model(128_000, 16_384), None, &system, Some(&"n".repeat(40)), &[]).unwrap();
    assert_eq!(
        budget,
        Budget { window: 128_000, output: 16_384, overhead: 110, available: 128_000 - 16_384 - 110 }
    );
    let small = super::budget(&model(128_000, 16_384), Some(1_000), &[], None, &[]).unwrap();
    assert_eq!((small.output, small.available), (250, 750));
    assert_eq!(
        super::budget(&model(400, 400), None, &["x".repeat(4_000)], None, &[]),
        Err(WindowError::ReserveExhausted)
    );
}

#[test]
fn the_newest_messages_that_fit_are_sent_and_the_rest_is_counted() {
    let entries = [
        text(1, Role::User, 400),
        text(2, Role::Assistant, 400),
        text(3, Role::User, 400),
        text(4, Role::Assistant, 400),
    ];
    let projection = project(&entries, 7, 350, None, None).unwrap();
    assert_eq!(ids(&projection), ["m3", "m4"], "a window that is cut is cut to three quarters");
    assert_eq!((projection.estimated, projection.omitted), (200, 9));
    assert_eq!(ids(&project(&entries, 0, 400, None, None).unwrap()).len(), 4);
}

#[test]
fn a_cut_window_keeps_its_beginning_for_as_long_as_it_fits() {
    let mut entries: Vec<Entry> = (1..=5).map(|n| text(n, Role::User, 400)).collect();
    let first = project(&entries, 0, 400, None, None).unwrap();
    assert_eq!((ids(&first)[0].as_str(), first.begins), ("m3", Some(Ordinal(3))));
    entries.push(text(6, Role::User, 400));
    let second = project(&entries, 0, 400, None, first.begins).unwrap();
    assert_eq!(ids(&second), ["m3", "m4", "m5", "m6"], "the bytes of the request before, and one more");
    entries.push(text(7, Role::User, 400));
    let third = project(&entries, 0, 400, None, second.begins).unwrap();
    assert_eq!(ids(&third), ["m5", "m6", "m7"]);
}

#[test]
fn calls_and_their_results_are_left_out_together() {
    let entries = [text(1, Role::User, 4), call(2, "c"), result(3, "c", "read"), text(4, Role::User, 4)];
    let projection = project(&entries, 0, 3, None, None).unwrap();
    assert_eq!(ids(&projection), ["m4"]);
    assert_eq!(ids(&project(&entries, 0, 100, None, None).unwrap()), ["m1", "m2", "m3", "m4"]);
}

#[test]
fn a_single_message_larger_than_the_budget_is_named_and_left_out_of_the_next_turn_h5() {
    let large = [text(1, Role::User, 4_000)];
    assert_eq!(
        project(&large, 0, 999, None, None).unwrap_err(),
        WindowError::BudgetExceeded { needed: 1_000, available: 999 }
    );
    let next = [text(1, Role::User, 4_000), text(2, Role::User, 4)];
    let projection = project(&next, 0, 999, None, None).unwrap();
    assert_eq!((ids(&projection), projection.omitted), (vec!["m2".to_owned()], 1));
}

#[test]
fn the_providers_count_raises_the_estimate_and_never_lowers_it() {
    let entries = [text(1, Role::User, 400), text(2, Role::Assistant, 4), text(3, Role::User, 4)];
    let reply = MessageId::parse("m2").unwrap();
    let high = Measure { reply: reply.clone(), tokens: 300 };
    assert_eq!(project(&entries, 0, 1_000, Some(&high), None).unwrap().estimated, 302);
    let low = Measure { reply, tokens: 10 };
    assert_eq!(project(&entries, 0, 1_000, Some(&low), None).unwrap().estimated, 102);
    let gone = Measure { reply: MessageId::parse("m9").unwrap(), tokens: 900 };
    assert_eq!(project(&entries, 0, 1_000, Some(&gone), None).unwrap().estimated, 102);
}

#[test]
fn a_conversation_that_no_provider_would_take_is_refused_by_name() {
    let user = text(1, Role::User, 4);
    let cases = [
        (vec![user.clone(), call(2, "c")], "IncompleteToolCallGroup: c"),
        (vec![user.clone(), result(2, "c", "read")], "OrphanToolResult: c"),
        (vec![user.clone(), call(2, "c"), result(3, "c", "write")], "MismatchedToolResultName: c"),
        (
            vec![user.clone(), call(2, "c"), result(3, "c", "read"), result(4, "c", "read")],
            "DuplicateToolResultId: c",
        ),
        (
            vec![user, call(2, "c"), text(3, Role::User, 1), result(4, "c", "read")],
            "IncompleteToolCallGroup: c",
        ),
    ];
    for (entries, expected) in cases {
        assert_eq!(project(&entries, 0, 1_000, None, None).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_call_id_that_a_provider_uses_again_pairs_step_by_step_e18() {
    let entries =
        [text(1, Role::User, 4), call(2, "c"), result(3, "c", "read"), call(4, "c"), result(5, "c", "read")];
    assert_eq!(project(&entries, 0, 1_000, None, None).unwrap().messages.len(), 5);
}
