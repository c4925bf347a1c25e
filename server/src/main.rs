//! Owns the `gent` program: takes its environment once and hands over to the command that was asked for.
//! Never does the work itself. Tested end to end.

mod cli;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use gent_server::Environment;

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
        Ok(environment) => {
            let is_option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
            if arguments
                .iter()
                .skip(1)
                .find(|argument| !is_option(argument))
                .is_some_and(|word| word == "serve")
            {
                let variable = |name: &str| environment.var_os(name).map(Into::into);
                gent_server::restart_with_settings(environment.exe(), &arguments, variable);
            }
            cli::main(arguments, &environment)
        }
        Err(error) => cli::fail(&cli::Failure::of(&error), false),
    }
}
