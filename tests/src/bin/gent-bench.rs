//! Owns the benchmark program: reads its arguments, takes the measurements, prints one JSON object.
//! Never judges: `gent_e2e::bench` says what each figure must not exceed.

use std::process::ExitCode;

use gent_e2e::bench::{NAMES, Options, measure};
use gent_e2e::program;

fn main() -> ExitCode {
    let help =
        format!("gent-bench: measures gent.\n\n{}\n\nMeasurements: {}", Options::HELP, NAMES.join(", "));
    program::run("gent-bench", &help, async |options| measure(&options).await)
}
