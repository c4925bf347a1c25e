//! Owns the checks at the opening: whose database it is, how new, brought to this schema, which life of the store.
//! Never changes a database that is not gent's or is newer. The lock that keeps two servers off one file is taken
//! before, by the program that opens.
//! Tested in `storage/tests/it/opening.rs`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use diesel::connection::SimpleConnection;
use diesel::migration::{Migration, MigrationSource};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use gent_protocol::StoreIncarnation;

use crate::connection::{
    AnyConnection, ConnectError, Connector, Purpose, create_private, sqlite_establish, with_advice,
};
use crate::error::{Cause, says_full};
use crate::schema::store_meta;
use crate::{Location, OpenError, StoreConfig, StoreError, codec};

const SQLITE: EmbeddedMigrations = embed_migrations!("../migrations/sqlite");
#[cfg(feature = "postgres")]
const POSTGRES: EmbeddedMigrations = embed_migrations!("../migrations/postgres");

/// "gent" in ASCII; the first migration writes it into the file's header.
const APPLICATION_ID: i64 = 1_734_700_660;

/// A database that has passed the checks.
pub(crate) struct Opened {
    pub(crate) connector: Arc<Connector>,
    pub(crate) connection: AnyConnection,
    pub(crate) incarnation: StoreIncarnation,
}

/// Opens, checks and migrates.
pub(crate) fn open_database(config: &StoreConfig) -> Result<Opened, OpenError> {
    let connector = Connector::new(config.location.clone(), config.synchronous);
    open_with(connector, config)
}

fn open_with(connector: Connector, config: &StoreConfig) -> Result<Opened, OpenError> {
    let made = match &config.location {
        Location::Sqlite(path) => create_private(path)
            .map_err(|error| unreachable(&config.location.to_string(), error))?
            .then_some(path),
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => None,
    };
    let opened = check(connector, config);
    if let (Some(path), Err(_)) = (made, &opened) {
        remove_made(path);
    }
    opened
}

/// Leaves nothing of a first opening that failed: it would be taken for a database. What is not there need not go.
fn remove_made(path: &Path) {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let _absent = std::fs::remove_file(file).is_err();
    }
}

fn check(connector: Connector, config: &StoreConfig) -> Result<Opened, OpenError> {
    let place = config.location.to_string();
    let mut connection = match &config.location {
        Location::Sqlite(path) => AnyConnection::Sqlite(open_sqlite(&connector, path, config)?),
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => open_postgres(&connector, &place)?,
    };
    let incarnation =
        begin_life(&mut connection, config).map_err(|error| failure(&place, Arc::new(error)))?;
    Ok(Opened { connector: Arc::new(connector), connection, incarnation })
}

/// One number out of a statement, under the name `n`.
#[derive(QueryableByName)]
pub(crate) struct Number {
    #[diesel(sql_type = BigInt)]
    pub(crate) n: i64,
}

/// One text out of a statement, under the name `t`.
#[derive(QueryableByName)]
pub(crate) struct Line {
    #[diesel(sql_type = Text)]
    pub(crate) t: String,
}

/// What a file is, as far as can be seen without changing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing yet, or what an interrupted first opening left.
    New,
    /// A database of gent.
    Ours,
    /// Somebody else's.
    Foreign,
}

/// Looks at a file that SQLite can read.
pub(crate) fn sqlite_look(connection: &mut SqliteConnection) -> QueryResult<Found> {
    let tables: Number = diesel::sql_query(
        "SELECT count(*) AS n FROM sqlite_schema WHERE name <> '__diesel_schema_migrations' \
         AND name NOT LIKE 'sqlite_%'",
    )
    .get_result(connection)?;
    let owner: Number =
        diesel::sql_query("SELECT application_id AS n FROM pragma_application_id").get_result(connection)?;
    Ok(match (owner.n, tables.n) {
        (APPLICATION_ID, n) if n > 0 => Found::Ours,
        (APPLICATION_ID | 0, 0) => Found::New,
        _ => Found::Foreign,
    })
}

