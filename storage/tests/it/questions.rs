//! Tests questions to a person: one shown a branch, the others in the order of their asks, each answer once, and the
//! event that tells of it in the same write.

use gent_protocol::{
    BranchId, InteractionRequestId, Millis, Question, QuestionDecision, SessionId, ToolCallId,
};
use gent_storage::{
    Answered, Asked, NewQuestion, QuestionRow, QuestionStatus, StoreError, TurnState, UnfinishedTurn,
    question_answer, question_ask, question_close, question_get, question_shown, question_take,
    questions_close_turn, questions_of_step, snapshot_read, turn_put, turns_parked, turns_unfinished,
};
use serde_json::{Value, json};

use crate::fixture::{Fixture, message_id, turn, workspace};

type Of = (SessionId, BranchId);

fn request_id(text: &str) -> InteractionRequestId {
    InteractionRequestId::parse(text).unwrap()
}

/// The first ask of the call `id`, in the step `a` of the turn `m`.
pub(crate) fn new_question(of: &Of, id: &str) -> NewQuestion {
    NewQuestion {
        request_id: request_id(id),
        session_id: of.0.clone(),
        branch_id: of.1.clone(),
        turn: message_id("m"),
        assistant: message_id("a"),
        call: ToolCallId::parse(id).unwrap(),
        occurrence: 0,
        question: Question { text: format!("{id}?"), metadata: Some(json!({ "z": 1, "a": [1.5] })) },
        at: Millis(20),
    }
}

fn ask(db: &Fixture, new: NewQuestion) -> Asked {
    db.write(move |txn| question_ask(txn, &new)).unwrap()
}

fn asked(db: &Fixture, of: &Of, ids: &[&str]) {
    for id in ids {
        assert!(matches!(ask(db, new_question(of, id)), Asked::Stored(_)));
    }
}

fn yes() -> QuestionDecision {
    QuestionDecision {
        approved: true,
        notes: Some("but \0 softly".into()),
        edited_content: Some("ls".into()),
    }
}

fn no() -> QuestionDecision {
    QuestionDecision { approved: false, notes: None, edited_content: None }
}

fn answer(db: &Fixture, of: &Of, id: &str, decision: QuestionDecision) -> Answered {
    let (branch, id) = (of.1.clone(), request_id(id));
    db.write(move |txn| question_answer(txn, &branch, &id, &decision, Millis(30))).unwrap()
}

fn take(db: &Fixture, id: &str) -> bool {
    let id = request_id(id);
    db.write(move |txn| question_take(txn, &id)).unwrap()
}

fn close(db: &Fixture, id: &str) {
    let id = request_id(id);
    db.write(move |txn| question_close(txn, &id, Millis(40))).unwrap();
}

fn close_turn(db: &Fixture, of: &Of, turn: &str) {
    let (branch, turn) = (of.1.clone(), message_id(turn));
    db.write(move |txn| questions_close_turn(txn, &branch, &turn, Millis(40))).unwrap();
}

fn get(db: &Fixture, id: &str) -> Option<QuestionRow> {
    let id = request_id(id);
    db.read(move |r| question_get(r, &id)).unwrap()
}

/// The id and status of each open question of the step `a`.
fn open(db: &Fixture, of: &Of) -> Vec<(String, QuestionStatus)> {
    let branch = of.1.clone();
    let rows = db.read(move |r| questions_of_step(r, &branch, &message_id("a"))).unwrap();
    rows.into_iter().map(|row| (row.request_id.to_string(), row.status)).collect()
}

fn shown(db: &Fixture, of: &Of) -> Option<String> {
    let branch = of.1.clone();
    db.read(move |r| question_shown(r, &branch)).unwrap().map(|row| row.request_id.to_string())
}

/// What was told: `+id` for a question that was shown, `-id` for one that was dismissed, `=id` for one answered.
fn told(db: &Fixture, of: &Of) -> Vec<String> {
    let events = db.events(&of.0, 0).items;
    let events = events.iter().map(|event| serde_json::from_str::<Value>(&event.json).unwrap());
    events
        .filter_map(|envelope| {
            let event = &envelope["event"];
            let id = event["requestId"].as_str()?;
            Some(match (event["_tag"].as_str()?, &event["dismissed"]) {
                ("InteractionPresented", _) => format!("+{id}"),
                (_, Value::Null) => format!("={id}"),
                _ => format!("-{id}"),
            })
        })
        .collect()
}

