//! Owns one prompt from its sending to its end: follows the session over every loss of the server, stops on signals and
//! on time, and gives every way out its exit code.
//! Tested in `tui/tests/it`.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use gent_client::{CallError, Connector, Followed, Link, follow};
use gent_protocol::{EventEnvelope, RpcError, SessionSnapshot};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::answering::send_answer;
use crate::course::Course;
use crate::jobs::{Jobs, Report};
use crate::keyboard::Keyboard;
use crate::lines::Line;
use crate::open::{Opened, call_error, follow_error, open};
use crate::outcome::{RunError, RunOutcome};
use crate::output::Output;
use crate::request::{Grant, OutputFormat, RunRequest};
use crate::sanitize::Sanitizer;
use crate::signals::Interrupt;
use crate::stopping::{Leave, Stop, Stopping};
use crate::turn::{Effect, Turn};

/// How long the events of a turn may lag behind the answer that says it has ended.
const SETTLE: Duration = Duration::from_secs(10);
/// The same after a refusal: most refused prompts never become a turn.
const SETTLE_REFUSED: Duration = Duration::from_secs(1);
/// How long a prompt is sent again to a branch that takes no more; to a server that hands over.
const BUSY: Duration = Duration::from_secs(30);
const DRAINING: Duration = Duration::from_secs(90);
/// The pause before it is sent again, where the server names none.
const AGAIN: Duration = Duration::from_millis(250);

/// Runs one prompt to its end. Nothing but its outcome comes back: every failure is part of it.
pub async fn run<C, O>(
    connector: C,
    request: &RunRequest,
    interrupts: &mut mpsc::Receiver<Interrupt>,
    keyboard: &mut Keyboard,
    output: &mut O,
) -> RunOutcome
where
    C: Connector + 'static,
    O: Output,
{
    let begin = Instant::now();
    let mut runner = Runner {
        request,
        interrupts,
        keyboard,
        output,
        jobs: Jobs::default(),
        sanitizer: Sanitizer::default(),
        begin,
        deadline: request.timeout.map(|limit| begin + limit),
        stopping: Stopping::new(request.format == OutputFormat::Text),
        settle_at: None,
        refused_since: None,
        refusal: None,
        is_never_admitted: false,
        is_model_asked: false,
        is_blocked_told: false,
        lines: Vec::new(),
        shown_error: None,
    };
    let (course, leave) = match runner.open(Link::new(connector)).await {
        Err(leave) => (None, leave),
        Ok((link, opened)) => {
            let mut course = Course::new(request, &opened);
            let leave = match runner.follow(link, &mut course, opened).await {
                Err(leave) => leave,
                Ok(never) => match never {},
            };
            let is_discarded = runner.is_never_admitted && course.discard(request).await;
            (if is_discarded { None } else { Some(course) }, leave)
        }
    };
    runner.finish(course, leave).await
}

/// A run on its way.
pub(crate) struct Runner<'a, O> {
    pub(crate) request: &'a RunRequest,
    pub(crate) interrupts: &'a mut mpsc::Receiver<Interrupt>,
    pub(crate) keyboard: &'a mut Keyboard,
    pub(crate) output: &'a mut O,
    pub(crate) jobs: Jobs,
    pub(crate) sanitizer: Sanitizer,
    pub(crate) begin: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) stopping: Stopping,
    pub(crate) settle_at: Option<Instant>,
    pub(crate) refused_since: Option<Instant>,
    pub(crate) refusal: Option<RunError>,
    /// The prompt was refused for good and never stored.
    pub(crate) is_never_admitted: bool,
    pub(crate) is_model_asked: bool,
    /// How blocked calls are allowed has been said.
    pub(crate) is_blocked_told: bool,
    /// Lines that wait for the answer to end its own.
    pub(crate) lines: Vec<Line>,
    pub(crate) shown_error: Option<String>,
}

pub(crate) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

