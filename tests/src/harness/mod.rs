//! Owns how tests handle the built program: a private place, a server process, clients, recorded events, the command
//! line, and what the system says of a process. Never waits without a deadline, never for time alone.

mod cli;
mod eventually;
mod failpoint;
mod place;
mod process;
mod raw;
mod recorder;
mod server;
mod session;
mod trace;

pub use cli::{Cli, CliOutput};
pub use eventually::{DEADLINE, eventually, within};
pub use failpoint::{Pipe, Stop};
pub use place::{Place, gent_binary};
pub use process::{
    cpu_nanos, cpu_ticks, is_alive, private_dirty_kib, processes_with_env_marker, send_signal,
};
pub use raw::RawSocket;
pub use recorder::Recorder;
pub use rustix::process::Signal;
pub use server::{Gent, Setup};
pub use session::{OpenSession, Sent};
pub use trace::Turn;
