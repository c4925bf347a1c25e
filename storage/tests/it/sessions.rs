//! Tests sessions and branches: made once, seen in their workspace alone, listed by page.

use gent_protocol::{EnvironmentMap, EventSeq, ModelId, ReasoningEffort, SessionAdmission, UpdatedSettings};
use gent_storage::{
    StoreError, branch_get, branch_list, branch_locate, operation_get, session_create, session_find,
    session_get, session_list, session_set_env, session_update_settings,
};

use crate::fixture::{elsewhere, named, new_session, request, workspace};

suite! {
    fn a_session_is_made_with_its_branch_its_event_and_nothing_else(db) {
        let mut new = new_session("s", 10);
        new.model = Some(ModelId::parse("p/m").unwrap());
        new.reasoning = Some(ReasoningEffort::High);
        new.admission = Some(SessionAdmission::default());
        new.env = EnvironmentMap::from([("PATH".to_owned(), "/bin".to_owned())]);
        let wanted = new.clone();
        let made = db.write(move |txn| session_create(txn, &new)).unwrap();
        assert!(!made.replayed);
        let row = db.read(move |r| session_get(r, &workspace(), &made.session_id)).unwrap().unwrap();
        assert_eq!(row.session.model_id, wanted.model);
        assert_eq!(row.session.reasoning_level, Some(ReasoningEffort::High));
        assert_eq!(row.session.admission, None);
        assert_eq!(row.session.active_branch_id, Some(wanted.branch.clone()));
        assert_eq!(row.session.thread_id, Some(wanted.session.clone()));
        assert_eq!((row.env, row.deleting), (wanted.env, false));
        let (session, branch) = (wanted.session.clone(), wanted.branch.clone());
        let found = db.read(move |r| branch_get(r, &workspace(), &session, &branch)).unwrap().unwrap();
        assert_eq!(found.name.as_deref(), Some("main"));
        let page = db.events(&wanted.session, 0);
        assert_eq!(page.items.iter().map(|e| e.tag).collect::<Vec<_>>(), ["SessionStarted"]);
        assert_eq!(page.last, EventSeq(1));
    }

    fn a_repeated_create_gets_the_first_outcome_and_makes_nothing_a1(db) {
        let mut first = new_session("s", 10);
        first.request = Some(request("r"));
        first.initial_prompt = Some("hello".into());
        let mut second = new_session("other", 11);
        second.request = Some(request("r"));
        let made = db.write(move |txn| session_create(txn, &first)).unwrap();
        let again = db.write(move |txn| session_create(txn, &second)).unwrap();
        assert!(again.replayed);
        assert_eq!((&again.session_id, &again.branch_id, &again.name), (&made.session_id, &made.branch_id, &made.name));
        let listed = db.read(|r| session_list(r, &workspace(), 10, None)).unwrap();
        assert_eq!(listed.items.len(), 1);
        let kept = db.read(|r| operation_get(r, &workspace(), "session.create", "r")).unwrap().unwrap();
        assert_eq!(kept.result["initialPrompt"], "hello");
    }

    fn the_same_request_id_in_another_workspace_is_another_request(db) {
        let mut here = new_session("s", 10);
        here.request = Some(request("r"));
        let mut there = new_session("t", 10);
        there.workspace = elsewhere();
        there.request = Some(request("r"));
        db.write(move |txn| session_create(txn, &here)).unwrap();
        assert!(!db.write(move |txn| session_create(txn, &there)).unwrap().replayed);
    }

    fn a_session_of_another_workspace_is_not_there_i15(db) {
        let (session, branch) = db.session("s", 10);
        let (s, b) = (session.clone(), branch.clone());
        assert_eq!(db.read(move |r| session_get(r, &elsewhere(), &s)).unwrap(), None);
        let s = session.clone();
        assert_eq!(db.read(move |r| branch_get(r, &elsewhere(), &s, &b)).unwrap(), None);
        let s = session.clone();
        assert!(db.read(move |r| branch_list(r, &elsewhere(), &s, 9, None)).unwrap().items.is_empty());
        assert!(db.read(|r| session_list(r, &elsewhere(), 9, None)).unwrap().items.is_empty());
        let s = session.clone();
        assert_eq!(db.read(move |r| session_find(r, &s)).unwrap().unwrap().workspace, workspace());
        let located = db.read(move |r| branch_locate(r, &branch)).unwrap();
        assert_eq!(located, Some((workspace(), session)));
    }

    fn sessions_are_listed_by_their_newest_change_page_by_page(db) {
        let (first, _) = db.session("a", 10);
        db.session("b", 20);
        db.session("c", 30);
        let touched = named(&first, "x");
        db.write(move |txn| txn.append(&touched, gent_protocol::Millis(40))).unwrap();
        let page = db.read(|r| session_list(r, &workspace(), 2, None)).unwrap();
        let ids: Vec<&str> = page.items.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(page.items[0].updated_at.0, 40);
        let next = page.next.clone();
        let page = db.read(move |r| session_list(r, &workspace(), 2, next.as_deref())).unwrap();
        assert_eq!(page.items.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(page.next, None);
    }

    fn a_cursor_from_elsewhere_is_refused_with_a_sentence(db) {
        let error = db.read(|r| session_list(r, &workspace(), 2, Some("nonsense"))).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }) && error.to_string().contains("cursor"), "{error}");
    }

    fn settings_change_by_key_and_tell_of_it_only_when_they_changed(db) {
        let (session, _) = db.session("s", 10);
        let model = ModelId::parse("p/m").unwrap();
        let update = |model: Option<Option<ModelId>>, effort: Option<Option<ReasoningEffort>>| {
            let s = session.clone();
            db.write(move |txn| {
                let at = gent_protocol::Millis(50);
                session_update_settings(txn, &workspace(), &s, model.clone(), effort, at)
            })
        };
        let set = update(Some(Some(model.clone())), None).unwrap();
        assert_eq!(set, UpdatedSettings { model_id: Some(model.clone()), reasoning_level: None });
        update(None, None).unwrap();
        let both = update(None, Some(Some(ReasoningEffort::Low))).unwrap();
        assert_eq!(both.model_id, Some(model));
        let cleared = update(Some(None), None).unwrap();
        assert_eq!(cleared, UpdatedSettings { model_id: None, reasoning_level: Some(ReasoningEffort::Low) });
        let tags: Vec<&str> = db.events(&session, 1).items.iter().map(|e| e.tag).collect();
        assert_eq!(tags, ["SessionSettingsUpdated"; 3]);
    }

    fn settings_of_a_session_elsewhere_are_not_found(db) {
        let (session, _) = db.session("s", 10);
        let error = db
            .write(move |txn| {
                session_update_settings(txn, &elsewhere(), &session, None, None, gent_protocol::Millis(1))
            })
            .unwrap_err();
        assert!(matches!(error, StoreError::NotFound { what: "session", .. }));
    }

    fn the_environment_of_a_session_is_replaced_whole(db) {
        let (session, _) = db.session("s", 10);
        let env = EnvironmentMap::from([("LANG".to_owned(), "C".to_owned())]);
        let (s, e) = (session.clone(), env.clone());
        db.write(move |txn| session_set_env(txn, &s, &e)).unwrap();
        assert_eq!(db.read(move |r| session_find(r, &session)).unwrap().unwrap().env, env);
    }

    fn branches_are_listed_in_the_order_in_which_they_were_made(db) {
        let (session, branch) = db.session("s", 10);
        db.sql("INSERT INTO branches (id, session_id, ordinal, created_at) VALUES ('a-later', 's', 2, 1)");
        let (s, n) = (session.clone(), session.clone());
        let page = db.read(move |r| branch_list(r, &workspace(), &s, 1, None)).unwrap();
        assert_eq!(page.items[0].id, branch);
        let page = db.read(move |r| branch_list(r, &workspace(), &n, 1, page.next.as_deref())).unwrap();
        assert_eq!((page.items[0].id.as_str(), page.next), ("a-later", None));
    }
}
