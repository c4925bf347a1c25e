//! Owns the checks at the opening: whose database it is, how new, brought to this schema, which life of the store.
//! Never changes a database that is not gent's or is newer. The lock that keeps two servers off one file is taken
//! before, by the program that opens.
//! Tested in `storage/tests/it/opening.rs`.

use std::path::Path;
use std::sync::Arc;

use diesel::connection::SimpleConnection;
use diesel::migration::{Migration, MigrationSource};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use gent_protocol::StoreIncarnation;

use crate::connection::{AnyConnection, ConnectError, Connector, Purpose, sqlite_establish};
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
    let place = config.location.to_string();
    let mut connection = match &config.location {
        Location::Sqlite(path) => AnyConnection::Sqlite(open_sqlite(&connector, path, config)?),
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => open_postgres(&connector, &place)?,
    };
    let incarnation =
        begin_life(&mut connection, config).map_err(|source| OpenError::Failed { place, source })?;
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

/// Looks at a file. An error of SQLite itself ("file is not a database") is foreign too.
pub(crate) fn sqlite_look(connection: &mut SqliteConnection) -> QueryResult<Found> {
    let tables: Number = match diesel::sql_query(
        "SELECT count(*) AS n FROM sqlite_schema WHERE name <> '__diesel_schema_migrations' \
         AND name NOT LIKE 'sqlite_%'",
    )
    .get_result(connection)
    {
        Err(error) if error.to_string().contains("not a database") => return Ok(Found::Foreign),
        outcome => outcome?,
    };
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
    let failed = |error: diesel::result::Error| failure(&place, error);
    let mut connection = sqlite_establish(path).map_err(|error| unreachable(&place, error))?;
    let found = sqlite_look(&mut connection).map_err(failed)?;
    match found {
        Found::Foreign => return Err(OpenError::Foreign { place }),
        // Only before the first table; it lets deletes give space back without rewriting the file.
        Found::New => connection.batch_execute("PRAGMA auto_vacuum = INCREMENTAL;").map_err(failed)?,
        Found::Ours => {}
    }
    if found == Found::Ours {
        refuse_newer::<Sqlite>(&place, &versions(&mut connection).map_err(failed)?, &SQLITE)?;
    }
    connector.sqlite_settings(&mut connection, Purpose::Write).map_err(failed)?;
    let pending = connection
        .has_pending_migration(SQLITE)
        .map_err(|error| OpenError::Migration { place: place.clone(), reason: error.to_string() })?;
    if pending {
        if found == Found::Ours {
            copy_before_migration(&mut connection, config)?;
        }
        connection
            .run_pending_migrations(SQLITE)
            .map_err(|error| OpenError::Migration { place: place.clone(), reason: error.to_string() })?;
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
    let failed = |error: diesel::result::Error| failure(place, error);
    let any = connector.connect(Purpose::Write).map_err(|error| unreachable(place, error))?;
    let AnyConnection::Postgres(mut connection) = any else { return Ok(any) };
    let tables: Vec<Line> = diesel::sql_query(
        "SELECT tablename::text AS t FROM pg_tables WHERE schemaname = current_schema() \
         AND tablename <> '__diesel_schema_migrations'",
    )
    .load(&mut connection)
    .map_err(failed)?;
    if !tables.is_empty() && !tables.iter().any(|table| table.t == "store_meta") {
        return Err(OpenError::Foreign { place: place.to_owned() });
    }
    let migration = |error: Box<dyn std::error::Error + Send + Sync>| OpenError::Migration {
        place: place.to_owned(),
        reason: error.to_string(),
    };
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
        ConnectError::Unreachable(reason) => OpenError::Unreachable { place, reason },
        ConnectError::Setting(source) => failure(&place, source),
        #[cfg(feature = "postgres")]
        ConnectError::InUse => OpenError::InUse { place },
    }
}

pub(crate) fn failure(place: &str, error: diesel::result::Error) -> OpenError {
    let text = error.to_string();
    if text.contains("not a database") {
        return OpenError::Foreign { place: place.to_owned() };
    }
    let advice = crate::connection::with_advice(&text);
    if advice != text || text.contains("readonly") || text.contains("unable to open") {
        return OpenError::Unreachable { place: place.to_owned(), reason: advice };
    }
    OpenError::Failed { place: place.to_owned(), source: error.into() }
}
