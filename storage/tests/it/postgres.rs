//! Tests what is peculiar to PostgreSQL: one server a database, foreign and newer schemas, lost connections.

use std::sync::Arc;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use gent_protocol::DatabaseKind;
use gent_storage::{Location, OpenError, Store, inspect, session_find};

use crate::fixture::{Fixture, Heard, named};
use crate::opening::POSTGRES;

fn raw(db: &Fixture) -> PgConnection {
    let Location::Postgres(url) = &db.location else { panic!("not this fixture") };
    PgConnection::establish(url).unwrap()
}

#[test]
fn one_server_owns_a_database_and_the_second_is_told_so() {
    let db = Fixture::postgres();
    let error = Store::open(db.config(), Arc::new(Heard::default())).err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    db.shut();
    Store::open(db.config(), Arc::new(Heard::default())).unwrap();
}

#[test]
fn a_schema_of_another_program_and_a_newer_one_are_refused() {
    let db = Fixture::postgres();
    db.shut();
    raw(&db).batch_execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('9999')").unwrap();
    let error = Store::open(db.config(), Arc::new(Heard::default())).err().unwrap();
    assert!(matches!(error, OpenError::Newer { .. }), "{error}");
    let other = Fixture::postgres();
    other.shut();
    for (_, down) in POSTGRES.iter().rev() {
        raw(&other).batch_execute(down).unwrap();
    }
    raw(&other).batch_execute("CREATE TABLE notes (a int);").unwrap();
    let error = Store::open(other.config(), Arc::new(Heard::default())).err().unwrap();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

#[test]
fn a_lost_connection_is_replaced_and_the_write_that_met_it_is_done() {
    let db = Fixture::postgres();
    let (session, _) = db.session("s", 1);
    let s = session.clone();
    db.read(move |r| session_find(r, &s)).unwrap();
    // The writer's connection is the one that holds the lock of this test's schema.
    let ended: i64 = diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>(
        "(SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND objid = \
         (hashtext(current_schema()::text)::bigint & 4294967295)::oid)",
    ))
    .get_result(&mut raw(&db))
    .unwrap();
    assert_eq!(ended, 1);
    assert_eq!(db.append(named(&session, "x")).0, 2);
    let s = session.clone();
    assert!(db.read(move |r| session_find(r, &s)).unwrap().is_some());
}

#[test]
fn neither_status_nor_debug_nor_errors_show_the_password() {
    let db = Fixture::postgres();
    let Location::Postgres(url) = &db.location else { panic!("not this fixture") };
    let password = url.split(':').nth(2).and_then(|rest| rest.split('@').next()).unwrap();
    let status = db.store().status();
    assert_eq!((status.kind, status.path), (DatabaseKind::Postgres, None));
    assert!(!format!("{:?}", db.config()).contains(password));
    let mut config = db.config();
    config.location = Location::Postgres("postgres://u:hunter2@127.0.0.1:1/x".into());
    let error = Store::open(config, Arc::new(Heard::default())).err().unwrap();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert_eq!(inspect(&db.location).unwrap().schema.as_deref(), Some("0002"));
}