fn open_sqlite(
    connector: &Connector,
    path: &Path,
    config: &StoreConfig,
) -> Result<SqliteConnection, OpenError> {
    let place = config.location.to_string();
    let failed = |error: diesel::result::Error| failure(&place, Arc::new(error));
    let mut connection = sqlite_establish(path).map_err(|error| unreachable(&place, error))?;
    let found = sqlite_look(&mut connection).map_err(failed)?;
    match found {
        Found::Foreign => return Err(OpenError::Foreign { place, source: None }),
        // Only before the first table; it lets deletes give space back without rewriting the file.
        Found::New => connection.batch_execute("PRAGMA auto_vacuum = INCREMENTAL;").map_err(failed)?,
        Found::Ours => {}
    }
    if found == Found::Ours {
        refuse_newer::<Sqlite>(&place, &versions(&mut connection).map_err(failed)?, &SQLITE)?;
    }
    connector.sqlite_settings(&mut connection, Purpose::Write).map_err(failed)?;
    let pending =
        connection.has_pending_migration(SQLITE).map_err(|error| migration_failure(&place, error))?;
    if pending {
        if found == Found::Ours {
            copy_before_migration(&mut connection, config)?;
        }
        connection.run_pending_migrations(SQLITE).map_err(|error| migration_failure(&place, error))?;
        let dangling = sqlite_dangling(&mut connection).map_err(failed)?;
        if !dangling.is_empty() {
            let reason = format!("rows point nowhere afterwards: {}", dangling.join(", "));
            return Err(OpenError::Migration { place, reason });
        }
    }
    Ok(connection)
}

/// The first rows that point nowhere.
pub(crate) fn sqlite_dangling(connection: &mut SqliteConnection) -> QueryResult<Vec<String>> {
    let rows: Vec<Line> = diesel::sql_query(
        "SELECT \"table\" || ' row ' || coalesce(rowid, '?') || ' to ' || \"parent\" AS t \
         FROM pragma_foreign_key_check LIMIT 10",
    )
    .load(connection)?;
    Ok(rows.into_iter().map(|row| row.t).collect())
}

/// The versions that were applied, oldest first; none where there is no record of them.
pub(crate) fn versions(connection: &mut SqliteConnection) -> QueryResult<Vec<String>> {
    let recorded: Number = diesel::sql_query(
        "SELECT count(*) AS n FROM sqlite_schema WHERE name = '__diesel_schema_migrations'",
    )
    .get_result(connection)?;
    if recorded.n == 0 {
        return Ok(Vec::new());
    }
    let rows: Vec<Line> =
        diesel::sql_query("SELECT version AS t FROM __diesel_schema_migrations ORDER BY version")
            .load(connection)?;
    Ok(rows.into_iter().map(|row| row.t).collect())
}

/// The newest version that this build knows.
pub(crate) fn known_version() -> String {
    known::<Sqlite>(&SQLITE).pop().unwrap_or_default()
}

fn known<DB: diesel::backend::Backend>(source: &EmbeddedMigrations) -> Vec<String> {
    let migrations: Vec<Box<dyn Migration<DB>>> = source.migrations().unwrap_or_default();
    let mut known: Vec<String> = migrations.iter().map(|m| m.name().version().to_string()).collect();
    known.sort();
    known
}

fn refuse_newer<DB: diesel::backend::Backend>(
    place: &str,
    applied: &[String],
    source: &EmbeddedMigrations,
) -> Result<(), OpenError> {
    let known = known::<DB>(source);
    match applied.iter().rev().find(|version| !known.contains(version)) {
        None => Ok(()),
        Some(found) => Err(OpenError::Newer {
            place: place.to_owned(),
            found: found.clone(),
            known: known.last().cloned().unwrap_or_default(),
        }),
    }
}

