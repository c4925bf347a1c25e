//! Owns which state of a file each branch last saw, so that a change made by somebody else in between is
//! noticed. Never touches the disk, and forgets at the server's end: it guards against surprise, it is no history.
//! Tested below and through `edit` and `write`.

use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use gent_extension_api::ToolContext;
use gent_extension_api::protocol::{BranchId, SessionId};
use sha2::{Digest, Sha256};

/// Files remembered over all branches; the one not seen for longest is forgotten first, and is then free to be
/// edited like one never read. About 1 MiB when full.
pub(super) const SEEN_FILES: usize = 4_096;

/// Up to this length a file is told apart by what it holds, above it by length, time and inode: hashing more on
/// every read would cost more than it protects.
pub(super) const HASHED_BYTES: u64 = 4 << 20;

/// One state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stamp {
    /// What it holds.
    Content([u8; 32]),
    /// What the file system says of it.
    Surface {
        /// Bytes.
        length: u64,
        /// Last change, where the system knows it.
        modified: Option<SystemTime>,
        /// Its inode; 0 where there is none.
        inode: u64,
    },
}

impl Stamp {
    /// The stamp of a file with these bytes; `metadata` are of the same moment.
    pub(super) fn of(bytes: &[u8], metadata: &Metadata) -> Self {
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= HASHED_BYTES) {
            Self::Content(Sha256::digest(bytes).into())
        } else {
            Self::surface(metadata)
        }
    }

    /// The stamp of a file that is too long to be hashed.
    pub(super) fn surface(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self::Surface { length: metadata.len(), modified: metadata.modified().ok(), inode }
    }
}

/// A file as one branch knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SeenKey {
    session: SessionId,
    branch: BranchId,
    real_path: PathBuf,
}

impl SeenKey {
    /// The key of a file for the branch of a call.
    pub(super) fn new(context: &ToolContext, real_path: PathBuf) -> Self {
        let (session, branch) = (context.session_id().clone(), context.branch_id().clone());
        Self { session, branch, real_path }
    }
}

/// What the branches have seen.
#[derive(Debug, Default)]
pub(super) struct SeenFiles {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Arc<SeenKey>, Entry>,
    by_age: BTreeMap<u64, Arc<SeenKey>>,
    turn: u64,
}

#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    turn: u64,
}

impl SeenFiles {
    /// The branch has now seen this state.
    pub(super) fn remember(&self, key: SeenKey, stamp: Stamp) {
        let mut guard = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let table = &mut *guard;
        table.turn += 1;
        let key = Arc::new(key);
        let entry = Entry { stamp, turn: table.turn };
        if let Some(earlier) = table.entries.insert(Arc::clone(&key), entry) {
            table.by_age.remove(&earlier.turn);
        }
        table.by_age.insert(table.turn, key);
        while table.by_age.len() > SEEN_FILES {
            let Some((_, oldest)) = table.by_age.pop_first() else { break };
            table.entries.remove(&oldest);
        }
    }

    /// True when the branch saw the file before.
    pub(super) fn has_seen(&self, key: &SeenKey) -> bool {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.entries.contains_key(key)
    }

    /// True when the branch saw the file before, in another state than this one.
    pub(super) fn has_changed(&self, key: &SeenKey, now: &Stamp) -> bool {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.entries.get(key).is_some_and(|entry| entry.stamp != *now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_context::TestContext;

    fn key(n: usize) -> SeenKey {
        SeenKey::new(&TestContext::at("/").tool(), PathBuf::from(format!("/{n}")))
    }

    fn stamp(n: u8) -> Stamp {
        Stamp::Content([n; 32])
    }

    #[test]
    fn the_last_state_counts_and_only_for_its_branch() {
        let seen = SeenFiles::default();
        seen.remember(key(1), stamp(1));
        seen.remember(key(1), stamp(2));
        assert!(seen.has_changed(&key(1), &stamp(1)));
        assert!(!seen.has_changed(&key(1), &stamp(2)));
        let other = SeenKey::new(&TestContext::at("/").branch("other").tool(), PathBuf::from("/1"));
        assert!(!seen.has_changed(&other, &stamp(1)));
    }

    #[test]
    fn a_full_table_forgets_the_file_that_was_not_seen_for_longest() {
        let seen = SeenFiles::default();
        for n in 0..SEEN_FILES {
            seen.remember(key(n), stamp(1));
        }
        seen.remember(key(0), stamp(1));
        seen.remember(key(SEEN_FILES), stamp(1));
        assert!(seen.has_changed(&key(0), &stamp(2)));
        assert!(!seen.has_changed(&key(1), &stamp(2)));
        assert!(seen.has_changed(&key(2), &stamp(2)));
        assert_eq!(seen.table.lock().unwrap().entries.len(), SEEN_FILES);
    }
}
