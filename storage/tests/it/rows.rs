//! Tests unfinished turns, waiting messages, bindings of calls and outcomes of commands.

use std::collections::HashMap;

use gent_protocol::{BranchId, Millis, SessionId, ToolCallId, WorkspaceId};
use gent_storage::{
    QueueItem, QueueSender, StoreError, TurnState, bindings_get, bindings_put, branches_with_queue,
    operation_get, operation_put, operation_reserve, queue_append, queue_clear, queue_items, queue_remove,
    turn_delete, turn_get, turn_put, turns_unfinished,
};
use serde_json::{Value, json};

use crate::fixture::{Fixture, elsewhere, item, message, message_id, turn, workspace};

fn put(db: &Fixture, row: gent_storage::TurnRow) -> Result<(), StoreError> {
    db.write(move |txn| turn_put(txn, &row))
}

fn call_id(text: &str) -> ToolCallId {
    ToolCallId::parse(text).unwrap()
}

fn queue(db: &Fixture, item: QueueItem) {
    db.write(move |txn| queue_append(txn, &item)).unwrap();
}

fn queued(db: &Fixture, branch: &BranchId) -> Vec<String> {
    let branch = branch.clone();
    let items = db.read(move |r| queue_items(r, &branch)).unwrap();
    items.iter().map(|item| item.message.text()).collect()
}

