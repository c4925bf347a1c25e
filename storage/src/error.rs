//! Owns the ways in which the store refuses or fails. Never carries a secret or a row's content.
//! Tested below and through every other test of the crate.

use std::error::Error;
use std::sync::Arc;

use diesel::result::DatabaseErrorKind as Kind;
use gent_protocol::{BranchId, EventSeq, SessionId};

/// A cause that several callers may be told at once: a failed group reaches all of its writes.
pub(crate) type Cause = Arc<dyn Error + Send + Sync>;

/// Why a write or a read did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// There is no such row, or not in this workspace.
    #[error("there is no {what} {id}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The session is gone or being deleted: nothing of it is written any more.
    #[error("session {session} is deleted")]
    Terminated {
        /// The session.
        session: SessionId,
    },
    /// A newer activation of the branch has taken it over.
    #[error("branch {branch} was taken over by a newer activation")]
    Fenced {
        /// The branch.
        branch: BranchId,
    },
    /// The write does not fit what is stored; nothing was written.
    #[error("{message}")]
    Conflict {
        /// One sentence.
        message: String,
    },
    /// The cursor lies beyond the newest event.
    #[error("the cursor lies beyond event {last}, the newest there is: take a new snapshot")]
    CursorInvalid {
        /// The newest event.
        last: EventSeq,
    },
    /// A stored value does not decode.
    #[error("{what} does not decode: run `gent doctor`")]
    Undecodable {
        /// Which value.
        what: String,
        /// What did not fit.
        #[source]
        source: Cause,
    },
    /// The disk or the database's size limit is reached; nothing was written.
    #[error("the disk of the database is full: free some space and try again")]
    Full,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Too many writes or reads wait already.
    #[error("the store has too much waiting: try again in a moment")]
    QueueFull,
    /// The database did not say whether the write was committed. Never re-run: look it up.
    #[error("the database did not say whether the write was stored: repeat it with the same request id")]
    OutcomeUnknown,
    /// Anything else; nothing was written.
    #[error("{message}")]
    Failed {
        /// One sentence.
        message: String,
        /// The cause, where there is one.
        #[source]
        source: Option<Cause>,
    },
}

/// Why a store could not be opened or inspected. One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or server cannot be reached.
    #[error("the database {place} cannot be opened: {reason}")]
    Unreachable {
        /// Which database, without credentials.
        place: String,
        /// Why.
        reason: String,
    },
    /// Something else lives there.
    #[error("{place} is not a database of gent: set GENT_DATA_DIR or GENT_DATABASE_URL to another place")]
    Foreign {
        /// Which database, without credentials.
        place: String,
        /// What the database said, where it was that.
        #[source]
        source: Option<Cause>,
    },
    /// Its disk, or its size limit, is reached.
    #[error("the disk of the database {place} is full: free some space and start again")]
    Full {
        /// Which database, without credentials.
        place: String,
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// What is stored cannot be read as it was written.
    #[error(
        "the database {place} is damaged: keep it, run `gent doctor`, and restore a copy from backups/ in the data \
         directory if there is one"
    )]
    Damaged {
        /// Which database, without credentials.
        place: String,
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// A newer gent has migrated it.
    #[error(
        "the database {place} was written by a newer gent (schema {found}, this one knows {known}): update gent"
    )]
    Newer {
        /// Which database, without credentials.
        place: String,
        /// Its schema.
        found: String,
        /// The newest schema that is known here.
        known: String,
    },
    /// Another server has it.
    #[error("another gent server uses the database {place}: stop it first")]
    InUse {
        /// Which database, without credentials.
        place: String,
    },
    /// The copy before a migration could not be made, or the migration failed.
    #[error("the database {place} could not be brought to this version's schema: {reason}")]
    Migration {
        /// Which database, without credentials.
        place: String,
        /// Why.
        reason: String,
    },
    /// A database statement failed while opening.
    #[error(
        "the database {place} failed while it was opened: see that its disk has space and works, then run `gent doctor`"
    )]
    Failed {
        /// Which database, without credentials.
        place: String,
        /// What the database said.
        #[source]
        source: Cause,
    },
}

