//! Owns the attack program: attacks a server of its own and prints one JSON object.
//! Never attacks a server that it did not start.

use std::process::ExitCode;

use gent_e2e::attack::attack;
use gent_e2e::bench::Options;
use gent_e2e::program;

fn main() -> ExitCode {
    let help = format!("gent-attack: attacks a server of its own.\n\n{}", Options::HELP);
    program::run("gent-attack", &help, async |options| attack(&options).await)
}
