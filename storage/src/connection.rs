//! Owns one connection to the database: how it is opened, what it runs under, how transactions begin and end.
//! Never decides what is written. Never shows a password.
//! Tested in `storage/src/writer.rs`, `storage/tests/it/opening.rs` and below.

use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::atomic::{AtomicU32, Ordering};

use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::prelude::*;
use diesel::result::QueryResult;

use crate::{StoreError, Synchronous};

/// A connection to either database.
#[derive(diesel::MultiConnection)]
pub enum AnyConnection {
    /// The embedded database.
    Sqlite(SqliteConnection),
    /// The configured server.
    #[cfg(feature = "postgres")]
    Postgres(PgConnection),
}

/// Runs the same expression on whichever connection it is: for statements that Diesel does not offer for both
/// at once, such as `ON CONFLICT`.
macro_rules! each {
    ($any:expr, $conn:ident => $body:expr) => {
        match $any {
            $crate::connection::AnyConnection::Sqlite($conn) => $body,
            #[cfg(feature = "postgres")]
            $crate::connection::AnyConnection::Postgres($conn) => $body,
        }
    };
}
pub(crate) use each;

/// Where the database is.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file.
    Sqlite(PathBuf),
    /// A server: `postgres://…`.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The place as people may see it: a PostgreSQL address without user, password and options.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => f.write_str(&crate::postgres::without_secrets(url)),
        }
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The one that writes.
    Write,
    /// One of those that read.
    Read,
}

/// Makes connections, each with the store's settings.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) location: Location,
    pub(crate) synchronous: Synchronous,
    /// Stands in for a full disk: the file may not grow beyond so many pages. 0 is no limit.
    #[cfg(test)]
    pub(crate) page_limit: AtomicU32,
}

/// How long a statement waits for a lock of another process.
const BUSY_TIMEOUT: &str = "PRAGMA busy_timeout = 5000;";

/// The log is cut back to this size when it is reset, so that one long read does not leave a huge file behind. It is
/// settled beside the writer; at 8,000 pages the writer does it itself.
const WAL_SETTINGS: &str =
    "PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 8000;";

impl Connector {
    pub(crate) fn new(location: Location, synchronous: Synchronous) -> Self {
        Self {
            location,
            synchronous,
            #[cfg(test)]
            page_limit: AtomicU32::new(0),
        }
    }

    /// Opens a connection to a database that has passed the opening checks.
    pub(crate) fn connect(&self, purpose: Purpose) -> Result<AnyConnection, ConnectError> {
        match &self.location {
            Location::Sqlite(path) => {
                let mut connection = sqlite_establish(path)?;
                self.sqlite_settings(&mut connection, purpose)?;
                Ok(AnyConnection::Sqlite(connection))
            }
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => {
                crate::postgres::connect(url, purpose, self.synchronous).map(AnyConnection::Postgres)
            }
        }
    }

    /// Everything a connection runs under, `busy_timeout` first: the others need locks themselves.
    pub(crate) fn sqlite_settings(
        &self,
        connection: &mut SqliteConnection,
        purpose: Purpose,
    ) -> QueryResult<()> {
        connection.batch_execute(BUSY_TIMEOUT)?;
        connection.batch_execute(WAL_SETTINGS)?;
        connection.batch_execute(match self.synchronous {
            Synchronous::Normal => "PRAGMA synchronous = NORMAL;",
            Synchronous::Full => "PRAGMA synchronous = FULL;",
        })?;
        connection.batch_execute("PRAGMA foreign_keys = ON;")?;
        #[cfg(test)]
        match self.page_limit.load(Ordering::SeqCst) {
            0 => {}
            pages => connection.batch_execute(&format!("PRAGMA max_page_count = {pages};"))?,
        }
        // Two MiB for each connection would be most of an idle server's memory.
        match purpose {
            Purpose::Read => connection.batch_execute("PRAGMA cache_size = -512; PRAGMA query_only = ON;")?,
            Purpose::Write => connection.batch_execute("PRAGMA cache_size = -1024;")?,
        }
        Ok(())
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The database was not reached; the text holds no secret.
    #[error("{0}")]
    Unreachable(String),
    /// Another server holds the database.
    #[cfg(feature = "postgres")]
    #[error("another gent server uses this database")]
    InUse,
    /// It was reached, and a setting failed.
    #[error("a setting of the connection failed")]
    Setting(#[from] diesel::result::Error),
}

impl From<ConnectError> for StoreError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Setting(source) => source.into(),
            ConnectError::Unreachable(reason) => {
                Self::Failed { message: format!("the database cannot be reached: {reason}"), source: None }
            }
            #[cfg(feature = "postgres")]
            ConnectError::InUse => Self::Failed {
                message: "another gent server has taken the database over: stop one of them".to_owned(),
                source: None,
            },
        }
    }
}