/// True for the words of either database about a full disk.
pub(crate) fn says_full(text: &str) -> bool {
    ["database or disk is full", "No space left on device"].iter().any(|full| text.contains(full))
}

impl StoreError {
    /// True when the write was refused without harm to the transaction around it: our own refusals and broken
    /// constraints. After anything else the whole group is undone.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::NotFound { .. }
            | Self::Terminated { .. }
            | Self::Fenced { .. }
            | Self::Conflict { .. }
            | Self::CursorInvalid { .. }
            | Self::Undecodable { .. } => true,
            Self::Failed { .. } => self.database_kind().is_some_and(is_constraint),
            Self::Full | Self::Closed | Self::QueueFull | Self::OutcomeUnknown => false,
        }
    }

    /// True when the same write may succeed at once: another transaction was in its way, or the connection was lost
    /// before it was committed.
    pub(crate) fn is_transient(&self) -> bool {
        match self.database_kind() {
            Some(Kind::SerializationFailure | Kind::ClosedConnection | Kind::UnableToSendCommand) => true,
            _ => self.cause_says(&[
                "deadlock detected",
                "terminating connection",
                "server closed the connection",
            ]),
        }
    }

    /// True when a COMMIT that was answered with this error has certainly not committed.
    pub(crate) fn rules_commit_out(&self) -> bool {
        matches!(self, Self::Full)
            || self.is_refusal()
            || matches!(self.database_kind(), Some(Kind::SerializationFailure))
            || self.cause_says(&["deadlock detected", "database is locked", "database table is locked"])
    }

    fn database_error(&self) -> Option<&diesel::result::Error> {
        let Self::Failed { source: Some(source), .. } = self else { return None };
        source.downcast_ref::<diesel::result::Error>()
    }

    fn database_kind(&self) -> Option<&Kind> {
        match self.database_error() {
            Some(diesel::result::Error::DatabaseError(kind, _)) => Some(kind),
            Some(_) | None => None,
        }
    }

    fn cause_says(&self, words: &[&str]) -> bool {
        let Some(text) = self.database_error().map(ToString::to_string) else { return false };
        words.iter().any(|word| text.contains(word))
    }
}

fn is_constraint(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::UniqueViolation | Kind::ForeignKeyViolation | Kind::NotNullViolation | Kind::CheckViolation
    )
}

impl From<diesel::result::Error> for StoreError {
    fn from(error: diesel::result::Error) -> Self {
        let error = match error {
            diesel::result::Error::RollbackErrorOnCommit { commit_error, .. } => *commit_error,
            other => other,
        };
        let text = error.to_string();
        if says_full(&text) {
            return Self::Full;
        }
        Self::Failed { message: format!("the database failed: {text}"), source: Some(Arc::new(error)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(kind: Kind, text: &str) -> StoreError {
        diesel::result::Error::DatabaseError(kind, Box::new(text.to_owned())).into()
    }

    #[test]
    fn a_broken_constraint_is_a_refusal_and_a_broken_disk_is_not() {
        assert!(database(Kind::UniqueViolation, "UNIQUE constraint failed: a.b").is_refusal());
        assert!(!database(Kind::Unknown, "disk I/O error").is_refusal());
        assert!(matches!(database(Kind::Unknown, "database or disk is full"), StoreError::Full));
    }

    #[test]
    fn only_busy_full_and_constraint_say_that_a_commit_did_not_happen() {
        assert!(database(Kind::Unknown, "database is locked").rules_commit_out());
        assert!(database(Kind::Unknown, "database or disk is full").rules_commit_out());
        assert!(database(Kind::ForeignKeyViolation, "FOREIGN KEY constraint failed").rules_commit_out());
        assert!(!database(Kind::Unknown, "disk I/O error").rules_commit_out());
        assert!(!database(Kind::ClosedConnection, "gone").rules_commit_out());
    }
}
