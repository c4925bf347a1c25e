//! Tests what becomes of rows that do not decode: they hide themselves and are left as they are, a turn keeps its branch
//! usable; a known event that does not decode fails the replay that reaches it, and nothing else.

use std::collections::HashMap;

use gent_protocol::{Approval, EventSeq, Millis, ToolCallId};
use gent_storage::{
    StoreError, TurnRow, TurnState, bindings_get, bindings_put, branches_with_queue, events_after,
    message_list, queue_append, queue_clear, queue_items, session_list, snapshot_read, turn_get, turn_put,
    turns_unfinished,
};
use serde_json::{Value, json};

use crate::fixture::{item, message, message_id, named, turn, workspace};

suite! {
    fn a_damaged_session_hides_itself_and_not_the_list(db) {
        db.session("a", 1);
        db.session("b", 2);
        db.sql("UPDATE sessions SET env_json = 'nonsense' WHERE id = 'a'");
        let page = db.read(|r| session_list(r, &workspace(), 9, None)).unwrap();
        assert_eq!(page.items.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    fn a_damaged_message_hides_itself_and_not_its_branch(db) {
        let of = db.session("s", 1);
        db.insert(message(&of, "m1", "one"));
        db.insert(message(&of, "m2", "two"));
        db.sql("UPDATE content_chunks SET part_json = '{' WHERE part_json LIKE '%one%'");
        let branch = of.1.clone();
        let page = db.read(move |r| message_list(r, &workspace(), &branch, 9, None)).unwrap();
        assert_eq!(page.items.iter().map(|m| m.id.as_str()).collect::<Vec<_>>(), ["m2"]);
        let rows = db.read(move |r| snapshot_read(r, &workspace(), &of.0, &of.1, None, 9, 999)).unwrap();
        assert_eq!(rows.messages.len(), 1);
    }

    fn a_damaged_queue_row_is_skipped_and_never_rewritten(db) {
        let of = db.session("s", 1);
        for id in ["a", "b"] {
            let queued = item(&of, id, false);
            db.write(move |txn| queue_append(txn, &queued)).unwrap();
        }
        db.sql("UPDATE branch_queue SET message_json = 'nonsense' WHERE message_id = 'a'");
        let branch = of.1.clone();
        assert_eq!(db.read(move |r| queue_items(r, &branch)).unwrap().len(), 1);
        assert_eq!(db.sql_number("SELECT count(*) FROM branch_queue WHERE message_json = 'nonsense'"), 1);
        let branch = of.1.clone();
        assert_eq!(db.write(move |txn| queue_clear(txn, &branch)).unwrap(), [item(&of, "b", false)]);
        assert_eq!(db.sql_number("SELECT count(*) FROM branch_queue WHERE message_json = 'nonsense'"), 1);
    }

    fn a_damaged_value_of_a_turn_is_absent_and_the_turn_goes_on(db) {
        let of = db.session("s", 1);
        let row = turn(&of, "m", TurnState::Running, 5);
        let put = row.clone();
        db.write(move |txn| turn_put(txn, &put)).unwrap();
        db.sql("UPDATE turns SET approval = 'later', route_json = '{', totals_json = 'nonsense'");
        let wanted = TurnRow { approval: Some(Approval::Ask), route: None, totals: Value::Null, ..row };
        let branch = of.1.clone();
        assert_eq!(db.read(move |r| turn_get(r, &branch)).unwrap(), Some(wanted.clone()));
        assert_eq!(db.read(|r| turns_unfinished(r)).unwrap()[0].row, wanted);
        let rows = db.read(move |r| snapshot_read(r, &workspace(), &of.0, &of.1, None, 9, 999)).unwrap();
        assert_eq!(rows.turn, Some(wanted.clone()));
        // Reading repairs nothing; the turn's next write does.
        assert_eq!(db.sql_number("SELECT count(*) FROM turns WHERE totals_json = 'nonsense'"), 1);
        db.write(move |txn| turn_put(txn, &wanted)).unwrap();
        assert_eq!(db.sql_number("SELECT count(*) FROM turns WHERE totals_json = 'null'"), 1);
    }

    fn a_damaged_owner_of_a_queue_hides_itself_and_not_the_others(db) {
        for name in ["a", "b"] {
            let of = db.session(name, 1);
            let queued = item(&of, "m", true);
            db.write(move |txn| queue_append(txn, &queued)).unwrap();
        }
        db.sql("UPDATE sessions SET workspace_id = 'nonsense' WHERE id = 'a'");
        let found = db.read(|r| branches_with_queue(r)).unwrap();
        assert_eq!(found.iter().map(|(_, session, _)| session.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    fn a_damaged_binding_is_absent_and_gives_way_to_a_sound_one(db) {
        let of = db.session("s", 1);
        let (call, other) = (ToolCallId::parse("c").unwrap(), ToolCallId::parse("d").unwrap());
        let bound = [(call.clone(), json!(1)), (other.clone(), json!(2))];
        let put = |bound: &[(ToolCallId, Value)]| {
            let (branch, bound) = (of.1.clone(), bound.to_vec());
            db.write(move |txn| bindings_put(txn, &branch, &message_id("a"), &bound, Millis(1))).unwrap();
        };
        let get = || {
            let branch = of.1.clone();
            db.read(move |r| bindings_get(r, &branch, &message_id("a"))).unwrap()
        };
        put(&bound);
        db.sql("UPDATE tool_call_bindings SET binding_json = '{' WHERE tool_call_id = 'c'");
        assert_eq!(get(), HashMap::from([(other.clone(), json!(2))]));
        put(&[(call.clone(), json!(3))]);
        assert_eq!(get(), HashMap::from([(call, json!(3)), (other, json!(2))]));
    }

    fn an_unknown_event_is_skipped_and_a_known_one_that_does_not_decode_is_named(db) {
        let of = db.session("s", 1);
        for name in ["2", "3", "4"] {
            db.append(named(&of.0, name));
        }
        db.sql(
            "UPDATE events SET tag = 'Later', event_json = '{\"_tag\":\"Later\"}' WHERE seq = 2; \
             UPDATE events SET event_json = '{\"_tag\":\"SessionNameUpdated\"}' WHERE seq = 4;",
        );
        let read = |after: i64| {
            let session = of.0.clone();
            db.read(move |r| events_after(r, &session, None, EventSeq(after), 9, 9_999))
        };
        // What comes before the damage is still delivered.
        let page = read(0).unwrap();
        assert_eq!(page.items.iter().map(|e| e.id.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((page.last, page.more), (EventSeq(3), true));
        let error = read(3).unwrap_err();
        assert!(matches!(error, StoreError::Undecodable { .. }));
        assert!(error.to_string().contains("event 4 of session s"), "{error}");
        // List and snapshot go on.
        assert_eq!(db.read(|r| session_list(r, &workspace(), 9, None)).unwrap().items.len(), 1);
        let rows = db.read(move |r| snapshot_read(r, &workspace(), &of.0, &of.1, None, 9, 999)).unwrap();
        assert_eq!(rows.last_event, EventSeq(4));
    }
}
