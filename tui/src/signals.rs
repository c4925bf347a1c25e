//! Owns how the signals of a terminal reach a run. Never decides what becomes of them.
//! Tested end to end.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What somebody outside wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C.
    CtrlC,
    /// SIGTERM.
    Terminate,
}

/// Signals that may wait for the run; more of the same say nothing new and are dropped.
const WAITING: usize = 8;

/// From now on Ctrl-C and SIGTERM arrive here instead of ending the process. Must be called within a tokio runtime.
pub fn listen() -> std::io::Result<mpsc::Receiver<Interrupt>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (sender, receiver) = mpsc::channel(WAITING);
    // Ends with its runtime, or once nobody listens.
    let _task = tokio::spawn(async move {
        loop {
            let what = tokio::select! {
                Some(()) = interrupt.recv() => Interrupt::CtrlC,
                Some(()) = terminate.recv() => Interrupt::Terminate,
                () = sender.closed() => return,
                else => return,
            };
            let _full = sender.try_send(what);
        }
    });
    Ok(receiver)
}
