//! Owns `gent serve`: its options handed to the library. Tested end to end.

use gent_server::{Environment, ServeOptions};

use super::arguments::ServeArguments;
use super::failure::Failure;

/// Serves until told to stop.
pub(crate) fn serve(arguments: ServeArguments, environment: &Environment) -> Result<u8, Failure> {
    let options = ServeOptions {
        host: arguments.host,
        port: arguments.port,
        data_dir: arguments.data_dir,
        detached: arguments.detached,
        idle_exit: arguments.idle_exit,
        log_format: arguments.log_format.into(),
        isolate: arguments.isolate,
    };
    gent_server::serve(options, environment)?;
    Ok(0)
}