fn copy_before_migration(connection: &mut SqliteConnection, config: &StoreConfig) -> Result<(), OpenError> {
    let Some(directory) = &config.backups else { return Ok(()) };
    let place = config.location.to_string();
    let refuse = |reason: String| OpenError::Migration { place: place.clone(), reason };
    std::fs::create_dir_all(directory)
        .map_err(|error| refuse(format!("no copy could be made in {}: {error}", directory.display())))?;
    let version = versions(connection).unwrap_or_default().pop().unwrap_or_else(|| "none".to_owned());
    let copy = directory.join(format!("data-{version}-{}.db", config.now));
    let quoted = copy.display().to_string().replace('\'', "''");
    connection
        .batch_execute(&format!("VACUUM INTO '{quoted}'"))
        .map_err(|error| refuse(format!("no copy could be made at {}: {error}", copy.display())))
}

#[cfg(feature = "postgres")]
fn open_postgres(connector: &Connector, place: &str) -> Result<AnyConnection, OpenError> {
    let failed = |error: diesel::result::Error| failure(place, Arc::new(error));
    let any = connector.connect(Purpose::Write).map_err(|error| unreachable(place, error))?;
    let AnyConnection::Postgres(mut connection) = any else { return Ok(any) };
    let tables: Vec<Line> = diesel::sql_query(
        "SELECT tablename::text AS t FROM pg_tables WHERE schemaname = current_schema() \
         AND tablename <> '__diesel_schema_migrations'",
    )
    .load(&mut connection)
    .map_err(failed)?;
    if !tables.is_empty() && !tables.iter().any(|table| table.t == "store_meta") {
        return Err(OpenError::Foreign { place: place.to_owned(), source: None });
    }
    let migration = |error| migration_failure(place, error);
    let mut applied: Vec<String> =
        connection.applied_migrations().map_err(migration)?.iter().map(ToString::to_string).collect();
    applied.sort();
    refuse_newer::<diesel::pg::Pg>(place, &applied, &POSTGRES)?;
    connection.run_pending_migrations(POSTGRES).map_err(migration)?;
    Ok(AnyConnection::Postgres(connection))
}

/// Decides which life of the store this is. A commit under `synchronous = NORMAL` survives the process and not the
/// machine: when that went down without an orderly stop, numbers that clients saw may be given again, so their
/// cursors must not be taken for ours. PostgreSQL keeps every commit.
fn begin_life(connection: &mut AnyConnection, config: &StoreConfig) -> Result<StoreIncarnation, StoreError> {
    let stored: Option<(String, Option<String>, bool)> = store_meta::table
        .select((store_meta::incarnation, store_meta::boot_id, store_meta::orderly))
        .first(connection)
        .optional()?;
    let Some((incarnation, boot_id, orderly)) = stored else {
        diesel::insert_into(store_meta::table)
            .values((
                store_meta::id.eq(1),
                store_meta::incarnation.eq(config.new_incarnation.as_str()),
                store_meta::boot_id.eq(config.boot_id.as_deref()),
                store_meta::orderly.eq(false),
                store_meta::created_at.eq(config.now.0),
            ))
            .execute(connection)?;
        return Ok(config.new_incarnation.clone());
    };
    let same_boot = boot_id.is_some() && boot_id == config.boot_id;
    let goes_on = orderly || same_boot || !matches!(config.location, Location::Sqlite(_));
    let incarnation = if goes_on {
        codec::id(&incarnation, || "the store's incarnation".to_owned())?
    } else {
        config.new_incarnation.clone()
    };
    diesel::update(store_meta::table)
        .set((
            store_meta::incarnation.eq(incarnation.as_str()),
            store_meta::boot_id.eq(config.boot_id.as_deref()),
            store_meta::orderly.eq(false),
        ))
        .execute(connection)?;
    Ok(incarnation)
}

