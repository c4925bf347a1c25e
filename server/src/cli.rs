//! Owns the command line: which command runs, what it says when it fails, its exit code.
//! Never does what the library or the client does. Tested below each command and end to end.

mod arguments;
mod attach;
mod doctor;
mod failure;
mod lists;
mod prompt;
mod run;
mod runtime;
mod serve;
mod server;
mod starter;

use std::ffi::OsString;
use std::process::ExitCode;

use gent_server::Environment;

use arguments::{Command, ServerCommand};
pub(crate) use failure::{Failure, fail};

/// Runs the command line to its exit code.
pub(crate) fn main(arguments: Vec<OsString>, environment: &Environment) -> ExitCode {
    let parsed = match arguments::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version go to standard output and are no failure; a closed pipe is nobody's business.
            let _closed = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let is_verbose = parsed.verbose;
    let outcome = match parsed.command {
        Command::Run(options) => run::run(options, environment, is_verbose),
        Command::Attach(options) => attach::attach(options, environment, is_verbose),
        Command::Demo(options) => run::demo(options, environment, is_verbose),
        Command::Serve(options) => serve::serve(options, environment),
        Command::Server(server) => match server.command {
            ServerCommand::Status(options) => server::status(&options, environment),
            ServerCommand::Stop(options) => server::stop(&options, environment),
        },
        Command::Sessions(options) => lists::sessions(&options, environment),
        Command::Actors(options) => lists::actors(&options, environment),
        Command::Doctor(options) => doctor::doctor(&options, environment),
    };
    match outcome {
        Ok(exit_code) => ExitCode::from(exit_code),
        Err(failure) => fail(&failure, is_verbose),
    }
}
