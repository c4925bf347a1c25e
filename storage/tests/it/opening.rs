//! Tests the opening of an SQLite file: what is refused, what is copied, which life of the store it is; and, on every
//! database, that one of an earlier schema keeps what it holds.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use gent_protocol::{DatabaseKind, Millis, StoreIncarnation};
use gent_storage::{
    Location, OpenError, Store, StoreConfig, Synchronous, TurnState, inspect, queue_append, queue_items,
    turn_get, turn_put,
};

use crate::fixture::{Fixture, Heard, item, turn};

/// The way up and down of a migration.
type UpAndDown = (&'static str, &'static str);

/// The migrations, oldest first.
const SQLITE: [UpAndDown; 2] = [
    (
        include_str!("../../../migrations/sqlite/0001_initial/up.sql"),
        include_str!("../../../migrations/sqlite/0001_initial/down.sql"),
    ),
    (
        include_str!("../../../migrations/sqlite/0002_branch/up.sql"),
        include_str!("../../../migrations/sqlite/0002_branch/down.sql"),
    ),
];

#[cfg(feature = "postgres")]
pub(crate) const POSTGRES: [UpAndDown; 2] = [
    (
        include_str!("../../../migrations/postgres/0001_initial/up.sql"),
        include_str!("../../../migrations/postgres/0001_initial/down.sql"),
    ),
    (
        include_str!("../../../migrations/postgres/0002_branch/up.sql"),
        include_str!("../../../migrations/postgres/0002_branch/down.sql"),
    ),
];

fn path(db: &Fixture) -> PathBuf {
    db.place.path().join("data.db")
}

fn open(config: StoreConfig) -> Result<Store, OpenError> {
    Store::open(config, Arc::new(Heard::default()))
}

/// A directory and the configuration of a file in it that is still to be made.
fn unopened() -> Fixture {
    let db = Fixture::sqlite();
    db.shut();
    for entry in std::fs::read_dir(db.place.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    db
}

fn raw(db: &Fixture) -> SqliteConnection {
    SqliteConnection::establish(path(db).to_str().unwrap()).unwrap()
}

#[test]
fn a_file_of_another_program_is_refused_and_left_as_it_is() {
    let db = unopened();
    raw(&db).batch_execute("CREATE TABLE notes (a); INSERT INTO notes VALUES (1);").unwrap();
    let before = std::fs::read(path(&db)).unwrap();
    let error = open(db.config()).err().unwrap();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("not a database of gent"));
    assert_eq!(std::fs::read(path(&db)).unwrap(), before);
    assert!(matches!(inspect(&db.location), Err(OpenError::Foreign { .. })));
}

#[test]
fn a_file_that_is_no_database_at_all_is_refused() {
    let db = unopened();
    std::fs::write(path(&db), "just some text, long enough to be looked at as a header of a database file")
        .unwrap();
    let error = open(db.config()).err().unwrap();
    assert!(error.to_string().contains("another place"), "{error}");
    assert!(error.source().unwrap().to_string().contains("not a database"));
    assert!(matches!(inspect(&db.location), Err(OpenError::Foreign { .. })));
}

#[test]
fn a_truncated_or_overwritten_database_is_told_as_damaged_with_its_cause() {
    let spoil: [fn(&mut Vec<u8>); 2] = [
        |bytes| bytes.truncate(3 * 4_096),
        // The root of the schema, behind the header of the file.
        |bytes| bytes[100..4_096].fill(0xA5),
    ];
    for spoil in spoil {
        let db = Fixture::sqlite();
        db.session("s", 1);
        db.store().close();
        db.shut();
        let mut bytes = std::fs::read(path(&db)).unwrap();
        spoil(&mut bytes);
        std::fs::write(path(&db), &bytes).unwrap();
        let error = open(db.config()).err().unwrap();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}: {:?}", error.source());
        let told = error.to_string();
        for words in ["data.db is damaged", "gent doctor", "backups/"] {
            assert!(told.contains(words), "{told}");
        }
        assert!(error.source().unwrap().to_string().contains("malformed"));
        assert!(inspect(&db.location).unwrap().damage[0].contains("malformed"));
    }
}

#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    let db = Fixture::sqlite();
    db.shut();
    db.sql("INSERT INTO __diesel_schema_migrations (version) VALUES ('9999')");
    let text = open(db.config()).err().unwrap().to_string();
    assert!(text.contains("9999") && text.contains("0002") && text.contains("newer"), "{text}");
    assert_eq!(inspect(&db.location).unwrap().schema.as_deref(), Some("9999"));
}

#[test]
fn a_place_that_cannot_be_written_is_one_sentence_about_it() {
    let db = unopened();
    let mut config = db.config();
    config.location = Location::Sqlite(db.place.path().join("missing").join("data.db"));
    let error = open(config).err().unwrap();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("missing"));
}

#[test]
fn a_copy_is_made_before_a_migration_and_none_of_a_new_file() {
    let db = unopened();
    drop(open(db.config()).unwrap());
    let backups = db.place.path().join("backups");
    assert!(!backups.exists());
    // As if all migrations were still to come: everything is there but their records and their tables.
    let mut connection = raw(&db);
    for (_, down) in SQLITE.iter().rev() {
        connection.batch_execute(down).unwrap();
    }
    connection
        .batch_execute(
            "DELETE FROM __diesel_schema_migrations; CREATE TABLE kept (a INTEGER); INSERT INTO kept VALUES (7);",
        )
        .unwrap();
    drop(connection);
    drop(open(db.config()).unwrap());
    let copies: Vec<_> = std::fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(copies, [backups.join("data-none-1000.db")]);
    let mut copy = SqliteConnection::establish(copies[0].to_str().unwrap()).unwrap();
    let kept: i64 = diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>("(SELECT a FROM kept)"))
        .get_result(&mut copy)
        .unwrap();
    assert_eq!(kept, 7);
}

