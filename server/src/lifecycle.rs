//! Owns the phase a server is in and who asked it to stop.
//! Never does the stopping: `serve` does. Tested below and through `serve`.

use std::time::Duration;

use tokio::sync::watch;

/// How long turns have to reach a step boundary when the server is told to stop.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// How long they have when a newer program takes over.
pub(crate) const RETIRE: Duration = Duration::from_secs(60);

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It takes everything.
    Serving,
    /// It takes no new turns; sockets stay open so that the ends of turns are seen.
    Draining,
    /// It closes sockets as going away.
    Going,
}

/// Why a server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A signal.
    Signal,
    /// `server.retire`.
    Retire,
    /// Nobody needed it for a while.
    Idle,
    /// A private server's client is gone.
    InputEnded,
}

impl Stop {
    /// How long turns have to reach a step boundary.
    pub(crate) fn drain(self) -> Duration {
        match self {
            Self::Retire => RETIRE,
            Self::Signal | Self::Idle => DRAIN,
            // The store goes with the server: nothing that is put aside would ever go on.
            Self::InputEnded => Duration::ZERO,
        }
    }

    /// The name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Retire => "retire",
            Self::Idle => "idle",
            Self::InputEnded => "input ended",
        }
    }
}

/// The phase, and the wish to stop. Phases only go forward; the first wish counts.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: watch::Sender<Phase>,
    stop: watch::Sender<Option<Stop>>,
}

impl Lifecycle {
    /// A server that serves.
    pub(crate) fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Serving), stop: watch::Sender::new(None) }
    }

    /// The phase now.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Goes to a later phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            if later {
                *now = phase;
            }
            later
        });
    }

    /// Returns once the phase is `phase` or later.
    pub(crate) async fn reached(&self, phase: Phase) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let reached = self.phase.subscribe().wait_for(|now| *now >= phase).await.is_ok();
        debug_assert!(reached, "the sender outlives the wait");
    }

    /// Asks for an end.
    pub(crate) fn request(&self, stop: Stop) {
        self.stop.send_if_modified(|wish| {
            let first = wish.is_none();
            if first {
                *wish = Some(stop);
            }
            first
        });
    }

    /// Returns the first wish to stop, once there is one.
    pub(crate) async fn stop_requested(&self) -> Stop {
        let mut wishes = self.stop.subscribe();
        match wishes.wait_for(Option::is_some).await.map(|wish| *wish) {
            Ok(Some(stop)) => stop,
            Ok(None) | Err(_) => Stop::Signal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_server_whose_client_is_gone_waits_for_no_turn() {
        assert_eq!(Stop::InputEnded.drain(), Duration::ZERO);
        assert_eq!(Stop::Signal.drain(), DRAIN);
    }

    #[tokio::test]
    async fn phases_only_go_forward_and_the_first_wish_counts() {
        let lifecycle = Lifecycle::new();
        lifecycle.enter(Phase::Going);
        lifecycle.enter(Phase::Draining);
        assert_eq!(lifecycle.phase(), Phase::Going);
        lifecycle.reached(Phase::Draining).await;
        lifecycle.request(Stop::Retire);
        lifecycle.request(Stop::Signal);
        assert_eq!(lifecycle.stop_requested().await, Stop::Retire);
    }
}
