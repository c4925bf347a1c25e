//! Owns the calls a run makes beside following the session: the prompt, the cancel, answers, the question
//! for the model.
//! Each reports once; all end with the run. Tested in `tui/tests/it`.

use std::time::Duration;

use gent_client::{CallError, Client};
use gent_protocol::{
    Done, GetSnapshot, InteractionRequestId, RespondInteraction, SendMessage, SessionSnapshot, SteerCommand,
    SteerParams,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How often an answer is given again to a branch that takes no more, and the pause before: half a minute.
const BUSY_TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Report {
    /// The prompt's turn has ended, or the prompt was refused, on the connection of this number.
    Sent { connection: u32, outcome: Result<Done, CallError> },
    /// The cancel is stored, or was refused.
    Cancelled(Result<Done, CallError>),
    /// The answer to a question is taken, or was refused.
    Answered { request_id: InteractionRequestId, error: Option<CallError> },
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

    /// Answers a question; again and again while the branch takes no more.
    pub(crate) fn respond(&mut self, client: Client, answer: RespondInteraction) {
        self.set.spawn(async move {
            let request_id = answer.request_id.clone();
            for _ in 0..BUSY_TRIES {
                match client.call_with(&answer).await {
                    Ok(_) => return Report::Answered { request_id, error: None },
                    Err(error) => match error.repeat_after() {
                        Some(repeat) => sleep(repeat.wait.unwrap_or(PAUSE).min(PAUSE_MAX)).await,
                        None => return Report::Answered { request_id, error: Some(error) },
                    },
                }
            }
            let error = client.call(answer).await.err();
            Report::Answered { request_id, error }
        });
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