#[test]
fn the_life_of_the_store_goes_on_after_a_crash_of_the_process_and_after_an_orderly_stop() {
    let db = Fixture::sqlite();
    let next = |boot: Option<&str>, name: &str| {
        let mut config = db.config();
        config.boot_id = boot.map(str::to_owned);
        config.new_incarnation = StoreIncarnation::parse(name).unwrap();
        open(config).unwrap()
    };
    db.shut();
    // Killed, same boot of the machine.
    let store = next(Some("boot-1"), "second-life");
    assert_eq!(store.incarnation().as_str(), "first-life");
    // Stopped in order, then another boot.
    store.close();
    drop(store);
    let store = next(Some("boot-2"), "second-life");
    assert_eq!(store.incarnation().as_str(), "first-life");
    // The machine went down: numbers may be given again.
    drop(store);
    let store = next(Some("boot-3"), "second-life");
    assert_eq!(store.incarnation().as_str(), "second-life");
    // A boot that cannot be known is taken for another one.
    drop(store);
    assert_eq!(next(None, "third-life").incarnation().as_str(), "third-life");
}

#[test]
fn an_orderly_stop_leaves_no_log_behind() {
    let db = Fixture::sqlite();
    db.session("s", 1);
    db.store().close();
    let log = std::fs::metadata(db.place.path().join("data.db-wal"));
    assert!(log.map_or(0, |log| log.len()) == 0);
}

#[test]
fn a_new_file_has_the_settings_that_cannot_be_changed_later_and_belongs_to_its_owner() {
    let db = Fixture::sqlite();
    assert_eq!(db.sql_number("SELECT auto_vacuum FROM pragma_auto_vacuum"), 2);
    assert_eq!(db.sql_number("SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(path(&db)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn an_interrupted_first_opening_is_opened_as_new() {
    let db = unopened();
    raw(&db)
        .batch_execute("CREATE TABLE __diesel_schema_migrations (version VARCHAR(50) PRIMARY KEY NOT NULL, run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)")
        .unwrap();
    assert_eq!(open(db.config()).unwrap().incarnation().as_str(), "first-life");
}

#[test]
fn an_inspection_names_schema_damage_and_rows_that_point_nowhere() {
    let db = Fixture::sqlite();
    db.session("s", 1);
    db.store().close();
    let sound = inspect(&db.location).unwrap();
    assert_eq!((sound.schema.as_deref(), sound.known.as_str()), (Some("0002"), "0002"));
    assert!(sound.damage.is_empty() && sound.dangling.is_empty());
    db.sql("PRAGMA foreign_keys = OFF; UPDATE branches SET session_id = 'nobody'");
    let broken = inspect(&db.location).unwrap();
    assert!(broken.dangling[0].contains("branches") && broken.dangling[0].contains("sessions"));
    let missing = Location::Sqlite(db.place.path().join("missing.db"));
    assert!(matches!(inspect(&missing), Err(OpenError::Unreachable { .. })));
    assert!(!db.place.path().join("missing.db").exists());
}

#[test]
fn the_status_names_the_database_and_what_a_commit_survives() {
    let db = Fixture::sqlite();
    db.reopen(|config| config.synchronous = Synchronous::Full);
    let status = db.store().status();
    assert_eq!((status.kind, status.synchronous.as_str()), (DatabaseKind::Sqlite, "full"));
    assert_eq!(status.path, Some(path(&db).display().to_string()));
    assert_eq!(db.config().now, Millis(1_000));
}

#[test]
fn the_migrations_go_down_and_up_again_and_leave_nothing() {
    let db = Fixture::sqlite();
    db.shut();
    let mut connection = raw(&db);
    for (_, down) in SQLITE.iter().rev() {
        connection.batch_execute(down).unwrap();
    }
    let left = "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '\\_\\_diesel%' ESCAPE '\\' \
                AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    assert_eq!(db.sql_number(left), 0);
    for (up, _) in SQLITE {
        connection.batch_execute(up).unwrap();
    }
}

/// Takes the newest migration back, with the rows as they are.
fn go_back_to_0001(db: &Fixture) {
    db.store().close();
    db.shut();
    let (_, down) = match &db.location {
        Location::Sqlite(_) => SQLITE[1],
        #[cfg(feature = "postgres")]
        Location::Postgres(_) => POSTGRES[1],
    };
    db.sql(&format!("{down} DELETE FROM __diesel_schema_migrations WHERE version = '0002';"));
}

suite! {
    fn a_database_of_the_first_schema_is_migrated_and_keeps_its_rows(db) {
        let of = db.session("s", 1);
        let (row, queued) = (turn(&of, "m", TurnState::Running, 5), item(&of, "q", true));
        let (put, append) = (row.clone(), queued.clone());
        db.write(move |txn| {
            turn_put(txn, &put)?;
            queue_append(txn, &append)
        })
        .unwrap();
        go_back_to_0001(db);
        db.sql("UPDATE turns SET partial_usage = (1 = 1)");
        db.reopen(|_| {});
        let branch = of.1.clone();
        let found = db.read(move |r| Ok((turn_get(r, &branch)?, queue_items(r, &branch)?))).unwrap();
        assert_eq!(found, (Some(row), vec![queued]));
        assert_eq!(db.events(&of.0, 0).items.len(), 1);
        let version = "SELECT count(*) FROM __diesel_schema_migrations WHERE version = '0002'";
        assert_eq!(db.sql_number(version), 1);
    }
}