pub(crate) fn unreachable(place: &str, error: ConnectError) -> OpenError {
    let place = place.to_owned();
    match error {
        ConnectError::Unreachable(reason) if says_full(&reason) => {
            OpenError::Full { place, source: Arc::new(ConnectError::Unreachable(reason)) }
        }
        ConnectError::Unreachable(reason) => OpenError::Unreachable { place, reason },
        ConnectError::Setting(source) => failure(&place, Arc::new(source)),
        #[cfg(feature = "postgres")]
        ConnectError::InUse => OpenError::InUse { place },
    }
}

/// What a person can do about it decides which failure it is; only the database's words tell them apart.
pub(crate) fn failure(place: &str, source: Cause) -> OpenError {
    let (place, text) = (place.to_owned(), source.to_string());
    let advice = with_advice(&text);
    let stored = source.downcast_ref::<StoreError>();
    let is_full = matches!(stored, Some(StoreError::Full)) || says_full(&text);
    let is_damaged = matches!(stored, Some(StoreError::Undecodable { .. }))
        || ["malformed", "no such table", "no such column"].iter().any(|words| text.contains(words));
    if is_full {
        OpenError::Full { place, source }
    } else if text.contains("not a database") {
        OpenError::Foreign { place, source: Some(source) }
    } else if is_damaged {
        OpenError::Damaged { place, source }
    } else if advice != text || text.contains("readonly") || text.contains("unable to open") {
        OpenError::Unreachable { place, reason: advice }
    } else {
        OpenError::Failed { place, source }
    }
}

fn migration_failure(place: &str, error: Box<dyn Error + Send + Sync>) -> OpenError {
    let reason = error.to_string();
    match failure(place, Arc::from(error)) {
        // SQLite says only this of a full disk when its shared memory has no room: it is no fault of the migration.
        OpenError::Failed { place, .. } if !reason.contains("disk I/O error") => {
            OpenError::Migration { place, reason }
        }
        told => told,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use gent_protocol::Millis;

    use super::*;
    use crate::{Mode, Synchronous};

    #[test]
    fn a_full_disk_at_the_first_opening_is_told_and_leaves_no_file() {
        let place = tempfile::tempdir().unwrap();
        let config = StoreConfig {
            location: Location::Sqlite(place.path().join("data.db")),
            synchronous: Synchronous::Normal,
            readers: 1,
            mode: Mode::Inline,
            new_incarnation: StoreIncarnation::parse("life").unwrap(),
            boot_id: None,
            backups: None,
            now: Millis(1),
        };
        let connector = Connector::new(config.location.clone(), config.synchronous);
        connector.page_limit.store(20, Ordering::SeqCst);
        let error = open_with(connector, &config).err().unwrap();
        let told = error.to_string();
        assert!(told.contains("data.db is full: free some space"), "{told}");
        assert!(error.source().unwrap().to_string().contains("database or disk is full"));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        open_database(&config).unwrap();
    }

    #[test]
    fn what_the_database_says_decides_what_a_person_is_told_to_do() {
        let told = |words: &str| failure("/p/data.db", Arc::new(std::io::Error::other(words.to_owned())));
        assert!(matches!(told("could not extend file: No space left on device"), OpenError::Full { .. }));
        assert!(matches!(told("database disk image is malformed"), OpenError::Damaged { .. }));
        assert!(matches!(told("no such table: store_meta"), OpenError::Damaged { .. }));
        assert!(matches!(told("file is not a database"), OpenError::Foreign { source: Some(_), .. }));
        assert!(matches!(told("attempt to write a readonly database"), OpenError::Unreachable { .. }));
        assert!(matches!(told("disk I/O error"), OpenError::Failed { .. }));
        assert!(matches!(failure("p", Arc::new(StoreError::Full)), OpenError::Full { .. }));
        assert!(matches!(migration_failure("p", "disk I/O error".into()), OpenError::Failed { .. }));
        assert!(matches!(migration_failure("p", "near \"X\"".into()), OpenError::Migration { .. }));
        let no_room = ConnectError::Unreachable("No space left on device (os error 28)".to_owned());
        assert!(matches!(unreachable("p", no_room), OpenError::Full { .. }));
    }
}