suite! {
    fn a_question_is_shown_with_its_event_and_read_as_it_was_asked(db) {
        let of = db.session("s", 1);
        let new = new_question(&of, "q1");
        let wanted = QuestionRow {
            request_id: new.request_id.clone(),
            session_id: of.0.clone(),
            branch_id: of.1.clone(),
            turn: new.turn.clone(),
            assistant: new.assistant.clone(),
            call: new.call.clone(),
            occurrence: 0,
            question: new.question.clone(),
            status: QuestionStatus::Shown,
            decision: None,
            created_at: Millis(20),
        };
        assert_eq!(ask(db, new), Asked::Stored(wanted.clone()));
        assert_eq!(get(db, "q1"), Some(wanted.clone()));
        let event: Value = serde_json::from_str(&db.events(&of.0, 1).items[0].json).unwrap();
        assert_eq!(event["createdAt"], 20);
        let presented = json!({
            "_tag": "InteractionPresented", "sessionId": "s", "branchId": "s-b", "requestId": "q1",
            "text": "q1?", "metadata": { "z": 1, "a": [1.5] },
        });
        assert_eq!(event["event"], presented);
        let rows = db.read(move |r| snapshot_read(r, &workspace(), &of.0, &of.1, None, 9, 999)).unwrap();
        assert_eq!(rows.question, Some(wanted));
        assert_eq!(get(db, "unknown"), None);
    }

    fn one_question_of_a_branch_is_shown_and_the_others_follow_in_the_order_of_their_asks_f22(db) {
        let (of, other) = (db.session("s", 1), db.session("t", 1));
        asked(db, &of, &["q2", "q1", "q3"]);
        asked(db, &other, &["p1"]);
        let waiting = QuestionStatus::Waiting;
        let all = [("q2".to_owned(), QuestionStatus::Shown), ("q1".to_owned(), waiting), ("q3".to_owned(), waiting)];
        assert_eq!(open(db, &of), all);
        assert_eq!(told(db, &of), ["+q2"]);
        answer(db, &of, "q2", yes());
        assert_eq!(shown(db, &of).as_deref(), Some("q1"));
        answer(db, &of, "q1", no());
        answer(db, &of, "q3", yes());
        assert_eq!(told(db, &of), ["+q2", "=q2", "+q1", "=q1", "+q3", "=q3"]);
        assert_eq!(shown(db, &other).as_deref(), Some("p1"));
        // The database itself keeps a second one from being shown.
        let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.sql("UPDATE questions SET status = 'shown' WHERE branch_id = 's-b'");
        }));
        assert!(second.is_err());
    }

    fn an_answer_is_stored_with_its_event_and_its_repeat_writes_nothing(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1"]);
        let first = answer(db, &of, "q1", yes());
        let row = get(db, "q1").unwrap();
        assert_eq!((row.status, row.decision.as_ref()), (QuestionStatus::Answered, Some(&yes())));
        assert_eq!(first, Answered::First { row: Box::new(row) });
        let resolved = json!({
            "_tag": "InteractionResolved", "sessionId": "s", "branchId": "s-b", "requestId": "q1",
            "approved": true, "notes": "but \0 softly", "editedContent": "ls",
        });
        let event: Value = serde_json::from_str(&db.events(&of.0, 2).items[0].json).unwrap();
        assert_eq!((&event["event"], &event["createdAt"]), (&resolved, &json!(30)));
        let repeated = |status: QuestionStatus| {
            let Answered::Same { row } = answer(db, &of, "q1", yes()) else { panic!("not the same") };
            assert_eq!((row.status, row.decision), (status, Some(yes())));
            assert_eq!(answer(db, &of, "q1", no()), Answered::Different);
        };
        repeated(QuestionStatus::Answered);
        assert_eq!((take(db, "q1"), take(db, "q1"), take(db, "q2")), (true, false, false));
        repeated(QuestionStatus::Taken);
        close(db, "q1");
        repeated(QuestionStatus::Closed);
        assert_eq!(told(db, &of), ["+q1", "=q1"]);
    }

    fn only_the_shown_question_of_the_branch_may_be_answered(db) {
        let (of, other) = (db.session("s", 1), db.session("t", 1));
        asked(db, &of, &["q1", "q2", "q3"]);
        asked(db, &other, &["p1"]);
        close(db, "q1");
        let unknown = Answered::Unknown { shown: Some(request_id("q2")) };
        for id in ["q1", "q3", "p1", "nobody"] {
            assert_eq!(answer(db, &of, id, yes()), unknown, "{id}");
        }
        assert_eq!(get(db, "p1").unwrap().status, QuestionStatus::Shown);
        close(db, "q2");
        close(db, "q3");
        assert_eq!(answer(db, &of, "q2", yes()), Answered::Unknown { shown: None });
        // An answer that was given to one branch is no answer to the same id from another.
        answer(db, &other, "p1", yes());
        assert_eq!(answer(db, &of, "p1", yes()), Answered::Unknown { shown: None });
        assert_eq!(told(db, &of), ["+q1", "-q1", "+q2", "-q2", "+q3", "-q3"]);
    }

    fn the_same_ask_is_known_and_a_changed_one_is_another_question(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1", "q2"]);
        let again = NewQuestion { request_id: request_id("later"), ..new_question(&of, "q1") };
        let Asked::Known(row) = ask(db, again.clone()) else { panic!("not known") };
        assert_eq!((row.request_id.as_str(), row.status), ("q1", QuestionStatus::Shown));
        answer(db, &of, "q1", yes());
        take(db, "q1");
        let Asked::Known(row) = ask(db, again.clone()) else { panic!("not known") };
        assert_eq!((row.status, row.decision), (QuestionStatus::Taken, Some(yes())));
        // The answer was to another question: it is not this one's.
        let changed = NewQuestion { question: Question { text: "else?".into(), metadata: None }, ..again };
        let Asked::Stored(row) = ask(db, changed) else { panic!("known") };
        assert_eq!((row.request_id.as_str(), row.status), ("later", QuestionStatus::Waiting));
        assert_eq!(get(db, "q1").unwrap().status, QuestionStatus::Closed);
        // A shown one that changes is dismissed, and the next one is shown before it.
        let mut changed = new_question(&of, "q2");
        changed.request_id = request_id("latest");
        changed.question.text = "else?".into();
        ask(db, changed);
        assert_eq!(told(db, &of), ["+q1", "=q1", "+q2", "-q2", "+later"]);
        let all = [("later".to_owned(), QuestionStatus::Shown), ("latest".to_owned(), QuestionStatus::Waiting)];
        assert_eq!(open(db, &of), all);
    }

    fn two_asks_of_a_call_and_the_same_text_of_two_calls_are_questions_of_their_own(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1"]);
        answer(db, &of, "q1", yes());
        take(db, "q1");
        let second = NewQuestion { request_id: request_id("q1-1"), occurrence: 1, ..new_question(&of, "q1") };
        let other = NewQuestion { call: ToolCallId::parse("c").unwrap(), ..second.clone() };
        let other = NewQuestion { request_id: request_id("c-1"), ..other };
        assert!(matches!(ask(db, second), Asked::Stored(_)));
        assert!(matches!(ask(db, other), Asked::Stored(_)));
        let all = [
            ("q1".to_owned(), QuestionStatus::Taken),
            ("q1-1".to_owned(), QuestionStatus::Shown),
            ("c-1".to_owned(), QuestionStatus::Waiting),
        ];
        assert_eq!(open(db, &of), all);
    }

    fn an_ask_of_a_later_step_closes_all_that_earlier_steps_left_open(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1", "q2"]);
        answer(db, &of, "q1", yes());
        take(db, "q1");
        let later = NewQuestion { assistant: message_id("b"), ..new_question(&of, "q3") };
        ask(db, later);
        assert_eq!(get(db, "q1").unwrap().status, QuestionStatus::Closed);
        assert!(open(db, &of).is_empty(), "nothing of the earlier step is open");
        assert_eq!(get(db, "q3").unwrap().status, QuestionStatus::Shown);
        assert_eq!(told(db, &of), ["+q1", "=q1", "+q2", "-q2", "+q3"]);
    }

    fn a_closed_question_is_dismissed_once_and_the_next_is_shown(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1", "q2", "q3"]);
        close(db, "q2");
        close(db, "q1");
        close(db, "q1");
        close(db, "nobody");
        assert_eq!(told(db, &of), ["+q1", "-q1", "+q3"]);
        answer(db, &of, "q3", yes());
        close(db, "q3");
        assert_eq!(told(db, &of), ["+q1", "-q1", "+q3", "=q3"]);
    }

    fn a_turn_that_ends_dismisses_the_shown_question_and_shows_none_of_its_own(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1", "q2", "q3", "q4"]);
        answer(db, &of, "q1", yes());
        let later = NewQuestion { turn: message_id("m2"), ..new_question(&of, "q5") };
        ask(db, later);
        close_turn(db, &of, "other");
        assert_eq!(shown(db, &of).as_deref(), Some("q2"));
        close_turn(db, &of, "m");
        assert_eq!(open(db, &of), [("q5".to_owned(), QuestionStatus::Shown)]);
        assert_eq!(told(db, &of), ["+q1", "=q1", "+q2", "-q2", "+q5"]);
    }

    fn a_parked_turn_is_listed_and_goes_on_once_it_has_an_answer(db) {
        let (answered, open, foreign) = (db.session("a", 1), db.session("b", 1), db.session("c", 1));
        let running = db.session("d", 1);
        let rows = [
            turn(&answered, "m", TurnState::Parked, 30),
            turn(&open, "m", TurnState::Parked, 20),
            turn(&foreign, "m2", TurnState::Parked, 10),
            turn(&running, "m", TurnState::Running, 40),
        ];
        db.write(move |txn| rows.iter().try_for_each(|row| turn_put(txn, row))).unwrap();
        asked(db, &answered, &["a1", "a2"]);
        asked(db, &open, &["b1"]);
        asked(db, &foreign, &["c1"]);
        for (of, id) in [(&answered, "a1"), (&answered, "a2"), (&foreign, "c1")] {
            answer(db, of, id, yes());
        }
        let names = |turns: Vec<UnfinishedTurn>| -> Vec<String> {
            turns.iter().map(|turn| turn.row.session_id.to_string()).collect()
        };
        assert_eq!(names(db.read(|r| turns_unfinished(r)).unwrap()), ["a", "d"]);
        assert_eq!(names(db.read(|r| turns_parked(r)).unwrap()), ["c", "b", "a"]);
        // Taken, an answer is no reason to wake its turn again.
        assert!(take(db, "a1") && take(db, "a2"));
        assert_eq!(names(db.read(|r| turns_unfinished(r)).unwrap()), ["d"]);
        db.sql("UPDATE sessions SET deleting_at = 9 WHERE id <> 'b'");
        assert_eq!(names(db.read(|r| turns_parked(r)).unwrap()), ["b"]);
    }

    fn a_write_that_fails_leaves_neither_answer_nor_event(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1", "q2"]);
        let branch = of.1.clone();
        let failed = db.write(move |txn| {
            question_answer(txn, &branch, &request_id("q1"), &yes(), Millis(30))?;
            Err::<(), _>(StoreError::Conflict { message: "no".into() })
        });
        assert!(failed.is_err());
        assert_eq!(shown(db, &of).as_deref(), Some("q1"));
        assert_eq!(told(db, &of), ["+q1"]);
    }

    fn a_lost_answer_is_asked_for_again(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1", "q2", "q3"]);
        for id in ["q1", "q2"] {
            answer(db, &of, id, yes());
            take(db, id);
        }
        answer(db, &of, "q3", yes());
        db.sql("UPDATE questions SET decision_json = '{' WHERE request_id <> 'q3'");
        let all = |third| [
            ("q1".to_owned(), QuestionStatus::Shown),
            ("q2".to_owned(), QuestionStatus::Waiting),
            ("q3".to_owned(), third),
        ];
        assert_eq!(open(db, &of), all(QuestionStatus::Answered));
        assert_eq!(shown(db, &of).as_deref(), Some("q1"));
        let Asked::Known(row) = ask(db, new_question(&of, "q1")) else { panic!("not known") };
        assert_eq!((row.status, row.decision), (QuestionStatus::Shown, None));
        assert_eq!(open(db, &of), all(QuestionStatus::Answered));
        assert!(matches!(answer(db, &of, "q1", no()), Answered::First { .. }));
        let told = told(db, &of);
        assert_eq!(told[told.len() - 3..], ["+q1", "=q1", "+q2"]);
    }

    fn a_lost_answer_is_given_again_also_before_it_is_asked_for(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1"]);
        answer(db, &of, "q1", yes());
        db.sql("UPDATE questions SET decision_json = '{'");
        assert!(matches!(answer(db, &of, "q1", no()), Answered::First { .. }));
        assert_eq!(get(db, "q1").unwrap().decision, Some(no()));
    }

    fn a_damaged_question_hides_itself_and_gives_its_place_to_the_next(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1", "q2", "q3"]);
        db.sql("UPDATE questions SET question_json = '{' WHERE request_id = 'q1'");
        db.sql("UPDATE questions SET status = 'later' WHERE request_id = 'q3'");
        assert_eq!(open(db, &of), [("q2".to_owned(), QuestionStatus::Waiting)]);
        assert_eq!((shown(db, &of), get(db, "q1")), (None, None));
        // The call asks again: its damaged row does not keep it from that.
        let again = NewQuestion { request_id: request_id("q4"), ..new_question(&of, "q1") };
        assert!(matches!(ask(db, again), Asked::Stored(_)));
        let all = [("q2".to_owned(), QuestionStatus::Shown), ("q4".to_owned(), QuestionStatus::Waiting)];
        assert_eq!(open(db, &of), all);
        assert_eq!(told(db, &of), ["+q1", "-q1", "+q2"]);
        assert_eq!(db.sql_number("SELECT count(*) FROM questions WHERE question_json = '{'"), 1);
    }

    fn a_damaged_question_of_another_call_gives_its_place_to_the_next(db) {
        let of = db.session("s", 1);
        asked(db, &of, &["q1"]);
        db.sql("UPDATE questions SET question_json = '{' WHERE request_id = 'q1'");
        asked(db, &of, &["q2"]);
        assert_eq!(shown(db, &of).as_deref(), Some("q2"));
        assert_eq!(told(db, &of), ["+q1", "-q1", "+q2"]);
    }
}
