//! Owns the epochs that fence off older activations of a branch. An epoch has no expiry: it is taken over.
//! Never touches another branch's row.
//! Tested in `storage/tests/it/owners.rs`.

use diesel::prelude::*;
use gent_protocol::{BranchId, SessionId};

use crate::connection::AnyConnection;
use crate::schema::branch_owners;
use crate::{Reader, StoreError, WriteTxn};

/// The proof of an activation that it may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchFence {
    /// The session.
    pub session_id: SessionId,
    /// The branch.
    pub branch_id: BranchId,
    /// The epoch it took.
    pub epoch: i64,
}

/// Takes the branch over: its epoch becomes the previous one plus 1, which is returned. From the commit on every
/// write under an older epoch is `Fenced`. A missing row, or one of another session, is `Terminated`.
pub fn branch_take(
    txn: &mut WriteTxn<'_>,
    session: &SessionId,
    branch: &BranchId,
    node_start: &str,
) -> Result<i64, StoreError> {
    let row =
        branch_owners::table.find(branch.as_str()).filter(branch_owners::session_id.eq(session.as_str()));
    let taken = diesel::update(row)
        .set((branch_owners::epoch.eq(branch_owners::epoch + 1), branch_owners::node_start.eq(node_start)))
        .execute(txn.connection())?;
    if taken == 0 {
        return Err(StoreError::Terminated { session: session.clone() });
    }
    Ok(branch_owners::table.find(branch.as_str()).select(branch_owners::epoch).first(txn.connection())?)
}

/// Fails unless the branch still has the fence's epoch: `Fenced` for another one, `Terminated` for a missing row.
/// The first statement of every write of a branch.
pub fn fence_check(txn: &mut WriteTxn<'_>, fence: &BranchFence) -> Result<(), StoreError> {
    let query = branch_owners::table.find(fence.branch_id.as_str()).select(branch_owners::epoch);
    let epoch: Option<i64> = match txn.connection() {
        AnyConnection::Sqlite(c) => query.first(c).optional()?,
        // The row stays as it was read until this write has ended.
        #[cfg(feature = "postgres")]
        AnyConnection::Postgres(c) => query.for_share().first(c).optional()?,
    };
    match epoch {
        Some(epoch) if epoch == fence.epoch => Ok(()),
        Some(_) => Err(StoreError::Fenced { branch: fence.branch_id.clone() }),
        None => Err(StoreError::Terminated { session: fence.session_id.clone() }),
    }
}
