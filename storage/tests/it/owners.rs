//! Tests the fence: one committer per branch, an older activation is shut out.

use gent_protocol::{BranchId, Millis};
use gent_storage::{BranchFence, StoreError, branch_take, fence_check, session_delete_begin};

use crate::fixture::workspace;

suite! {
    fn an_older_activation_is_fenced_off_from_the_moment_of_the_take_over(db) {
        let (session, branch) = db.session("s", 1);
        let take = || {
            let (s, b) = (session.clone(), branch.clone());
            db.write(move |txn| branch_take(txn, &s, &b, "node")).unwrap()
        };
        let check = |epoch: i64| {
            let fence = BranchFence { session_id: session.clone(), branch_id: branch.clone(), epoch };
            db.write(move |txn| fence_check(txn, &fence))
        };
        assert_eq!(take(), 1);
        check(1).unwrap();
        assert_eq!(take(), 2);
        assert!(matches!(check(1), Err(StoreError::Fenced { .. })));
        check(2).unwrap();
    }

    fn a_branch_without_an_owner_row_is_terminated(db) {
        let (session, branch) = db.session("s", 1);
        let (s, other) = (session.clone(), BranchId::parse("nobody").unwrap());
        let error = db.write(move |txn| branch_take(txn, &s, &other, "node")).unwrap_err();
        assert!(matches!(error, StoreError::Terminated { .. }));
        let s = session.clone();
        db.write(move |txn| session_delete_begin(txn, &workspace(), &s, Millis(9))).unwrap();
        let fence = BranchFence { session_id: session.clone(), branch_id: branch.clone(), epoch: 0 };
        let error = db.write(move |txn| fence_check(txn, &fence)).unwrap_err();
        assert!(matches!(error, StoreError::Terminated { .. }));
        let error = db.write(move |txn| branch_take(txn, &session, &branch, "node")).unwrap_err();
        assert!(matches!(error, StoreError::Terminated { .. }));
    }

    fn a_branch_is_not_taken_under_another_session(db) {
        let (_, branch) = db.session("s", 1);
        let (other, _) = db.session("t", 1);
        assert!(db.write(move |txn| branch_take(txn, &other, &branch, "node")).is_err());
    }
}