/// Opens the file, making it readable by its owner alone when it is new.
pub(crate) fn sqlite_establish(path: &Path) -> Result<SqliteConnection, ConnectError> {
    let Some(text) = path.to_str() else {
        return Err(ConnectError::Unreachable("its path is not UTF-8".to_owned()));
    };
    create_private(path)?;
    let mut connection = SqliteConnection::establish(text)
        .map_err(|error| ConnectError::Unreachable(with_advice(&error.to_string())))?;
    connection.batch_execute(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Adds what to do to the messages of SQLite that nobody understands.
pub(crate) fn with_advice(message: &str) -> String {
    if message.contains("locking protocol") {
        format!("{message} (its file system has no file locks: set GENT_DATA_DIR to a local disk)")
    } else {
        message.to_owned()
    }
}

/// Makes the file where there is none; true when it did.
pub(crate) fn create_private(path: &Path) -> Result<bool, ConnectError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(ConnectError::Unreachable(error.to_string())),
    }
}

/// Begins a write. SQLite takes the write lock at once: an upgrade later would fail without waiting.
pub(crate) fn begin_write(connection: &mut AnyConnection) -> QueryResult<()> {
    match connection {
        AnyConnection::Sqlite(c) => AnsiTransactionManager::begin_transaction_sql(c, "BEGIN IMMEDIATE"),
        #[cfg(feature = "postgres")]
        AnyConnection::Postgres(c) => AnsiTransactionManager::begin_transaction_sql(c, "BEGIN"),
    }
}

/// Begins a read of one snapshot.
pub(crate) fn begin_read(connection: &mut AnyConnection) -> QueryResult<()> {
    match connection {
        AnyConnection::Sqlite(c) => AnsiTransactionManager::begin_transaction_sql(c, "BEGIN DEFERRED"),
        #[cfg(feature = "postgres")]
        AnyConnection::Postgres(c) => AnsiTransactionManager::begin_transaction_sql(
            c,
            "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        ),
    }
}

/// Sets a savepoint.
pub(crate) fn savepoint(connection: &mut AnyConnection) -> QueryResult<()> {
    each!(connection, c => AnsiTransactionManager::begin_transaction(c))
}

/// Ends the innermost level, keeping it: RELEASE of a savepoint, COMMIT of the transaction.
pub(crate) fn keep(connection: &mut AnyConnection) -> QueryResult<()> {
    each!(connection, c => AnsiTransactionManager::commit_transaction(c))
}

/// Ends the innermost level, undoing it.
pub(crate) fn undo(connection: &mut AnyConnection) -> QueryResult<()> {
    each!(connection, c => AnsiTransactionManager::rollback_transaction(c))
}

/// Gives back what a connection keeps only for speed.
pub(crate) fn shrink(connection: &mut AnyConnection) {
    match connection {
        AnyConnection::Sqlite(sqlite) => {
            if let Err(error) = sqlite.batch_execute("PRAGMA shrink_memory;") {
                tracing::debug!(%error, "store.shrink_failed");
            }
        }
        #[cfg(feature = "postgres")]
        AnyConnection::Postgres(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_given_only_where_file_locks_are_missing() {
        assert!(with_advice("locking protocol").contains("GENT_DATA_DIR"));
        assert_eq!(with_advice("unable to open"), "unable to open");
    }
}
