//! Owns one request of a step: sending it, trying again while nothing was seen, and letting text out as it comes.
//! Never stores the answer. Tested in `actors/tests/it/` and end to end (A.7, D7, D8, G5, G6, G7, G14).

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use gent_extension_api::{FailureKind, FinishReason, ModelRequest, ModelStream, ProviderFailure};
use gent_protocol::{AgentEvent, MessageId, Millis};
use gent_storage::{StoreError, operation_reserve};

use super::delta::{Delta, DeltaBuffer};
use super::failure::TurnFailure;
use super::fold::Fold;
use super::prepare::Turn;
use crate::branch::Rank;

/// How a stream ended.
pub(crate) enum StreamEnd {
    /// By itself.
    Settled(FinishReason),
    /// The turn was stopped.
    Interrupted,
    /// It broke, or the provider refused.
    Failed(ProviderFailure),
}

/// An answer and how it ended.
pub(crate) struct Streamed {
    pub(crate) fold: Fold,
    pub(crate) end: StreamEnd,
}

/// What came of sending a request; `None` when the turn was stopped meanwhile.
pub(crate) type Opened = Option<Result<ModelStream, ProviderFailure>>;

/// The durable operation that counts the requests of a turn, where its agent bounds them.
const MODEL_ATTEMPT: &str = "turn.model-attempt";

/// Sends a request, where the turn may make one more.
pub(crate) async fn open(turn: &Turn, request: &ModelRequest) -> Result<Opened, TurnFailure> {
    if !may_ask(turn).await? {
        let message = "model attempt budget exhausted: the turn may make no further request".to_owned();
        return Ok(Some(Err(ProviderFailure::new(FailureKind::Refused, message))));
    }
    Ok(turn.job.latch.run_until_cancelled(turn.model.stream(request)).await)
}

/// Counts a request before it is sent, so that one whose answer a death cut is counted too.
async fn may_ask(turn: &Turn) -> Result<bool, TurnFailure> {
    let Some(max) = turn.agent.max_model_attempts else { return Ok(true) };
    let (key, at) = (turn.job.key.clone(), turn.job.services.env.now());
    let name = format!("{}:{}", key.branch, turn.job.row.message_id);
    let write = turn.job.writer.write(Rank::Step, "turn.modelAttempt", move |txn| {
        operation_reserve(txn, &key.workspace, MODEL_ATTEMPT, &name, &key.session, &key.branch, max, at)
    });
    Ok(write.await?)
}

/// Follows the answer to a request to its end, and sends the request again while nothing of an answer was seen.
pub(crate) async fn stream(
    turn: &Turn,
    step: u32,
    assistant: &MessageId,
    request: &ModelRequest,
    mut opened: Opened,
) -> Result<Streamed, TurnFailure> {
    let policy = turn.driver.retry_policy();
    let mut outlet = Outlet::new(turn, step);
    let mut attempt = 1;
    loop {
        let mut fold = Fold::new(assistant.clone());
        let end = one_attempt(turn, opened, &mut fold, &mut outlet).await?;
        outlet.settle().await?;
        let StreamEnd::Failed(failure) = end else {
            return Ok(Streamed { fold, end });
        };
        let delay = policy.delay(attempt, &failure, turn.job.services.env.uniform());
        let Some(delay) = delay.filter(|_| !fold.is_observable()) else {
            return Ok(Streamed { fold, end: StreamEnd::Failed(failure) });
        };
        announce_retry(turn, attempt, policy.max_attempts, delay, &failure).await?;
        tokio::select! {
            biased;
            () = turn.job.latch.cancelled() => {
                return Ok(Streamed { fold, end: StreamEnd::Interrupted });
            }
            () = tokio::time::sleep(delay) => {}
        }
        attempt += 1;
        opened = open(turn, request).await?;
    }
}

