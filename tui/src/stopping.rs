//! Owns how a run is stopped: the first signal cancels the turn and waits a while, a second one leaves.
//! Tested in `tui/tests/it`.

use std::time::Duration;

use tokio::time::Instant;

use crate::course::Course;
use crate::jobs::Jobs;
use crate::outcome::RunError;
use crate::signals::Interrupt;

/// How long a cancelled turn may take to end before the run leaves without it.
const CANCEL: Duration = Duration::from_secs(10);
/// The same after SIGTERM: whoever sends it will not wait long.
const TERMINATE: Duration = Duration::from_secs(3);

/// Why a run leaves its loop.
#[derive(Debug)]
pub(crate) enum Leave {
    /// The turn has ended.
    Ended,
    /// Somebody does not want to wait for its end, or it took too long to come.
    Left,
    /// Nobody reads standard output any more.
    Unread,
    /// It failed beside the turn.
    Failed(RunError),
}

/// Why a run is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C.
    CtrlC,
    /// SIGTERM.
    Terminate,
    /// It took too long.
    Timeout,
}

impl Stop {
    pub(crate) fn of(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::CtrlC => Self::CtrlC,
            Interrupt::Terminate => Self::Terminate,
        }
    }
}

/// Whether and since when a run is being stopped.
#[derive(Debug)]
pub(crate) struct Stopping {
    begun: Option<(Stop, Instant)>,
    is_text: bool,
    /// Nobody has been told yet what a second Ctrl-C does.
    is_hint_due: bool,
    /// The server has stored the cancel.
    is_cancelled: bool,
}

impl Stopping {
    pub(crate) fn new(is_text: bool) -> Self {
        Self { begun: None, is_text, is_hint_due: false, is_cancelled: false }
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    pub(crate) fn stop(&self) -> Option<Stop> {
        self.begun.map(|(stop, _)| stop)
    }

    /// The server has stored the cancel: the turn ends, seen or not.
    pub(crate) fn acknowledge(&mut self) {
        self.is_cancelled = true;
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// What is to be said now that the turn is being stopped, once.
    pub(crate) fn take_hint(&mut self) -> Option<&'static str> {
        std::mem::take(&mut self.is_hint_due)
            .then_some("stopping the turn; Ctrl-C again leaves without waiting")
    }

    /// When it is no longer waited for.
    pub(crate) fn leave_at(&self) -> Option<Instant> {
        self.begun.map(|(stop, since)| match stop {
            Stop::Terminate => since + TERMINATE,
            Stop::CtrlC | Stop::Timeout => since + CANCEL,
        })
    }

    /// Remembers why; nothing is running yet that could be cancelled.
    pub(crate) fn note(&mut self, stop: Stop) {
        self.begun.get_or_insert((stop, Instant::now()));
    }

    /// Cancels the turn. Without a connection the cancel goes out with the next one.
    pub(crate) fn begin(&mut self, stop: Stop, jobs: &mut Jobs, course: &Course) {
        self.note(stop);
        if let Some(client) = &course.client {
            jobs.cancel(client.clone(), course.cancel.clone());
        }
    }

    /// Hears a signal: the first begins the stop, the next one leaves.
    pub(crate) fn hear(
        &mut self,
        interrupt: Interrupt,
        jobs: &mut Jobs,
        course: &Course,
    ) -> Result<(), Leave> {
        let stop = Stop::of(interrupt);
        match self.begun {
            Some((Stop::CtrlC | Stop::Terminate, _)) => Err(Leave::Left),
            Some((Stop::Timeout, since)) => {
                self.begun = Some((stop, since));
                Err(Leave::Left)
            }
            None => {
                self.is_hint_due = stop == Stop::CtrlC && self.is_text;
                self.begin(stop, jobs, course);
                Ok(())
            }
        }
    }
}
