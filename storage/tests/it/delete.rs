//! Tests the end of sessions: what is marked, what stays, and a sweep in portions that leaves nothing behind.

use gent_protocol::{EventSeq, Millis, SessionId, ToolCallId};
use gent_storage::{
    StoreError, TurnState, bindings_put, events_after, question_ask, queue_append, session_create,
    session_delete_begin, session_delete_portion, session_find, session_get, session_list, session_set_env,
    sessions_deleting, turn_put, turns_unfinished,
};

use crate::fixture::{
    Fixture, chunk, item, message, message_id, named, new_session, request, turn, workspace,
};
use crate::questions::new_question;

fn begin(db: &Fixture, session: &str) -> Result<Vec<String>, StoreError> {
    let session = SessionId::parse(session).unwrap();
    let ended = db.write(move |txn| session_delete_begin(txn, &workspace(), &session, Millis(99)))?;
    Ok(ended.iter().map(|(session, _)| session.to_string()).collect())
}

/// Sweeps to the end; how many portions it took.
fn sweep(db: &Fixture, session: &SessionId, rows: usize) -> usize {
    let mut n_portions = 0;
    loop {
        n_portions += 1;
        let session = session.clone();
        if db.write(move |txn| session_delete_portion(txn, &session, rows)).unwrap() {
            return n_portions;
        }
    }
}

suite! {
    fn a_marked_session_is_gone_for_everybody_at_once(db) {
        let (session, branch) = db.session("s", 1);
        let ended = {
            let s = session.clone();
            db.write(move |txn| session_delete_begin(txn, &workspace(), &s, Millis(99))).unwrap()
        };
        assert_eq!(ended, [(session.clone(), vec![branch])]);
        let s = session.clone();
        assert_eq!(db.read(move |r| session_get(r, &workspace(), &s)).unwrap(), None);
        let s = session.clone();
        assert!(db.read(move |r| session_find(r, &s)).unwrap().unwrap().deleting);
        assert!(db.read(|r| session_list(r, &workspace(), 9, None)).unwrap().items.is_empty());
        assert_eq!(db.read(|r| sessions_deleting(r)).unwrap(), vec![session.clone()]);
        let event = named(&session, "x");
        let refused = db.write(move |txn| txn.append(&event, Millis(1))).unwrap_err();
        assert!(matches!(refused, StoreError::Terminated { .. }));
        let s = session.clone();
        let refused = db.write(move |txn| session_set_env(txn, &s, &Default::default())).unwrap_err();
        assert!(matches!(refused, StoreError::Terminated { .. }));
        let refused = db.read(move |r| events_after(r, &session, None, EventSeq(0), 9, 9)).unwrap_err();
        assert!(matches!(refused, StoreError::Terminated { .. }));
        assert!(matches!(begin(db, "s"), Err(StoreError::NotFound { .. })));
    }

    fn what_a_session_spawned_goes_with_it_and_a_handoff_of_its_own_thread_stays(db) {
        for name in ["root", "spawn", "spawn-handoff", "handoff", "other"] {
            db.session(name, 1);
        }
        for (child, parent, thread) in [
            ("spawn", "root", "spawn"),
            ("spawn-handoff", "spawn", "spawn"),
            ("handoff", "root", "root"),
        ] {
            db.sql(&format!(
                "UPDATE sessions SET parent_session_id = '{parent}', parent_branch_id = '{parent}-b', \
                 thread_id = '{thread}' WHERE id = '{child}'"
            ));
        }
        assert_eq!(begin(db, "root").unwrap(), ["root", "spawn", "spawn-handoff"]);
        let kept = SessionId::parse("handoff").unwrap();
        let kept = db.read(move |r| session_get(r, &workspace(), &kept)).unwrap().unwrap();
        assert_eq!((kept.session.parent_session_id, kept.session.parent_branch_id), (None, None));
        for session in db.read(|r| sessions_deleting(r)).unwrap() {
            sweep(db, &session, 100);
        }
        assert_eq!(db.sql_number("SELECT count(*) FROM sessions"), 2);
    }

    fn a_sweep_takes_portions_and_leaves_nothing_but_the_counter(db) {
        let mut new = new_session("s", 1);
        new.request = Some(request("r"));
        let of = db.write(move |txn| session_create(txn, &new)).unwrap();
        let of = (of.session_id, of.branch_id);
        let other = db.session("other", 1);
        for n in 0..12 {
            db.insert(message(&of, &format!("m{n}"), &format!("text {n}")));
        }
        db.insert(message(&of, "shared", "shared"));
        db.insert(message(&other, "shared", "shared"));
        db.append(chunk(&of, 1, "run", 0, "x"));
        let (row, queued) = (turn(&of, "m1", TurnState::Running, 1), item(&of, "q", true));
        let (question, branch) = (new_question(&of, "q"), of.1.clone());
        db.write(move |txn| {
            turn_put(txn, &row)?;
            question_ask(txn, &question)?;
            let bound = (ToolCallId::parse("c").unwrap(), serde_json::json!({}));
            bindings_put(txn, &branch, &message_id("a"), &[bound], Millis(1))?;
            queue_append(txn, &queued)
        })
        .unwrap();
        begin(db, "s").unwrap();
        assert!(db.read(|r| turns_unfinished(r)).unwrap().is_empty());
        assert!(sweep(db, &of.0, 5) > 4);
        for table in [
            "sessions", "branches", "branch_owners", "messages", "message_chunks", "events", "turns",
            "branch_queue", "questions", "tool_call_bindings", "stream_deltas", "durable_operations", "branch_metrics",
        ] {
            let key = if table == "sessions" || table == "branches" { "id" } else { "branch_id" };
            let key = if table == "events" || table == "stream_deltas" { "session_id" } else { key };
            let left = db.sql_number(&format!("SELECT count(*) FROM {table} WHERE {key} IN ('s', 's-b')"));
            assert_eq!((table, left), (table, 0));
        }
        // The content that the other session has too stays, everything else went.
        assert_eq!(db.sql_number("SELECT count(*) FROM content_chunks"), 1);
        assert_eq!(db.sql_number("SELECT next_seq FROM session_counters WHERE session_id = 's'"), 17);
        assert!(db.read(|r| sessions_deleting(r)).unwrap().is_empty());
        assert_eq!(db.events(&other.0, 0).items.len(), 2);
    }

    fn a_session_that_is_not_marked_is_never_swept(db) {
        let (session, _) = db.session("s", 1);
        let error = db.write(move |txn| session_delete_portion(txn, &session, 9)).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }));
        let gone = SessionId::parse("gone").unwrap();
        assert!(db.write(move |txn| session_delete_portion(txn, &gone, 9)).unwrap());
    }

    fn a_sweep_goes_on_after_a_restart(db) {
        let of = db.session("s", 1);
        for n in 0..9 {
            db.insert(message(&of, &format!("m{n}"), "x"));
        }
        begin(db, "s").unwrap();
        let s = of.0.clone();
        assert!(!db.write(move |txn| session_delete_portion(txn, &s, 3)).unwrap());
        db.reopen(|_| {});
        assert_eq!(db.read(|r| sessions_deleting(r)).unwrap(), vec![of.0.clone()]);
        sweep(db, &of.0, 100);
        assert_eq!(db.sql_number("SELECT count(*) FROM sessions"), 0);
    }

    fn a_session_of_another_workspace_is_not_deleted(db) {
        let (session, _) = db.session("s", 1);
        let error = db
            .write(move |txn| session_delete_begin(txn, &crate::fixture::elsewhere(), &session, Millis(9)))
            .unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }));
    }
}
