//! Owns the tests of real processes. This executable is also their helper (`__child`), and the server that is
//! killed under them (`__server`), so it has a `main` of its own in place of libtest's; it takes the same
//! arguments as far as `cargo test` and `cargo nextest` use them.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "all of it is test code, which clippy cannot tell without libtest"
)]

mod bed;
mod ends;
mod runs;
mod sees;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use bed::Bed;

/// A test: its name and what it does with a bed of its own.
type Case = (&'static str, fn(Bed) -> futures_util::future::BoxFuture<'static, ()>);

/// Lists async functions as cases.
#[macro_export]
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(crate) const CASES: &[$crate::Case] =
            &[$((stringify!($name), |bed| Box::pin($name(bed)))),*];
    };
}

/// A case that takes longer hangs.
const CASE_LIMIT: Duration = Duration::from_secs(60);

/// Cases at one time: they mostly wait.
const AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["__child", lock] => return exit_code(gent_actors::process::child_main(Path::new(lock))),
        ["__server", lock, command] => return exit_code(bed::serve(Path::new(lock), command)),
        _ => {}
    }
    let is_exact = words.contains(&"--exact");
    let is_skipped = words.contains(&"--ignored");
    let filters: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let chosen: Vec<&Case> = [runs::CASES, ends::CASES, sees::CASES]
        .into_iter()
        .flatten()
        .filter(|(name, _)| {
            let matches = |filter: &&str| if is_exact { name == filter } else { name.contains(filter) };
            !is_skipped && (filters.is_empty() || filters.iter().any(matches))
        })
        .collect();
    if words.contains(&"--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    run(&chosen)
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn run(chosen: &[&Case]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (queue, failed) = (Mutex::new(chosen.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((name, case)) = queue.lock().unwrap().next() else { return };
                    let task = runtime.spawn(case(Bed::new(runtime.handle().clone())));
                    let outcome = runtime.block_on(async { tokio::time::timeout(CASE_LIMIT, task).await });
                    let is_ok = matches!(outcome, Ok(Ok(())));
                    println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
                    if !is_ok {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("\ntest result: {} passed; {} failed {failed:?}", chosen.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
