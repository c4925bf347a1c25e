//! Owns the calls a run makes beside following the session: the prompt, the cancel, the question for the model.
//! Each reports once; all end with the run. Tested in `tui/tests/it`.

use std::time::Duration;

use gent_client::{CallError, Client};
use gent_protocol::{Done, GetSnapshot, SendMessage, SessionSnapshot, SteerCommand, SteerParams};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Report {
    /// The prompt's turn has ended, or the prompt was refused, on the connection of this number.
    Sent { connection: u32, outcome: Result<Done, CallError> },
    /// The cancel is stored, or was refused.
    Cancelled(Result<Done, CallError>),
    /// What the session is like.
    Model(Box<Result<SessionSnapshot, CallError>>),
}

/// Calls in flight.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    set: JoinSet<Report>,
    /// The question for the model is out.
    is_model_asked: bool,
}

impl Jobs {
    /// Sends the prompt, after a pause.
    pub(crate) fn send(&mut self, client: Client, connection: u32, message: SendMessage, after: Duration) {
        self.set.spawn(async move {
            if !after.is_zero() {
                sleep(after).await;
            }
            Report::Sent { connection, outcome: client.call(message).await }
        });
    }

    /// Cancels the turn.
    pub(crate) fn cancel(&mut self, client: Client, command: SteerCommand) {
        self.set.spawn(async move { Report::Cancelled(client.call(SteerParams { command }).await) });
    }

    /// Asks which model answers.
    pub(crate) fn ask_model(&mut self, client: Client, params: GetSnapshot) {
        self.is_model_asked = true;
        self.set.spawn(async move { Report::Model(Box::new(client.call(params).await)) });
    }

    /// The next report; never while nothing is in flight.
    pub(crate) async fn next(&mut self) -> Report {
        loop {
            match self.set.join_next().await {
                Some(Ok(report)) => {
                    self.is_model_asked &= !matches!(report, Report::Model(_));
                    return report;
                }
                // Nothing aborts a job but the end of the run, and a job does not panic.
                Some(Err(_gone)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// The model that answers, where it was asked for and has not been told yet. Other reports are passed over.
    pub(crate) async fn model(&mut self) -> Option<SessionSnapshot> {
        if !self.is_model_asked {
            return None;
        }
        while let Some(report) = self.set.join_next().await {
            if let Ok(Report::Model(snapshot)) = report {
                return (*snapshot).ok();
            }
        }
        None
    }
}