impl<O: Output> Runner<'_, O> {
    /// Comes to the session. Nothing has been sent yet, so any interrupt leaves at once.
    async fn open<C: Connector>(&mut self, mut link: Link<C>) -> Result<(Link<C>, Opened), Leave> {
        let opened = tokio::select! {
            biased;
            Some(interrupt) = self.interrupts.recv() => {
                self.stopping.note(Stop::of(interrupt));
                return Err(Leave::Left);
            }
            () = at(self.deadline) => {
                self.stopping.note(Stop::Timeout);
                return Err(Leave::Left);
            }
            opened = open(&mut link, self.request) => opened.map_err(Leave::Failed)?,
        };
        if let Some(snapshot) = &opened.snapshot {
            self.name_model(snapshot);
            self.flush_lines(None).await;
        }
        Ok((link, opened))
    }

    async fn follow<C: Connector + 'static>(
        &mut self,
        link: Link<C>,
        course: &mut Course,
        opened: Opened,
    ) -> Result<Infallible, Leave> {
        self.is_model_asked = opened.snapshot.is_some();
        let mut following = follow(link, opened.from);
        if let Some(question) = opened.snapshot.as_ref().and_then(|snapshot| snapshot.question.as_ref()) {
            self.present(question, course).await?;
        }
        loop {
            tokio::select! {
                biased;
                Some(interrupt) = self.interrupts.recv() => {
                    self.stopping.hear(interrupt, &mut self.jobs, course)?;
                }
                () = at(self.stopping.leave_at()) => return Err(Leave::Left),
                () = at(self.settle_at) => return Err(Leave::Failed(self.unsettled())),
                () = at(self.deadline), if !self.stopping.is_begun() => {
                    self.stopping.begin(Stop::Timeout, &mut self.jobs, course);
                }
                report = self.jobs.next() => self.take_report(report, course).await?,
                typed = self.keyboard.next(), if course.asking.is_open() => self.take_typed(typed, course).await?,
                followed = following.next() => match followed {
                    Some(Ok(followed)) => self.take(followed, course).await?,
                    Some(Err(error)) => {
                        return Err(Leave::Failed(follow_error(error, &course.send.session_id)));
                    }
                    None => return Err(Leave::Failed(self.unsettled())),
                },
            }
            self.hint(course).await?;
            self.flush_lines(Some(&course.turn)).await;
        }
    }

    async fn take(&mut self, followed: Followed, course: &mut Course) -> Result<(), Leave> {
        match followed {
            Followed::Linked(client) => {
                course.connection += 1;
                course.client = Some(client.clone());
                self.jobs.send(client.clone(), course.connection, course.send.clone(), Duration::ZERO);
                send_answer(&mut self.jobs, course);
                if self.stopping.is_begun() {
                    self.jobs.cancel(client.clone(), course.cancel.clone());
                }
                if !std::mem::replace(&mut self.is_model_asked, true) {
                    self.jobs.ask_model(client, course.snapshot.clone());
                }
                Ok(())
            }
            Followed::Event { envelope, raw } => self.take_event(&envelope, &raw, course).await,
            Followed::Unknown { tag, .. } => {
                let text = format!("an event of an unknown kind was skipped: {tag}");
                self.lines.push(Line::Notice(text));
                Ok(())
            }
            Followed::Synchronized { .. } => Ok(()),
        }
    }

    async fn take_event(
        &mut self,
        envelope: &EventEnvelope,
        raw: &RawValue,
        course: &mut Course,
    ) -> Result<(), Leave> {
        let is_text = self.request.format == OutputFormat::Text;
        self.hear_question(&envelope.event, course).await?;
        for effect in course.turn.apply(envelope) {
            match effect {
                Effect::Mine if self.request.format == OutputFormat::StreamJson => {
                    self.print(&format!("{}\n", raw.get()), course).await?;
                }
                Effect::Answer(text) if self.is_streaming() => {
                    let text = self.sanitizer.strip(&text);
                    self.print(&text, course).await?;
                }
                Effect::Line(mut line) if is_text => {
                    if let Line::Error(text) = &line {
                        self.shown_error = Some(text.clone());
                    }
                    // Somebody who was asked knows why.
                    if self.request.grant == Grant::Nothing
                        && self.keyboard.is_ended()
                        && !self.is_blocked_told
                    {
                        self.is_blocked_told = line.name_approval();
                    }
                    self.lines.push(line);
                }
                Effect::Mine | Effect::Answer(_) | Effect::Line(_) => {}
            }
        }
        if course.turn.ended().is_some() { Err(Leave::Ended) } else { Ok(()) }
    }

    async fn take_report(&mut self, report: Report, course: &mut Course) -> Result<(), Leave> {
        match report {
            // Its connection is gone; the prompt has been sent again on the next one.
            Report::Sent { connection, .. } if connection != course.connection => Ok(()),
            Report::Sent { outcome: Ok(_), .. } => {
                self.settle_at.get_or_insert(Instant::now() + SETTLE);
                Ok(())
            }
            Report::Sent { outcome: Err(error), connection } => {
                if error.is_closed() {
                    return Ok(());
                }
                let failure = call_error(&error);
                if let (Some(repeat), Some(client)) = (error.repeat_after(), course.client.clone()) {
                    let since = *self.refused_since.get_or_insert(Instant::now());
                    let limit = if repeat.draining { DRAINING } else { BUSY };
                    if since.elapsed() >= limit {
                        return Err(Leave::Failed(failure));
                    }
                    let pause = repeat.wait.unwrap_or(AGAIN).clamp(AGAIN, Duration::from_secs(2));
                    self.jobs.send(client, connection, course.send.clone(), pause);
                    return Ok(());
                }
                if !course.turn.is_started() && never_admitted(&error) {
                    // What was tried before may have been stored after all.
                    self.is_never_admitted = self.refused_since.is_none();
                    return Err(Leave::Failed(failure));
                }
                // A turn that failed refuses its prompt as well; its own end says more.
                self.refusal = Some(failure);
                self.settle_at.get_or_insert(Instant::now() + SETTLE_REFUSED);
                Ok(())
            }
            Report::Cancelled(outcome) => {
                match outcome {
                    Ok(_) => self.stopping.acknowledge(),
                    Err(error) if error.is_closed() => {}
                    Err(error) => {
                        self.lines.push(Line::Notice(format!("the turn could not be cancelled: {error}")));
                    }
                }
                Ok(())
            }
            Report::Answered { request_id, error } => self.take_answered(&request_id, error, course).await,
            Report::Model(snapshot) => {
                if let Ok(snapshot) = *snapshot {
                    self.name_model(&snapshot);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn name_model(&mut self, snapshot: &SessionSnapshot) {
        if let Some(model) = &snapshot.resolved_model_id {
            let reason = snapshot.resolved_model_reason.clone();
            self.lines.push(Line::Model { id: model.to_string(), reason });
        }
    }

    fn unsettled(&mut self) -> RunError {
        self.refusal.take().unwrap_or_else(|| {
            RunError::new("ProtocolError", "the server says that the turn has ended and shows no end of it")
        })
    }

    /// Writes to standard output. A reader that is behind does not keep an interrupt from being heard.
    async fn print(&mut self, text: &str, course: &Course) -> Result<(), Leave> {
        if text.is_empty() {
            return Ok(());
        }
        let Self { output, interrupts, jobs, stopping, deadline, .. } = self;
        let mut writing = pin!(output.answer(text));
        let written = loop {
            tokio::select! {
                biased;
                written = &mut writing => break written,
                Some(interrupt) = interrupts.recv() => stopping.hear(interrupt, jobs, course)?,
                () = at(stopping.leave_at()) => return Err(Leave::Left),
                () = at(*deadline), if !stopping.is_begun() => stopping.begin(Stop::Timeout, jobs, course),
            }
        };
        outcome_of(written)
    }

    /// Says what the first Ctrl-C did. Whoever pressed it does not wait for the end of a line.
    async fn hint(&mut self, course: &mut Course) -> Result<(), Leave> {
        let Some(text) = self.stopping.take_hint() else { return Ok(()) };
        self.end_answer_line(course).await?;
        self.lines.push(Line::Notice(text.to_owned()));
        Ok(())
    }

    /// Ends a line that the shown answer left open.
    pub(crate) async fn end_answer_line(&mut self, course: &mut Course) -> Result<(), Leave> {
        if self.is_streaming() {
            let end = course.turn.end_line();
            self.print(&end, course).await?;
        }
        Ok(())
    }

    /// True where the answer is shown as it comes.
    pub(crate) fn is_streaming(&self) -> bool {
        self.request.format == OutputFormat::Text && self.request.terminals.stdout
    }

    /// Shows the lines that wait, unless the answer stands in the middle of one of its own.
    pub(crate) async fn flush_lines(&mut self, turn: Option<&Turn>) {
        if self.is_streaming() && turn.is_some_and(Turn::is_line_open) {
            return;
        }
        for line in std::mem::take(&mut self.lines) {
            let text = line.render(self.request.terminals.dim_stderr);
            self.output.note(&text).await;
        }
    }
}

/// What became of a write to standard output.
pub(crate) fn outcome_of(written: std::io::Result<()>) -> Result<(), Leave> {
    match written {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Leave::Unread),
        Err(error) => {
            let message = "standard output could not be written: check what it is redirected to";
            let mut failure = RunError::new("OutputError", message);
            failure.causes.push(error.to_string());
            Err(Leave::Failed(failure))
        }
    }
}

/// True for refusals after which no turn can follow: the prompt was never stored.
pub(crate) fn never_admitted(error: &CallError) -> bool {
    match error {
        CallError::Rpc(error) => match error {
            RpcError::ParseError { .. }
            | RpcError::InvalidRequest { .. }
            | RpcError::MethodNotFound { .. }
            | RpcError::InvalidParams { .. }
            | RpcError::NotFoundError { .. }
            | RpcError::InvalidStateError { .. }
            | RpcError::WorkspaceHeaderError { .. }
            | RpcError::LimitExceeded { .. }
            | RpcError::Terminated { .. } => true,
            RpcError::InternalError { .. }
            | RpcError::SessionDepthLimitError { .. }
            | RpcError::StorageError { .. }
            | RpcError::EventStoreError { .. }
            | RpcError::SessionRuntimeError { .. }
            | RpcError::ProviderError { .. }
            | RpcError::ProviderAuthError { .. }
            | RpcError::DriverError { .. }
            | RpcError::ConfigLoadError { .. }
            | RpcError::ConfigWriteError { .. }
            | RpcError::ExtensionProtocolError { .. }
            | RpcError::InteractionRequestMismatchError { .. }
            | RpcError::InteractionDecisionConflictError { .. }
            | RpcError::Busy { .. }
            | RpcError::CursorInvalid { .. }
            | RpcError::Draining { .. }
            | RpcError::NotOwner { .. }
            | RpcError::WouldWait { .. }
            | RpcError::Interrupted { .. }
            | RpcError::OutcomeUnknown { .. } => false,
        },
        CallError::TooLarge { .. } | CallError::Protocol { .. } => true,
        CallError::UnknownRpc(_) | CallError::Closed { .. } => false,
    }
}
