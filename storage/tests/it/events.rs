//! Tests events: their numbers, their pages, the text that perishes, and how tool calls ended.

use gent_protocol::{
    AgentEvent, BranchId, EventEnvelope, EventSeq, MessageId, Millis, SessionId, StoreIncarnation, ToolCallId,
};
use gent_storage::{
    StoreError, ToolTerminal, deltas_drop_step, deltas_drop_turn, event_last, events_after, streaming_text,
    tool_terminals,
};

use crate::fixture::{Fixture, chunk, message, message_id, named};

fn page(
    db: &Fixture,
    session: &SessionId,
    branch: Option<&BranchId>,
    after: i64,
    limit: u32,
    bytes: usize,
) -> (Vec<i64>, i64, bool) {
    let (session, branch) = (session.clone(), branch.cloned());
    let page =
        db.read(move |r| events_after(r, &session, branch.as_ref(), EventSeq(after), limit, bytes)).unwrap();
    (page.items.iter().map(|e| e.id.0).collect(), page.last.0, page.more)
}

fn ended(
    of: &(SessionId, BranchId),
    call: &str,
    assistant: &str,
    parent: Option<&str>,
    failed: bool,
) -> AgentEvent {
    let (session_id, branch_id) = of.clone();
    let tool_call_id = ToolCallId::parse(call).unwrap();
    let parent_tool_call_id = parent.map(|parent| ToolCallId::parse(parent).unwrap());
    let assistant_message_id = Some(MessageId::parse(assistant).unwrap());
    let (tool_name, summary, output, result_json) = ("t".to_owned(), None, None, Some("{}".to_owned()));
    if failed {
        AgentEvent::ToolCallFailed {
            session_id,
            branch_id,
            tool_call_id,
            tool_name,
            summary,
            output,
            result_json,
            parent_tool_call_id,
            assistant_message_id,
        }
    } else {
        AgentEvent::ToolCallSucceeded {
            session_id,
            branch_id,
            tool_call_id,
            tool_name,
            summary,
            output,
            result_json,
            parent_tool_call_id,
            assistant_message_id,
        }
    }
}

