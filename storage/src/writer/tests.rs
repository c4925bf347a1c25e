//! Tests the writer over real files, one group at a time: what waits is given by hand, so that every group is known.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};

use gent_protocol::{
    AgentEvent, Approval, BranchId, EventSeq, Millis, SessionId, StoreIncarnation, WorkspaceId,
};

use super::*;
use crate::opening::open_database;
use crate::{Location, Mode, NewSession, StoreConfig, Synchronous, event_last, session_create};

#[derive(Default)]
struct Heard {
    seen: Mutex<Vec<EventSeq>>,
    lost: AtomicU32,
}

impl Publisher for Heard {
    fn publish(&self, envelopes: Vec<Published>) {
        self.seen.lock().unwrap().extend(envelopes.iter().map(|envelope| envelope.id));
    }

    fn lost_track(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bench {
    writer: Writer,
    heard: Arc<Heard>,
    session: SessionId,
    waiting: VecDeque<Box<dyn Write>>,
    place: tempfile::TempDir,
}

type Outcome = Result<i64, StoreError>;

fn bench() -> Bench {
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
    let opened = open_database(&config).unwrap();
    let heard = Arc::new(Heard::default());
    let mut writer = Writer::new(opened.connector, opened.connection, heard.clone(), Arc::default());
    writer.group_time = Duration::MAX;
    let session = SessionId::parse("s").unwrap();
    let mut bench = Bench { writer, heard, session, waiting: VecDeque::new(), place };
    let new = NewSession {
        workspace: WorkspaceId::parse("0".repeat(64)).unwrap(),
        session: bench.session.clone(),
        branch: BranchId::parse("b").unwrap(),
        name: "n".into(),
        cwd: None,
        model: None,
        reasoning: None,
        admission: None,
        approval: Approval::Ask,
        env: Default::default(),
        initial_prompt: None,
        request: None,
        at: Millis(1),
    };
    let made = bench.add("session.create", move |txn| session_create(txn, &new).map(|_| 0));
    bench.run();
    made.recv().unwrap().unwrap();
    bench
}

impl Bench {
    fn add(
        &mut self,
        name: &'static str,
        write: impl Fn(&mut WriteTxn<'_>) -> Outcome + Send + 'static,
    ) -> Receiver<Outcome> {
        let (sender, receiver) = channel();
        let done = move |outcome| sender.send(outcome).unwrap();
        self.waiting.push_back(Box::new(NamedWrite::new(name, write, done)));
        receiver
    }

    /// A write of one event; it answers with the event's number.
    fn add_event(&mut self, name: &'static str) -> Receiver<Outcome> {
        let event = renamed(&self.session);
        self.add(name, move |txn| Ok(txn.append(&event, Millis(2))?.0))
    }

    fn run(&mut self) -> usize {
        let answers = self.writer.run_group(&mut self.waiting);
        let n_answers = answers.len();
        answers.into_iter().for_each(Answer::give);
        n_answers
    }

    fn last(&mut self) -> i64 {
        let session = self.session.clone();
        let last = self.add("test.last", move |txn| Ok(event_last(txn, &session)?.0));
        self.run();
        last.recv().unwrap().unwrap()
    }

    fn seen(&self) -> Vec<i64> {
        self.heard.seen.lock().unwrap().iter().map(|seq| seq.0).collect()
    }
}

fn renamed(session: &SessionId) -> AgentEvent {
    AgentEvent::SessionNameUpdated { session_id: session.clone(), name: "n".into() }
}

fn refuse() -> Outcome {
    Err(StoreError::Conflict { message: "no".into() })
}

#[test]
fn a_refused_write_leaves_no_hole_in_the_numbers_of_its_group() {
    let mut bench = bench();
    let first = bench.add_event("test.a");
    let event = renamed(&bench.session);
    let refused = bench.add("test.b", move |txn| {
        txn.append(&event, Millis(2))?;
        refuse()
    });
    let second = bench.add_event("test.c");
    assert_eq!(bench.run(), 3);
    assert_eq!((first.recv().unwrap().unwrap(), second.recv().unwrap().unwrap()), (2, 3));
    assert!(matches!(refused.recv().unwrap(), Err(StoreError::Conflict { .. })));
    assert_eq!(bench.seen(), [1, 2, 3]);
}

#[test]
fn a_broken_constraint_fails_its_own_write_alone() {
    let mut bench = bench();
    let first = bench.add_event("test.a");
    let broken = bench.add("test.b", |txn| {
        let gone = "INSERT INTO branches VALUES ('x', 'nobody', 1, NULL, NULL, NULL, 1)";
        Ok(diesel::sql_query(gone).execute(crate::Reader::connection(txn)).map(|_| 0)?)
    });
    bench.run();
    first.recv().unwrap().unwrap();
    let error = broken.recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
}

#[test]
fn a_panicking_write_fails_alone_and_the_writer_lives() {
    let mut bench = bench();
    let first = bench.add_event("test.a");
    let event = renamed(&bench.session);
    let panics = bench.add("test.panics", move |txn| {
        txn.append(&event, Millis(2))?;
        panic!("a bug")
    });
    let never_run = bench.add_event("test.c");
    assert_eq!(bench.run(), 2);
    assert_eq!(bench.run(), 1);
    assert_eq!(first.recv().unwrap().unwrap(), 2);
    assert!(panics.recv().unwrap().unwrap_err().to_string().contains("test.panics panicked"));
    assert_eq!(never_run.recv().unwrap().unwrap(), 3);
    assert_eq!(bench.seen(), [1, 2, 3]);
}

#[test]
fn a_panicking_caller_does_not_keep_the_others_from_their_answers() {
    let mut bench = bench();
    let (write, done) = (|_: &mut WriteTxn<'_>| Ok(0_i64), |_: Outcome| panic!("a bug"));
    bench.waiting.push_back(Box::new(NamedWrite::new("test.a", write, done)));
    let second = bench.add_event("test.b");
    assert_eq!(bench.run(), 2);
    assert_eq!(second.recv().unwrap().unwrap(), 2);
}

#[test]
fn a_group_whose_commit_fails_is_run_again_one_write_at_a_time() {
    let mut bench = bench();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let event = renamed(&bench.session);
    let first = bench.add("test.again", move |txn| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(txn.append(&event, Millis(2))?.0)
    });
    let second = bench.add_event("test.commit_fails");
    failpoint::arm("store.before_commit:test.commit_fails=error").unwrap();
    assert_eq!(bench.run(), 2);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!((first.recv().unwrap().unwrap(), second.recv().unwrap().unwrap()), (2, 3));
    assert_eq!(bench.seen(), [1, 2, 3]);
}

#[test]
fn a_commit_without_an_answer_is_never_run_again_and_ends_all_tracking() {
    let mut bench = bench();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let event = renamed(&bench.session);
    let first = bench.add("test.unknown", move |txn| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(txn.append(&event, Millis(2))?.0)
    });
    let second = bench.add_event("test.b");
    failpoint::arm("store.after_commit:test.unknown=error").unwrap();
    bench.run();
    for answer in [first, second] {
        assert!(matches!(answer.recv().unwrap(), Err(StoreError::OutcomeUnknown)));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(bench.heard.lost.load(Ordering::SeqCst), 1);
    // What was committed all the same was not published: whoever follows reads it from the store.
    assert_eq!((bench.seen(), bench.last()), (vec![1], 3));
}

#[test]
fn a_full_disk_fails_the_write_that_fills_it_and_spares_its_neighbours() {
    let mut bench = bench();
    bench.writer.connector.page_limit.store(90, Ordering::SeqCst);
    bench.writer.replace_connection();
    let small = bench.add_event("test.small");
    let session_id = bench.session.clone();
    let huge = bench.add("test.huge", move |txn| {
        let name = "x".repeat(1 << 20);
        Ok(txn.append(&AgentEvent::SessionNameUpdated { session_id: session_id.clone(), name }, Millis(2))?.0)
    });
    bench.run();
    assert!(matches!(huge.recv().unwrap(), Err(StoreError::Full)));
    assert_eq!(small.recv().unwrap().unwrap(), 2);
    assert_eq!(bench.last(), 2);
    bench.writer.connector.page_limit.store(0, Ordering::SeqCst);
    bench.writer.replace_connection();
    let after = bench.add_event("test.after");
    bench.run();
    assert_eq!(after.recv().unwrap().unwrap(), 3);
}

#[test]
fn a_group_is_bounded_in_number_and_the_rest_keeps_its_order() {
    let mut bench = bench();
    let answers: Vec<_> = (0..70).map(|_| bench.add_event("test.many")).collect();
    let mut n_answered = 0;
    while !bench.waiting.is_empty() {
        let n_group = bench.run();
        assert!(n_group <= GROUP_WRITES);
        n_answered += n_group;
    }
    assert_eq!(n_answered, 70);
    let numbers: Vec<i64> = answers.iter().map(|answer| answer.recv().unwrap().unwrap()).collect();
    assert_eq!(numbers, (2..72).collect::<Vec<i64>>());
}

#[test]
fn a_write_that_lost_to_another_transaction_is_run_again_five_times_at_most() {
    let mut bench = bench();
    let runs = Arc::new(AtomicU32::new(0));
    let lost = |runs: &Arc<AtomicU32>, until: u32| {
        let counted = runs.clone();
        move |_: &mut WriteTxn<'_>| -> Outcome {
            if counted.fetch_add(1, Ordering::SeqCst) + 1 == until {
                return Ok(7);
            }
            let kind = diesel::result::DatabaseErrorKind::SerializationFailure;
            Err(diesel::result::Error::DatabaseError(kind, Box::new("40001".to_owned())).into())
        }
    };
    let won = bench.add("test.lost", lost(&runs, 5));
    bench.run();
    assert_eq!(won.recv().unwrap().unwrap(), 7);
    runs.store(0, Ordering::SeqCst);
    let never = bench.add("test.lost", lost(&runs, u32::MAX));
    bench.run();
    assert!(never.recv().unwrap().is_err());
    assert_eq!(runs.load(Ordering::SeqCst), 5);
}

#[test]
fn a_log_beyond_its_bound_is_settled_b155() {
    let mut bench = bench();
    bench.add_event("test.a");
    bench.run();
    let log = bench.place.path().join("data.db-wal");
    let bytes = || std::fs::metadata(&log).unwrap().len();
    let before = bytes();
    bench.writer.settle_log_over(before);
    assert_eq!(bytes(), before);
    bench.writer.settle_log_over(before - 1);
    assert_eq!(bytes(), 0);
}

#[test]
fn every_connection_runs_under_the_store_s_settings_b159() {
    use diesel::sql_types::BigInt;
    let bench = bench();
    let number = |connection: &mut AnyConnection, pragma: &str| -> i64 {
        let sql = format!("(SELECT * FROM pragma_{pragma})");
        diesel::select(diesel::dsl::sql::<BigInt>(&sql)).get_result(connection).unwrap()
    };
    for purpose in [Purpose::Write, Purpose::Read] {
        let mut connection = bench.writer.connector.connect(purpose).unwrap();
        let c = &mut connection;
        assert_eq!(number(c, "busy_timeout"), 5_000);
        assert_eq!(number(c, "journal_size_limit"), 64 << 20);
        assert_eq!(number(c, "synchronous"), 1);
        assert_eq!(number(c, "foreign_keys"), 1);
        assert_eq!(number(c, "query_only"), i64::from(purpose == Purpose::Read));
        assert!(purpose == Purpose::Write || number(c, "cache_size") == -512);
    }
}

#[test]
fn a_group_that_has_taken_its_time_is_committed_without_the_writes_that_were_to_follow() {
    let mut bench = bench();
    bench.writer.group_time = Duration::ZERO;
    let (first, second) = (bench.add_event("test.a"), bench.add_event("test.b"));
    assert_eq!(bench.run(), 1);
    assert_eq!(first.recv().unwrap().unwrap(), 2);
    assert!(second.try_recv().is_err());
    assert_eq!(bench.run(), 1);
    assert_eq!(second.recv().unwrap().unwrap(), 3);
}

#[test]
fn an_armed_failpoint_inside_a_write_undoes_it() {
    let mut bench = bench();
    failpoint::arm("store.in_write:test.in_write=error").unwrap();
    let failed = bench.add_event("test.in_write");
    bench.run();
    assert!(failed.recv().unwrap().is_err());
    assert_eq!(bench.last(), 1);
}

#[test]
fn a_write_is_seen_by_the_publisher_before_its_caller_is_answered() {
    let mut bench = bench();
    let heard = bench.heard.clone();
    let (sender, receiver) = channel();
    let event = renamed(&bench.session);
    let write = move |txn: &mut WriteTxn<'_>| Ok(txn.append(&event, Millis(2))?.0);
    let done = move |outcome: Outcome| {
        let seen = heard.seen.lock().unwrap().last().copied();
        sender.send((outcome.unwrap(), seen.unwrap().0)).unwrap();
    };
    bench.waiting.push_back(Box::new(NamedWrite::new("test.order", write, done)));
    bench.run();
    let (written, seen) = receiver.recv().unwrap();
    assert_eq!(written, seen);
}
