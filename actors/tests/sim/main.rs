//! Owns the simulation: random clients, a model and tools that fail, writes that fail, an engine that is killed, all by
//! a seed; and the checks that hold afterwards whatever happened. A failing seed names itself; `GENT_SIM_SEED=n` runs it
//! alone and says what happened in it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test may fail loudly"
)]

mod calls;
mod check;
mod check_told;
mod clients;
mod met;
mod model;
mod rest;
mod rng;
mod tools;
mod watch;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;

use clients::Run;
use met::Met;

/// Lets time pass, which is held: it moves where nothing else can.
pub(crate) async fn later(wait: Duration) {
    if wait > Duration::ZERO {
        let over = tokio::time::timeout(wait, std::future::pending::<()>()).await;
        assert!(over.is_err());
    }
}

/// One run on a thread of its own, so that a fault that was not met is not there for the next one.
fn run_seed(seed: u64, n_branches: usize, tells: bool) -> Result<Met, String> {
    let body = move || {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(true).build().unwrap()
        };
        let mut log = Vec::new();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let system = actix::System::with_tokio_rt(runtime);
            system.block_on(async {
                let mut run = Run::new(seed, n_branches).await;
                let went = AssertUnwindSafe(in_time(&mut run, seed)).catch_unwind().await;
                log = std::mem::take(&mut run.log);
                if tells || went.is_err() {
                    log.extend(run.tell());
                }
                run.world.engine.stop().await;
                went.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        }));
        (ran.map_err(said), log)
    };
    let thread = std::thread::Builder::new().name(format!("seed-{seed}")).stack_size(8 << 20);
    let (ran, log) = thread.spawn(body).unwrap().join().map_err(said)?;
    if tells {
        eprintln!("{}", log.join("\n"));
    }
    ran
}

/// Longer than all waits of a run together: it is over where nobody but timers moves any more.
const NEVER: Duration = Duration::from_secs(2 * 3600);
/// Looks at the clock, many times those of the longest run: it is over where something goes round while time stands still.
const LOOKS: i64 = 20_000;

/// Fails where a run would hang.
async fn in_time(run: &mut Run, seed: u64) -> Met {
    let round = run.world.clock.bound(LOOKS);
    let went = tokio::select! {
        biased;
        () = round.cancelled() => Err("something goes round and round"),
        went = tokio::time::timeout(NEVER, go(run, seed)) => went.map_err(|_late| "nothing moves any more"),
    };
    went.unwrap_or_else(|why| panic!("{why}; calls without an answer: {:?}", run.calls.open()))
}

async fn go(run: &mut Run, seed: u64) -> Met {
    run.act().await;
    run.rest(seed.is_multiple_of(3)).await;
    run.ask_again().await;
    run.prompt_all().await;
    run.check()
}

fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => {
            other.downcast::<&'static str>().map_or_else(|_| "a panic".to_owned(), |text| (*text).to_owned())
        }
    }
}

/// The seed that was asked for, else all of them.
fn run_seeds(seeds: Range<u64>, n_branches: usize) {
    #[expect(clippy::disallowed_methods, reason = "it says which seed is to be replayed")]
    let asked = std::env::var("GENT_SIM_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let (seeds, tells) = match asked {
        Some(seed) if seeds.contains(&seed) => (seed..seed + 1, true),
        Some(_) => return,
        None => (seeds, false),
    };
    let (mut failed, mut met) = (Vec::new(), Met::default());
    for seed in seeds {
        match run_seed(seed, n_branches, tells) {
            Ok(of_seed) => met.join(of_seed),
            Err(failure) => {
                // At once: whoever stops a long run has the seed.
                eprintln!("GENT_SIM_SEED={seed}: {failure}");
                failed.push(format!("GENT_SIM_SEED={seed}: {failure}"));
            }
        }
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
    eprintln!("{met:?}");
    // The many runs of one branch meet everything; checks that held because nothing happened prove nothing.
    if asked.is_none() && n_branches == 1 {
        assert_eq!(met.missing(), Vec::<&str>::new(), "never met: {met:?}");
    }
}

#[test]
fn whatever_clients_and_faults_do_to_one_branch_everything_holds() {
    run_seeds(0..160, 1);
}

#[test]
fn whatever_clients_and_faults_do_to_ten_branches_everything_holds() {
    run_seeds(160..180, 10);
}

/// As the one above, on the other core.
#[test]
fn whatever_other_clients_and_faults_do_to_ten_branches_everything_holds() {
    run_seeds(180..200, 10);
}
