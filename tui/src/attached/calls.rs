//! Owns what an attached client has asked of the server and has no answer to: sent again on each connection under the
//! same request id, so that nothing is lost or done twice. Tested in `tui/tests/it/attached.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use gent_client::{CallError, Client};
use gent_protocol::{Done, RespondInteraction, SendMessage, SteerCommand, SteerParams};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How long a call is repeated to a branch that takes no more; to a server that hands over.
const BUSY: Duration = Duration::from_secs(30);
const DRAINING: Duration = Duration::from_secs(90);
/// The pause before it is repeated, where the server names none.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// Calls without an answer. Prompts wait for the end of their turns, and a branch lets fewer than this wait.
const UNANSWERED: usize = 32;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ask {
    /// To run a prompt.
    Send(SendMessage),
    /// To stop the turn, or to say something to it.
    Steer(SteerCommand),
    /// To take an answer.
    Respond(RespondInteraction),
}

struct Pending {
    ask: Ask,
    refused_since: Option<Instant>,
}

struct Report {
    place: u64,
    outcome: Result<Done, CallError>,
}

/// Calls without an answer.
#[derive(Default)]
pub(crate) struct Calls {
    set: JoinSet<Report>,
    pending: BTreeMap<u64, Pending>,
    client: Option<Client>,
    last: u64,
}

impl Calls {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Asks, now or with the next connection; gives it back when too much has no answer yet. A stop always goes out.
    pub(crate) fn ask(&mut self, ask: Ask) -> Option<Ask> {
        let is_stop = matches!(ask, Ask::Steer(SteerCommand::Cancel { .. }));
        if self.pending.len() >= UNANSWERED && !is_stop {
            return Some(ask);
        }
        self.last += 1;
        let place = self.last;
        self.pending.insert(place, Pending { ask, refused_since: None });
        self.start(place, Duration::ZERO);
        None
    }

    /// A connection is up: everything without an answer is asked on it, in its order.
    pub(crate) fn link(&mut self, client: Client) {
        self.client = Some(client);
        let places: Vec<u64> = self.pending.keys().copied().collect();
        for place in places {
            self.start(place, Duration::ZERO);
        }
    }

    fn start(&mut self, place: u64, after: Duration) {
        let (Some(client), Some(pending)) = (self.client.clone(), self.pending.get(&place)) else { return };
        let ask = pending.ask.clone();
        self.set.spawn(async move {
            if !after.is_zero() {
                sleep(after).await;
            }
            let outcome = match ask {
                Ask::Send(message) => client.call(message).await,
                Ask::Steer(command) => client.call(SteerParams { command }).await,
                Ask::Respond(answer) => client.call(answer).await,
            };
            Report { place, outcome }
        });
    }

    /// What came of the next call that is over; never while none is. Safe to drop.
    pub(crate) async fn next(&mut self) -> (Ask, Result<(), CallError>) {
        loop {
            match self.set.join_next().await {
                Some(Ok(report)) => {
                    if let Some(over) = self.take(report) {
                        return over;
                    }
                }
                // Nothing aborts a call but the end of the client, and a call does not panic.
                Some(Err(_gone)) => {}
                None => std::future::pending().await,
            }
        }
    }

    fn take(&mut self, report: Report) -> Option<(Ask, Result<(), CallError>)> {
        let Report { place, outcome } = report;
        let outcome = match outcome {
            Ok(_) => Ok(()),
            // The next connection asks again, or has done so already.
            Err(error) if error.is_closed() => return None,
            Err(error) => {
                let pending = self.pending.get_mut(&place)?;
                if let Some(repeat) = error.repeat_after() {
                    let since = *pending.refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < if repeat.draining { DRAINING } else { BUSY } {
                        self.start(place, repeat.wait.unwrap_or(AGAIN).clamp(AGAIN, AGAIN_MAX));
                        return None;
                    }
                }
                Err(error)
            }
        };
        self.pending.remove(&place).map(|pending| (pending.ask, outcome))
    }
}
