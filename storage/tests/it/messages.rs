//! Tests messages: order by place, content stored once, pages, the settled mark, the snapshot.

use gent_protocol::{CustomType, EventSeq, MessageMetadata, Millis, Ordinal, Part, ToolCall, ToolCallId};
use gent_storage::{
    StoreError, TurnState, branch_has_history, message_get, message_list, message_settle, messages_before,
    queue_append, snapshot_read, turn_put,
};
use serde_json::json;

use crate::fixture::{chunk, elsewhere, item, message, message_id, turn, workspace};

suite! {
    fn a_message_is_read_as_it_was_written(db) {
        let of = db.session("s", 1);
        let mut sent = message(&of, "m1", "hello \u{0}\u{1f600}");
        sent.metadata = Some(MessageMetadata {
            custom_type: Some(CustomType::Continuation.as_str().into()),
            details: Some(json!({"a": [1, "\u{0}"]})),
            ..MessageMetadata::default()
        });
        sent.parts.push(Part::ToolCall(ToolCall {
            id: ToolCallId::parse("c").unwrap(),
            name: "read".into(),
            params: json!({"path": "a.rs"}),
            provider_executed: false,
            options: None,
        }));
        let inserted = db.insert(sent.clone());
        assert_eq!((inserted.ordinal, inserted.event, inserted.existed), (Ordinal(1), EventSeq(2), false));
        let branch = of.1.clone();
        let stored = db.read(move |r| message_get(r, &branch, &message_id("m1"))).unwrap().unwrap();
        assert_eq!(stored.message, sent);
        let page = db.events(&of.0, 1);
        assert_eq!((page.items[0].tag, page.items.len()), ("MessageReceived", 1));
    }

    fn a_known_id_writes_nothing_again_a3(db) {
        let of = db.session("s", 1);
        let first = db.insert(message(&of, "m1", "hello"));
        let again = db.insert(message(&of, "m1", "other"));
        assert_eq!((again.ordinal, again.event, again.existed), (first.ordinal, first.event, true));
        assert_eq!(db.events(&of.0, 0).items.len(), 2);
    }

    fn the_same_message_id_in_two_branches_is_two_messages_d23(db) {
        let (one, two) = (db.session("s", 1), db.session("t", 1));
        assert!(!db.insert(message(&one, "m1", "x")).existed);
        assert!(!db.insert(message(&two, "m1", "x")).existed);
        assert_eq!(db.sql_number("SELECT count(*) FROM content_chunks"), 1);
    }

    fn messages_keep_the_order_of_their_writes_when_the_clock_steps_back(db) {
        let of = db.session("s", 1);
        for (id, at) in [("m1", 9), ("m2", 5), ("m3", 7)] {
            let mut sent = message(&of, id, id);
            sent.created_at = Millis(at);
            db.insert(sent);
        }
        let (b, c) = (of.1.clone(), of.1.clone());
        let page = db.read(move |r| message_list(r, &workspace(), &b, 2, None)).unwrap();
        assert_eq!(page.items.iter().map(|m| m.id.as_str()).collect::<Vec<_>>(), ["m1", "m2"]);
        let page = db.read(move |r| message_list(r, &workspace(), &c, 2, page.next.as_deref())).unwrap();
        assert_eq!((page.items[0].id.as_str(), page.next), ("m3", None));
        assert!(db.read(move |r| message_list(r, &elsewhere(), &of.1, 2, None)).unwrap().items.is_empty());
    }

    fn a_page_of_messages_ends_at_the_newest_and_is_bounded_in_bytes(db) {
        let of = db.session("s", 1);
        for n in 1..=5 {
            db.insert(message(&of, &format!("m{n}"), &"x".repeat(100)));
        }
        let read = |before: Option<i64>, limit: u32, bytes: usize| {
            let branch = of.1.clone();
            let read = db.read(move |r| messages_before(r, &branch, before.map(Ordinal), limit, bytes));
            read.unwrap().iter().map(|m| m.ordinal.0).collect::<Vec<i64>>()
        };
        assert_eq!(read(None, 2, usize::MAX), [4, 5]);
        assert_eq!(read(Some(4), 9, usize::MAX), [1, 2, 3]);
        assert_eq!(read(None, 9, 300), [4, 5]);
        assert_eq!(read(None, 9, 1), [5]);
        assert_eq!(read(Some(1), 9, 1), [0_i64; 0]);
    }

    fn a_turn_settles_once_in_its_own_branch_alone(db) {
        let (one, two) = (db.session("s", 1), db.session("t", 1));
        db.insert(message(&one, "m1", "x"));
        db.insert(message(&two, "m1", "x"));
        let settle = |branch: &gent_protocol::BranchId| {
            let branch = branch.clone();
            db.write(move |txn| message_settle(txn, &branch, &message_id("m1"), Millis(33))).unwrap()
        };
        assert!(settle(&one.1));
        assert!(!settle(&one.1));
        let other = two.1.clone();
        let untouched = db.read(move |r| message_get(r, &other, &message_id("m1"))).unwrap().unwrap();
        assert_eq!(untouched.message.turn_duration_ms, None);
        assert!(settle(&two.1));
    }

    fn a_branch_without_a_message_has_no_history(db) {
        let of = db.session("s", 1);
        let branch = of.1.clone();
        assert!(!db.read(move |r| branch_has_history(r, &branch)).unwrap());
        db.insert(message(&of, "m1", "x"));
        assert!(db.read(move |r| branch_has_history(r, &of.1)).unwrap());
    }

    fn a_snapshot_holds_everything_of_one_instant_and_a_cursor_for_the_rest(db) {
        let of = db.session("s", 1);
        for n in 1..=3 {
            db.insert(message(&of, &format!("m{n}"), "x"));
        }
        let (row, queued) = (turn(&of, "m3", TurnState::Running, 8), item(&of, "q", true));
        let (r2, q2) = (row.clone(), queued.clone());
        db.write(move |txn| {
            turn_put(txn, &r2)?;
            queue_append(txn, &q2)
        })
        .unwrap();
        db.append(chunk(&of, 1, "run", 0, "par"));
        db.append(chunk(&of, 1, "run", 3, "tial"));
        let (s, b) = of.clone();
        let rows = db.read(move |r| snapshot_read(r, &workspace(), &s, &b, None, 2, usize::MAX)).unwrap();
        assert_eq!(rows.messages.iter().map(|m| m.message.id.as_str()).collect::<Vec<_>>(), ["m2", "m3"]);
        assert_eq!((rows.truncated, rows.before.as_deref()), (true, Some("2")));
        assert_eq!(rows.last_event, EventSeq(6));
        assert_eq!((rows.turn, rows.queue), (Some(row), vec![queued]));
        let streaming = rows.streaming.unwrap();
        assert_eq!((streaming.text.as_str(), streaming.offset), ("partial", 7));
        let (s, b) = of.clone();
        let rows = db.read(move |r| snapshot_read(r, &workspace(), &s, &b, Some("2"), 2, 9999)).unwrap();
        assert_eq!((rows.messages.len(), rows.truncated, rows.before), (1, false, None));
    }

    fn a_snapshot_of_what_is_not_there_says_what_is_missing(db) {
        let (session, branch) = db.session("s", 1);
        let (s, b) = (session.clone(), branch.clone());
        let error = db.read(move |r| snapshot_read(r, &elsewhere(), &s, &b, None, 2, 9)).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { what: "session", .. }));
        let other = db.session("t", 1).1;
        let s = session.clone();
        let error = db.read(move |r| snapshot_read(r, &workspace(), &s, &other, None, 2, 9)).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { what: "branch", .. }));
        let error =
            db.read(move |r| snapshot_read(r, &workspace(), &session, &branch, Some("x"), 2, 9)).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }));
    }
}
