//! Owns the end of a run: the result object, what is written last, the exit code.
//! Tested in `tui/tests/it` against golden objects.

use std::time::Duration;

use gent_protocol::Millis;
use serde::Serialize;
use tokio::time::timeout;

use crate::course::Course;
use crate::lines::Line;
use crate::outcome::{Outcome, RunError, RunOutcome, RunResult};
use crate::output::Output;
use crate::request::OutputFormat;
use crate::run::{Runner, outcome_of};
use crate::sanitize::one_line;
use crate::stopping::{Leave, Stop};
use crate::turn::Turn;

/// How long a run that is left tries to write its result.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How long a run that has its answer waits to say which model gave it.
const MODEL: Duration = Duration::from_millis(500);

impl<O: Output> Runner<'_, O> {
    /// Shows how it ended and says so in an exit code.
    pub(crate) async fn finish(&mut self, mut course: Option<Course>, leave: Leave) -> RunOutcome {
        let (is_unread, is_left) = (matches!(leave, Leave::Unread), matches!(leave, Leave::Left));
        let mut result = self.result(course.as_ref(), leave);
        self.show_model(&result).await;
        let shown = if is_unread {
            Ok(())
        } else if is_left {
            // Whoever leaves does not wait for a reader that is stuck.
            timeout(LAST_WORDS, self.show(&result, course.as_mut())).await.unwrap_or(Ok(()))
        } else {
            self.show(&result, course.as_mut()).await
        };
        let is_shown = match shown {
            Ok(()) | Err(Leave::Unread | Leave::Left | Leave::Ended) => true,
            Err(Leave::Failed(error)) => {
                result.error = Some(error);
                false
            }
        };
        self.show_error(&result).await;
        let exit_code = match self.stopping.stop() {
            Some(Stop::CtrlC) => 130,
            Some(Stop::Terminate) => 143,
            Some(Stop::Timeout) => 1,
            None if result.outcome == Outcome::Answered && is_shown => 0,
            None => 1,
        };
        RunOutcome { exit_code, result }
    }

    fn result(&self, course: Option<&Course>, leave: Leave) -> RunResult {
        let turn = course.map(|course| &course.turn);
        let ended = turn.and_then(Turn::ended);
        let (outcome, error) = match (ended, leave) {
            (Some(ended), _) => (ended.outcome, self.error_of(ended.outcome, course)),
            (None, Leave::Failed(error)) => (Outcome::Failed, Some(error)),
            (None, Leave::Ended | Leave::Left | Leave::Unread) => {
                (Outcome::Interrupted, self.error_of(Outcome::Interrupted, course))
            }
        };
        let run_time = i64::try_from(self.begin.elapsed().as_millis()).unwrap_or(i64::MAX);
        RunResult {
            session_id: course.map(|course| course.send.session_id.clone()),
            branch_id: course.map(|course| course.send.branch_id.clone()),
            message_id: course.map(|course| course.message_id.clone()),
            outcome,
            text: turn.map_or_else(String::new, |turn| turn.text().to_owned()),
            steps: turn.map_or(0, Turn::n_steps),
            tool_calls: turn.map_or(0, Turn::n_tool_calls),
            usage: ended.and_then(|ended| ended.usage),
            cost_usd: ended.and_then(|ended| ended.cost_usd),
            duration_ms: ended.map_or(Millis(run_time), |ended| ended.duration),
            error,
        }
    }

    fn error_of(&self, outcome: Outcome, course: Option<&Course>) -> Option<RunError> {
        match outcome {
            Outcome::Answered => None,
            Outcome::Unanswered => Some(RunError::new(
                "Unanswered",
                "the turn ended without an answer: ask again, or ask for less",
            )),
            Outcome::Failed => {
                let tag = self.refusal.as_ref().map_or("SessionRuntimeError", |refusal| refusal.tag.as_str());
                let message = course.and_then(|course| course.turn.last_error()).unwrap_or("the turn failed");
                Some(RunError::new(tag, message))
            }
            Outcome::Interrupted => Some(self.interruption(course)),
        }
    }

    /// Why the turn was not waited for. That it was cancelled is said only where it is known.
    fn interruption(&self, course: Option<&Course>) -> RunError {
        let stop = self.stopping.stop();
        let seconds = self.request.timeout.unwrap_or_default().as_secs();
        let tag = if stop == Some(Stop::Timeout) { "Timeout" } else { "Interrupted" };
        let Some(course) = course else {
            let message = match stop {
                Some(Stop::Timeout) => format!("no session was ready within {seconds} s: nothing was sent"),
                Some(Stop::CtrlC | Stop::Terminate) | None => "left before the prompt was sent".to_owned(),
            };
            return RunError::new(tag, message);
        };
        let is_ended = course.turn.ended().is_some();
        let message = if is_ended || self.stopping.is_cancelled() {
            match stop {
                Some(Stop::Timeout) => format!("the turn took longer than {seconds} s and was cancelled"),
                Some(Stop::CtrlC | Stop::Terminate) => "the turn was cancelled".to_owned(),
                None => "the turn was cancelled from elsewhere".to_owned(),
            }
        } else {
            let session_id = &course.send.session_id;
            let why = match stop {
                Some(Stop::Timeout) => format!(" after {seconds} s"),
                Some(Stop::CtrlC | Stop::Terminate) | None => String::new(),
            };
            let rest = if self.request.keeps_session {
                format!("the turn may still run in session {session_id}")
            } else {
                format!("session {session_id} ends with its private server")
            };
            format!("left without waiting{why}; {rest}")
        };
        RunError::new(tag, message)
    }

    /// Tells the model once, even when the answer was faster.
    async fn show_model(&mut self, result: &RunResult) {
        if result.outcome != Outcome::Answered {
            return;
        }
        if let Ok(Some(snapshot)) = timeout(MODEL, self.jobs.model()).await {
            self.name_model(&snapshot);
        }
        self.flush_lines(None).await;
    }

    /// Writes what belongs on standard output at the end.
    async fn show(&mut self, result: &RunResult, course: Option<&mut Course>) -> Result<(), Leave> {
        match self.request.format {
            OutputFormat::Text if self.is_streaming() => {
                let end = course.map_or_else(String::new, |course| course.turn.end_line());
                self.write_last(&end).await
            }
            OutputFormat::Text => {
                let newline = if result.text.is_empty() || result.text.ends_with('\n') { "" } else { "\n" };
                self.write_last(&format!("{}{newline}", result.text)).await
            }
            OutputFormat::Json => self.write_last(&json_line(result, false)).await,
            OutputFormat::StreamJson => self.write_last(&json_line(result, true)).await,
        }
    }

    /// Writes what comes last: there is no turn left to cancel, so any interrupt leaves.
    async fn write_last(&mut self, text: &str) -> Result<(), Leave> {
        if text.is_empty() {
            return Ok(());
        }
        tokio::select! {
            biased;
            written = self.output.answer(text) => outcome_of(written),
            Some(interrupt) = self.interrupts.recv() => {
                self.stopping.note(Stop::of(interrupt));
                Err(Leave::Left)
            }
        }
    }

    async fn show_error(&mut self, result: &RunResult) {
        self.flush_lines(None).await;
        let Some(error) = &result.error else { return };
        if self.shown_error.as_ref() != Some(&error.message) {
            let line = Line::Error(error.message.clone()).render(false);
            self.output.note(&line).await;
        }
        if self.request.verbose {
            for cause in &error.causes {
                let line = format!("  because: {}", one_line(cause, 400));
                self.output.note(&line).await;
            }
        }
        if let Some(session_id) = &result.session_id
            && self.request.format == OutputFormat::Text
            && self.request.keeps_session
        {
            let text = format!("the session goes on with `gent run --session {session_id}`");
            let line = Line::Notice(text).render(self.request.terminals.dim_stderr);
            self.output.note(&line).await;
        }
    }
}

/// The result object as one line.
fn json_line(result: &RunResult, is_tagged: bool) -> String {
    #[derive(Serialize)]
    struct Tagged<'a> {
        r#type: &'static str,
        #[serde(flatten)]
        result: &'a RunResult,
    }
    let text = if is_tagged {
        serde_json::to_string(&Tagged { r#type: "result", result })
    } else {
        serde_json::to_string(result)
    };
    // Texts and finite numbers always encode.
    text.unwrap_or_else(|_unfit| "{}".to_owned()) + "\n"
}
