//! Owns what the programs of this package have in common: arguments in, one JSON object out, and the exit code.
//! Never measures. Tested by running them.

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use crate::bench::Options;

/// Runs the program `name`: prints `help`, or what `work` finds out. 2 is a wrong argument, 1 any other failure.
pub fn run<W>(name: &str, help: &str, work: impl FnOnce(Options) -> W) -> ExitCode
where
    W: Future<Output = anyhow::Result<Value>>,
{
    let complain = |text: &str, code: u8| {
        let _closed = writeln!(std::io::stderr(), "{name}: {text}").is_err();
        ExitCode::from(code)
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return print(help);
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => return complain(&error.to_string(), 2),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string(), 1),
    };
    match runtime.block_on(work(options)) {
        Ok(figures) => print(&format!("{figures:#}")),
        Err(error) => complain(&format!("{error:#}"), 1),
    }
}

fn print(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_closed) => ExitCode::FAILURE,
    }
}
