//! Owns the `gent` program: takes its environment once and hands over to the command that was asked for.
//! Never does the work itself. Tested end to end.

mod cli;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use gent_server::Environment;

/// Gives memory back after a burst, which the system's allocator keeps: an idle server stays small.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // The helper of a process starts once for each command of an agent: nothing may come before it.
    if let [_, command, lock] = arguments.as_slice()
        && command == "__child"
    {
        let code = gent_server::child_main(Path::new(lock));
        return ExitCode::from(u8::try_from(code).unwrap_or(1));
    }
    match Environment::of_process() {
        Ok(environment) => cli::main(arguments, &environment),
        Err(error) => cli::fail(&cli::Failure::of(&error), false),
    }
}