async fn one_attempt(
    turn: &Turn,
    opened: Opened,
    fold: &mut Fold,
    outlet: &mut Outlet<'_>,
) -> Result<StreamEnd, TurnFailure> {
    let latch = &turn.job.latch;
    let mut answer: ModelStream = match opened {
        Some(Ok(answer)) => answer,
        Some(Err(failure)) => return Ok(StreamEnd::Failed(failure)),
        None => return Ok(StreamEnd::Interrupted),
    };
    loop {
        let piece = tokio::select! {
            biased;
            () = latch.cancelled() => return Ok(StreamEnd::Interrupted),
            moved = outlet.move_on() => {
                moved?;
                continue;
            }
            piece = answer.next() => piece,
        };
        match piece {
            Some(Ok(piece)) => {
                if let gent_extension_api::StreamPart::Text { text } = &piece {
                    outlet.push(text);
                }
                if let Err(failure) = fold.push(piece) {
                    return Ok(StreamEnd::Failed(failure));
                }
                if let Some(reason) = fold.finish() {
                    return Ok(StreamEnd::Settled(reason));
                }
            }
            Some(Err(failure)) => return Ok(StreamEnd::Failed(failure)),
            None => {
                let message = format!("the answer of {} ended without saying so", turn.route.model);
                return Ok(StreamEnd::Failed(ProviderFailure::new(FailureKind::Transient, message)));
            }
        }
    }
}

async fn announce_retry(
    turn: &Turn,
    attempt: u32,
    max_attempts: u32,
    delay: Duration,
    failure: &ProviderFailure,
) -> Result<(), TurnFailure> {
    let event = AgentEvent::ProviderRetrying {
        session_id: turn.job.key.session.clone(),
        branch_id: turn.job.key.branch.clone(),
        attempt,
        max_attempts,
        delay_ms: Millis(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)),
        error: failure.message.clone(),
    };
    let at = turn.job.services.env.now();
    turn.job.writer.write(Rank::Step, "turn.retry", move |txn| txn.append(&event, at)).await?;
    Ok(())
}

/// The way out of a step's text.
struct Outlet<'a> {
    turn: &'a Turn,
    step: u32,
    buffer: DeltaBuffer,
    writing: Option<BoxFuture<'static, Result<(), StoreError>>>,
}

impl<'a> Outlet<'a> {
    fn new(turn: &'a Turn, step: u32) -> Self {
        Self { turn, step, buffer: DeltaBuffer::default(), writing: None }
    }

    fn push(&mut self, text: &str) {
        if !text.is_empty() {
            self.buffer.push(text);
            self.let_out();
        }
    }

    fn let_out(&mut self) {
        let now = self.turn.job.services.env.monotonic();
        if let Some(delta) = self.buffer.take(now) {
            self.writing = Some(self.write(delta));
        }
    }

    fn write(&self, delta: Delta) -> BoxFuture<'static, Result<(), StoreError>> {
        let job = &self.turn.job;
        let event = AgentEvent::StreamChunk {
            session_id: job.key.session.clone(),
            branch_id: job.key.branch.clone(),
            message_id: job.row.message_id.clone(),
            step: self.step,
            run: job.row.run.clone(),
            offset: delta.offset,
            chunk: delta.text,
        };
        let (writer, at) = (job.writer.clone(), job.services.env.now());
        Box::pin(async move {
            writer.write(Rank::Delta, "turn.delta", move |txn| txn.append(&event, at)).await.map(drop)
        })
    }

    /// Ends when the write in flight is over, or when waiting text is due and on its way; never while there is
    /// neither. Dropping the future loses nothing.
    async fn move_on(&mut self) -> Result<(), TurnFailure> {
        match &mut self.writing {
            Some(writing) => {
                let result = writing.await;
                self.writing = None;
                self.buffer.written();
                result?;
            }
            None => match self.buffer.due_in(self.turn.job.services.env.monotonic()) {
                None => std::future::pending().await,
                Some(wait) => tokio::time::sleep(wait).await,
            },
        }
        self.let_out();
        Ok(())
    }

    /// Waits for the write in flight: the answer that follows must not overtake it.
    async fn settle(&mut self) -> Result<(), TurnFailure> {
        if let Some(writing) = self.writing.take() {
            let result = writing.await;
            self.buffer.written();
            result?;
        }
        Ok(())
    }
}