suite! {
    fn numbers_are_dense_within_a_session_and_independent_of_others(db) {
        let (one, two) = (db.session("s", 1), db.session("t", 1));
        assert_eq!(db.append(named(&one.0, "x")), EventSeq(2));
        assert_eq!(db.append(named(&two.0, "x")), EventSeq(2));
        assert_eq!(db.append(named(&one.0, "y")), EventSeq(3));
        let s = one.0.clone();
        assert_eq!(db.read(move |r| event_last(r, &s)).unwrap(), EventSeq(3));
    }

    fn what_is_read_is_byte_for_byte_what_was_published(db) {
        let of = db.session("s", 1);
        db.append(named(&of.0, "a \"quoted\" name"));
        db.append(chunk(&of, 1, "run", 0, "t\u{0}ext"));
        db.insert(message(&of, "m1", "hello"));
        let page = db.events(&of.0, 0);
        assert_eq!(page.items, db.published());
        assert_eq!(page.items.iter().map(|e| e.perishable).collect::<Vec<_>>(), [false, false, true, false]);
        for item in &page.items {
            let envelope: EventEnvelope = serde_json::from_str(&item.json).unwrap();
            assert_eq!(serde_json::to_string(&envelope).unwrap(), *item.json);
        }
    }

    fn a_synchronize_marker_is_never_stored_b7(db) {
        let (session, _) = db.session("s", 1);
        let marker = AgentEvent::StreamSynchronized {
            session_id: session.clone(),
            branch_id: None,
            last_event_id: EventSeq(1),
            store: StoreIncarnation::parse("x").unwrap(),
        };
        assert!(db.write(move |txn| txn.append(&marker, Millis(1))).is_err());
        assert_eq!(db.events(&session, 0).last, EventSeq(1));
    }

    fn an_event_of_a_session_that_is_not_there_is_refused(db) {
        let gone = named(&SessionId::parse("gone").unwrap(), "x");
        let error = db.write(move |txn| txn.append(&gone, Millis(1))).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { what: "session", .. }), "{error}");
    }

    fn a_page_stops_at_its_bounds_and_goes_on_without_a_gap_or_a_repeat(db) {
        let of = db.session("s", 1);
        for n in 0..3 {
            db.append(named(&of.0, &format!("{n}")));
            db.append(chunk(&of, 1, "run", n, "x"));
        }
        assert_eq!(page(db, &of.0, None, 0, 3, 99_999), (vec![1, 2, 3], 3, true));
        assert_eq!(page(db, &of.0, None, 3, 3, 99_999), (vec![4, 5, 6], 6, true));
        assert_eq!(page(db, &of.0, None, 6, 3, 99_999), (vec![7], 7, false));
        assert_eq!(page(db, &of.0, None, 7, 3, 99_999), (vec![], 7, false));
        assert_eq!(page(db, &of.0, None, 0, 9, 1), (vec![1], 1, true));
    }

    fn a_branch_sees_its_own_events_and_those_of_no_branch_b4(db) {
        let of = db.session("s", 1);
        db.append(named(&of.0, "x"));
        db.append(chunk(&of, 1, "run", 0, "x"));
        let other = BranchId::parse("other").unwrap();
        assert_eq!(page(db, &of.0, Some(&of.1), 0, 9, 99_999).0, [1, 2, 3]);
        assert_eq!(page(db, &of.0, Some(&other), 0, 9, 99_999), (vec![2], 3, false));
    }

    fn a_cursor_beyond_the_newest_event_is_invalid_and_names_it(db) {
        let (session, _) = db.session("s", 1);
        let error = db.read(move |r| events_after(r, &session, None, EventSeq(2), 9, 9)).unwrap_err();
        assert!(matches!(error, StoreError::CursorInvalid { last: EventSeq(1) }));
        let nobody = SessionId::parse("nobody").unwrap();
        let error = db.read(move |r| events_after(r, &nobody, None, EventSeq(0), 9, 9)).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }));
    }

    fn the_deltas_of_a_step_go_and_leave_a_gap_that_a_cursor_passes(db) {
        let of = db.session("s", 1);
        db.append(chunk(&of, 1, "run", 0, "a"));
        db.append(chunk(&of, 2, "run", 0, "b"));
        let branch = of.1.clone();
        db.write(move |txn| deltas_drop_step(txn, &branch, &message_id("m"), 1)).unwrap();
        assert_eq!(page(db, &of.0, None, 0, 9, 99_999), (vec![1, 3], 3, false));
        let branch = of.1.clone();
        db.write(move |txn| deltas_drop_turn(txn, &branch, &message_id("m"))).unwrap();
        // The cursor moves past numbers that nobody will ever see again.
        assert_eq!(page(db, &of.0, None, 1, 9, 99_999), (vec![], 3, false));
        assert_eq!(db.append(named(&of.0, "x")), EventSeq(4));
    }

    fn the_deltas_of_another_branch_or_turn_stay(db) {
        let of = db.session("s", 1);
        db.append(chunk(&of, 1, "run", 0, "a"));
        let (one, two) = (of.1.clone(), BranchId::parse("other").unwrap());
        db.write(move |txn| {
            deltas_drop_turn(txn, &one, &message_id("another"))?;
            deltas_drop_turn(txn, &two, &message_id("m"))
        })
        .unwrap();
        assert_eq!(db.events(&of.0, 1).items.len(), 1);
    }

    fn the_streaming_text_is_that_of_the_newest_run_alone(db) {
        let of = db.session("s", 1);
        let branch = of.1.clone();
        assert_eq!(db.read(move |r| streaming_text(r, &branch)).unwrap(), None);
        db.append(chunk(&of, 1, "old", 0, "lost"));
        db.append(chunk(&of, 1, "new", 0, "h\u{e9}"));
        db.append(chunk(&of, 1, "new", 3, "!"));
        let text = db.read(move |r| streaming_text(r, &of.1)).unwrap().unwrap();
        assert_eq!((text.text.as_str(), text.offset, text.run.as_str()), ("h\u{e9}!", 4, "new"));
    }

    fn a_delta_does_not_change_when_its_session_last_changed(db) {
        let of = db.session("s", 1);
        db.append(chunk(&of, 1, "run", 0, "a"));
        let s = of.0.clone();
        let row = db.read(move |r| gent_storage::session_find(r, &s)).unwrap().unwrap();
        assert_eq!(row.session.updated_at, Millis(1));
        db.append(named(&of.0, "x"));
        let row = db.read(move |r| gent_storage::session_find(r, &of.0)).unwrap().unwrap();
        assert_eq!(row.session.updated_at, Millis(5));
    }

    fn a_message_s_calls_end_in_order_and_only_its_own_count(db) {
        let of = db.session("s", 1);
        db.append(ended(&of, "before", "m1", None, false));
        db.insert(message(&of, "m1", "x"));
        db.append(ended(&of, "c2", "m1", None, true));
        db.append(ended(&of, "inner", "m1", Some("c1"), false));
        db.append(ended(&of, "c9", "other", None, false));
        db.append(ended(&of, "c1", "m1", None, false));
        let (s, b) = of.clone();
        let found = db.read(move |r| tool_terminals(r, &s, &b, &message_id("m1"))).unwrap();
        let terminal = |call: &str, failed| ToolTerminal {
            call: ToolCallId::parse(call).unwrap(),
            failed,
            result_json: Some("{}".into()),
        };
        assert_eq!(found, [terminal("c2", true), terminal("c1", false)]);
        let none = db.read(move |r| tool_terminals(r, &of.0, &of.1, &message_id("nobody"))).unwrap();
        assert!(none.is_empty());
    }
}
