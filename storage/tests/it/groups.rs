//! Tests the store's threads: order, queues, bounds, snapshots, closing.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use gent_protocol::{EventSeq, Millis};
use gent_storage::{Mode, Queue, Store, StoreError, event_last, session_find};

use crate::fixture::{Fixture, named};

/// Keeps the writer busy until the returned sender is dropped; returns when it is.
fn hold_writer(store: &Store) -> Sender<()> {
    let (release, held) = channel::<()>();
    let (entered, entering) = channel();
    let held = Mutex::new(held);
    store.submit(
        Queue::Ordinary,
        "test.hold",
        move |_| {
            entered.send(()).ok();
            held.lock().unwrap().recv().ok();
            Ok(())
        },
        |_| {},
    );
    entering.recv().unwrap();
    release
}

fn note(store: &Store, queue: Queue, name: &'static str, notes: &Sender<&'static str>) {
    let notes = notes.clone();
    store.submit(queue, name, |_| Ok(()), move |_| notes.send(name).unwrap());
}

fn all<T>(receiver: &Receiver<T>, n: usize) -> Vec<T> {
    (0..n).map(|_| receiver.recv().unwrap()).collect()
}

suite! {
    fn writes_are_published_before_they_are_answered_and_in_order(db) {
        let (session, _) = db.session("s", 1);
        let (sender, answers) = channel();
        for _ in 0..50 {
            let (sender, event) = (sender.clone(), named(&session, "x"));
            let heard = db.heard.clone();
            db.store().submit(
                Queue::Ordinary,
                "test.event",
                move |txn| txn.append(&event, Millis(2)),
                move |outcome| {
                    let seq = outcome.unwrap();
                    sender.send((seq, heard.has(seq))).unwrap();
                },
            );
        }
        let answered = all(&answers, 50);
        assert!(answered.iter().all(|(_, was_published)| *was_published));
        let published: Vec<i64> = db.published().iter().map(|envelope| envelope.id.0).collect();
        assert_eq!(published, (1..=51).collect::<Vec<i64>>());
    }

    fn bulk_work_runs_only_when_no_ordinary_write_waits(db) {
        let store = db.store();
        let release = hold_writer(&store);
        let (notes, order) = channel();
        note(&store, Queue::Bulk, "bulk.1", &notes);
        note(&store, Queue::Bulk, "bulk.2", &notes);
        note(&store, Queue::Ordinary, "ordinary.1", &notes);
        note(&store, Queue::Ordinary, "ordinary.2", &notes);
        drop(release);
        assert_eq!(all(&order, 4), ["ordinary.1", "ordinary.2", "bulk.1", "bulk.2"]);
    }

    fn the_write_queue_is_bounded_and_says_so_at_once(db) {
        let store = db.store();
        let release = hold_writer(&store);
        let (notes, order) = channel();
        for _ in 0..4096 {
            note(&store, Queue::Ordinary, "waits", &notes);
        }
        let refused = Arc::new(Mutex::new(None));
        let answer = refused.clone();
        store.submit(Queue::Bulk, "late", |_| Ok(()), move |outcome| *answer.lock().unwrap() = Some(outcome));
        assert!(matches!(refused.lock().unwrap().take(), Some(Err(StoreError::QueueFull))));
        assert!(store.writer_status().queued >= 4096);
        drop(release);
        assert_eq!(all(&order, 4096).len(), 4096);
    }

    fn a_read_is_one_snapshot_whatever_is_written_meanwhile(db) {
        let (session, _) = db.session("s", 1);
        let (store, event, s) = (db.store(), named(&session, "x"), session.clone());
        let (before, after) = db
            .read(move |r| {
                let before = event_last(r, &s)?;
                store.write_blocking("test.meanwhile", move |txn| txn.append(&event, Millis(2)))?;
                Ok((before, event_last(r, &s)?))
            })
            .unwrap();
        assert_eq!((before, after), (EventSeq(1), EventSeq(1)));
        assert_eq!(db.read(move |r| event_last(r, &session)).unwrap(), EventSeq(2));
    }

    fn a_panicking_read_fails_alone(db) {
        let (session, _) = db.session("s", 1);
        let error = db.read(|_| -> Result<(), StoreError> { panic!("a bug") }).unwrap_err();
        assert!(error.to_string().contains("test.read panicked"), "{error}");
        for _ in 0..4 {
            let s = session.clone();
            assert!(db.read(move |r| session_find(r, &s)).unwrap().is_some());
        }
    }

    fn closing_finishes_what_is_queued_and_refuses_what_comes_later(db) {
        let (session, _) = db.session("s", 1);
        let store = db.store();
        let release = hold_writer(&store);
        let (sender, answers) = channel();
        for _ in 0..10 {
            let (sender, event) = (sender.clone(), named(&session, "x"));
            store.submit(
                Queue::Ordinary,
                "test.event",
                move |txn| txn.append(&event, Millis(2)),
                move |outcome| sender.send(outcome.is_ok()).unwrap(),
            );
        }
        drop(release);
        store.close();
        assert!(answers.try_iter().filter(|stored| *stored).count() == 10);
        assert!(matches!(db.write(|_| Ok(())), Err(StoreError::Closed)));
        assert!(matches!(db.read(|_| Ok(())), Err(StoreError::Closed)));
        store.close();
    }

    fn the_inline_store_writes_and_reads_on_the_calling_thread(db) {
        db.reopen(|config| config.mode = Mode::Inline);
        let (session, _) = db.session("s", 1);
        let here = std::thread::current().id();
        let (sender, answers) = channel();
        let store = db.store();
        let again = store.clone();
        let event = named(&session, "x");
        store.submit(
            Queue::Ordinary,
            "test.event",
            move |txn| txn.append(&event, Millis(2)),
            move |outcome| {
                // A caller may use the store again from its answer.
                let last = again.read_blocking("test.read", move |r| event_last(r, &session)).unwrap();
                sender.send((std::thread::current().id(), outcome.unwrap(), last)).unwrap();
            },
        );
        assert_eq!(answers.try_recv().unwrap(), (here, EventSeq(2), EventSeq(2)));
        store.close();
        assert!(matches!(db.write(|_| Ok(())), Err(StoreError::Closed)));
    }

    fn many_writers_at_once_lose_nothing(db) {
        let (session, _) = db.session("s", 1);
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (store, session) = (db.store(), session.clone());
                std::thread::spawn(move || {
                    for _ in 0..20 {
                        let event = named(&session, "x");
                        store.write_blocking("test.event", move |txn| txn.append(&event, Millis(2))).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(db.events(&session, 0).items.len(), 161);
    }
}

#[test]
fn a_write_holds_the_write_lock_from_its_first_read_on_b161() {
    let db = Fixture::sqlite();
    let (session, _) = db.session("s", 1);
    let path = db.place.path().join("data.db");
    let refused = db
        .write(move |txn| {
            event_last(txn, &session)?;
            // Another writer is shut out already: what was read cannot have changed when this write goes on.
            let mut other = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
            let refused = other.batch_execute("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE;");
            txn.append(&named(&session, "x"), Millis(2))?;
            Ok(refused.is_err())
        })
        .unwrap();
    assert!(refused);
}