suite! {
    fn a_turn_is_read_as_it_was_put_and_replaces_itself(db) {
        let of = db.session("s", 1);
        put(db, turn(&of, "m", TurnState::Running, 5)).unwrap();
        let mut row = turn(&of, "m", TurnState::Parked, 5);
        (row.approval, row.route, row.waiting_for, row.attempts) = (None, None, None, 0);
        put(db, row.clone()).unwrap();
        assert_eq!(db.read(move |r| turn_get(r, &of.1)).unwrap(), Some(row));
    }

    fn a_branch_has_one_unfinished_turn_and_no_other_replaces_it(db) {
        let of = db.session("s", 1);
        let first = turn(&of, "m", TurnState::Running, 5);
        put(db, first.clone()).unwrap();
        let error = put(db, turn(&of, "other", TurnState::Running, 5)).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }) && error.to_string().contains("unfinished turn m"));
        let branch = of.1.clone();
        db.write(move |txn| turn_delete(txn, &branch, &message_id("other"))).unwrap();
        let branch = of.1.clone();
        assert_eq!(db.read(move |r| turn_get(r, &branch)).unwrap(), Some(first));
        let branch = of.1.clone();
        db.write(move |txn| turn_delete(txn, &branch, &message_id("m"))).unwrap();
        assert_eq!(db.read(move |r| turn_get(r, &of.1)).unwrap(), None);
    }

    fn running_and_drained_turns_go_on_oldest_first_and_parked_ones_wait(db) {
        for (name, state, at) in
            [("a", TurnState::Drained, 30), ("b", TurnState::Parked, 10), ("c", TurnState::Running, 20)]
        {
            put(db, turn(&db.session(name, 1), "m", state, at)).unwrap();
        }
        let gone = db.session("d", 1);
        put(db, turn(&gone, "m", TurnState::Running, 1)).unwrap();
        db.sql("UPDATE sessions SET deleting_at = 9 WHERE id = 'd'");
        let found = db.read(|r| turns_unfinished(r)).unwrap();
        let ids: Vec<&str> = found.iter().map(|turn| turn.row.session_id.as_str()).collect();
        assert_eq!(ids, ["c", "a"]);
        assert_eq!(found[0].workspace, workspace());
    }

    fn waiting_messages_keep_their_order_and_a_repeat_keeps_its_place(db) {
        let of = db.session("s", 1);
        for id in ["a", "b", "c"] {
            queue(db, item(&of, id, false));
        }
        let mut again = item(&of, "b", true);
        again.message = message(&of, "b", "b2");
        queue(db, again.clone());
        assert_eq!(queued(db, &of.1), ["a", "b2", "c"]);
        let branch = of.1.clone();
        assert_eq!(db.read(move |r| queue_items(r, &branch)).unwrap()[1], again);
    }

    fn a_waiting_message_keeps_who_queued_it(db) {
        let of = db.session("s", 1);
        let sender = QueueSender { session_id: of.0.clone(), branch_id: of.1.clone() };
        let queued = QueueItem { sender: Some(sender), ..item(&of, "a", true) };
        queue(db, queued.clone());
        assert_eq!(db.read(move |r| queue_items(r, &of.1)).unwrap(), [queued]);
    }

    fn a_queue_is_taken_whole_in_order_and_no_other_with_it(db) {
        let (one, two) = (db.session("s", 1), db.session("t", 1));
        for id in ["a", "b", "c"] {
            queue(db, item(&one, id, false));
        }
        queue(db, item(&two, "d", false));
        // Taken back and queued again, the item goes to the end.
        let branch = one.1.clone();
        db.write(move |txn| queue_remove(txn, &branch, &message_id("a"))).unwrap();
        queue(db, item(&one, "a", true));
        let branch = one.1.clone();
        let taken = db.write(move |txn| queue_clear(txn, &branch)).unwrap();
        assert_eq!(taken, [item(&one, "b", false), item(&one, "c", false), item(&one, "a", true)]);
        assert_eq!(queued(db, &one.1), Vec::<String>::new());
        assert_eq!(queued(db, &two.1), ["d"]);
    }

    fn a_waiting_message_is_removed_once_and_from_its_own_branch(db) {
        let (one, two) = (db.session("s", 1), db.session("t", 1));
        queue(db, item(&one, "a", false));
        queue(db, item(&two, "a", false));
        let remove = || {
            let branch = one.1.clone();
            db.write(move |txn| queue_remove(txn, &branch, &message_id("a"))).unwrap()
        };
        assert_eq!((remove(), remove()), (true, false));
        assert_eq!(queued(db, &two.1), ["a"]);
    }

    fn a_queue_wakes_its_branch_when_an_item_says_so_or_there_is_history(db) {
        let sleeping = db.session("sleeping", 1);
        queue(db, item(&sleeping, "a", false));
        let waking = db.session("waking", 1);
        queue(db, item(&waking, "a", false));
        queue(db, item(&waking, "b", true));
        let old = db.session("old", 1);
        db.insert(message(&old, "m", "x"));
        queue(db, item(&old, "a", false));
        let found = db.read(|r| branches_with_queue(r)).unwrap();
        let mut ids: Vec<&str> = found.iter().map(|(_, session, _)| session.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["old", "waking"]);
    }

    fn a_call_keeps_its_binding_and_takes_no_other_e20(db) {
        let (of, other) = (db.session("s", 1), db.session("t", 1));
        let put = |of: &(SessionId, BranchId), message: &str, bindings: &[(&str, Value)]| {
            let (branch, message) = (of.1.clone(), message_id(message));
            let bindings: Vec<_> =
                bindings.iter().map(|(call, value)| (call_id(call), value.clone())).collect();
            db.write(move |txn| bindings_put(txn, &branch, &message, &bindings, Millis(1)))
        };
        let get = |of: &(SessionId, BranchId), message: &str| {
            let (branch, message) = (of.1.clone(), message_id(message));
            db.read(move |r| bindings_get(r, &branch, &message)).unwrap()
        };
        let (one, two) = (json!({"tool": "bash", "n": 1}), json!({"tool": "read"}));
        put(&of, "a", &[("1", one.clone()), ("2", two.clone())]).unwrap();
        put(&of, "a", &[("1", json!({"n": 1, "tool": "bash"}))]).unwrap();
        // A conflict stores nothing of its write.
        let error = put(&of, "a", &[("3", one.clone()), ("1", two.clone())]).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
        assert!(error.to_string().contains("call 1 of message a of branch s-b"), "{error}");
        let all = HashMap::from([(call_id("1"), one.clone()), (call_id("2"), two.clone())]);
        assert_eq!(get(&of, "a"), all);
        // The same name is another call in another message and in another branch.
        put(&of, "b", &[("1", two.clone())]).unwrap();
        put(&other, "a", &[("1", two.clone())]).unwrap();
        assert_eq!(get(&other, "a"), HashMap::from([(call_id("1"), two)]));
        assert_eq!(get(&of, "a"), all);
        assert_eq!(get(&other, "b"), HashMap::new());
    }

    fn the_outcome_of_a_command_is_kept_in_its_workspace_and_never_replaced(db) {
        let of = db.session("s", 1);
        let put = |result: serde_json::Value| {
            let of = of.clone();
            db.write(move |txn| {
                let at = gent_protocol::Millis(1);
                operation_put(txn, &workspace(), "turn.cancel", "m", &result, &of.0, &of.1, at)
            })
        };
        put(json!({"n": 1})).unwrap();
        assert!(matches!(put(json!({"n": 2})), Err(StoreError::Conflict { .. })));
        let kept = db.read(|r| operation_get(r, &workspace(), "turn.cancel", "m")).unwrap().unwrap();
        assert_eq!((kept.session, kept.branch, kept.result), (of.0, of.1, json!({"n": 1})));
        assert_eq!(db.read(|r| operation_get(r, &elsewhere(), "turn.cancel", "m")).unwrap(), None);
        assert_eq!(db.read(|r| operation_get(r, &workspace(), "turn.other", "m")).unwrap(), None);
    }

    fn attempts_at_an_operation_are_granted_up_to_their_bound(db) {
        let of = db.session("s", 1);
        let reserve = |workspace: WorkspaceId, max: u32| {
            let of = of.clone();
            db.write(move |txn| {
                operation_reserve(txn, &workspace, "turn.handoff", "m", &of.0, &of.1, max, Millis(1))
            })
        };
        assert!(!reserve(workspace(), 0).unwrap());
        let granted: Vec<bool> = (0..4).map(|_| reserve(workspace(), 2).unwrap()).collect();
        assert_eq!(granted, [true, true, false, false]);
        let kept = db.read(|r| operation_get(r, &workspace(), "turn.handoff", "m")).unwrap().unwrap();
        assert_eq!((kept.session, kept.branch, kept.result), (of.0.clone(), of.1.clone(), json!({"attempts": 2})));
        assert!(reserve(workspace(), 3).unwrap());
        assert!(reserve(elsewhere(), 1).unwrap());
        // What does not count attempts grants none.
        db.sql("UPDATE durable_operations SET result_json = '{\"ok\":true}'");
        assert!(matches!(reserve(workspace(), 9), Err(StoreError::Conflict { .. })));
    }
}
