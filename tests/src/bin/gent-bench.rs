//! Owns the benchmark program: reads its arguments, takes the measurements, prints one JSON object.
//! Never judges: `gent_e2e::bench` says what each figure must not exceed.

use std::io::Write as _;
use std::process::ExitCode;

use gent_e2e::bench::{NAMES, Options, measure};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return print(&format!(
            "gent-bench: measures gent.\n\n{}\n\nMeasurements: {}",
            Options::HELP,
            NAMES.join(", ")
        ));
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => return complain(&error.to_string(), 2),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.to_string(), 1),
    };
    match runtime.block_on(measure(&options)) {
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

fn complain(text: &str, code: u8) -> ExitCode {
    let _closed = writeln!(std::io::stderr(), "gent-bench: {text}").is_err();
    ExitCode::from(code)
}
