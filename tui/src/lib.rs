//! Owns the terminal side of gent: one prompt run to its end and shown, a session followed and spoken into,
//! and the tables of the list commands.
//! Never starts a process, reads the environment, parses a command line or talks to a store: a server does the work.
//! Tested beside each part and, against a server played by the test, in `tui/tests/it`.

mod answer;
mod answering;
mod asking;
mod attach;
mod attached;
mod course;
mod credentials;
mod finish;
mod jobs;
mod keyboard;
mod lines;
mod open;
mod outcome;
mod output;
mod question;
mod request;
mod run;
mod sanitize;
mod signals;
mod stopping;
mod tables;
mod turn;

pub use attach::{ServerConnector, ServerStarter};
pub use attached::{AttachRequest, attach};
pub use credentials::{PROVIDER_VARIABLES, provider_credentials};
pub use keyboard::Keyboard;
pub use outcome::{Outcome, RunError, RunOutcome, RunResult};
pub use output::{Console, Output};
pub use request::{Grant, OutputFormat, RunIds, RunRequest, SessionChoice, Terminals};
pub use run::run;
pub use sanitize::{Sanitizer, one_line};
pub use signals::{Interrupt, listen};
pub use tables::{actors_table, sessions_table};
