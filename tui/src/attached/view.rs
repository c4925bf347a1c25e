//! Owns how a session reads as plain text: where it stands when somebody attaches, then event by event.
//! Pure: text gathers here until the loop writes it. Nothing in it can steer a terminal. Tested in `view/tests.rs`.

use std::collections::{HashMap, HashSet};

use gent_protocol::{
    AgentEvent, BranchId, EventEnvelope, Message, MessageId, MessageKind, Millis, QueueEntry, QueueSnapshot,
    Role, RuntimeState, SessionSnapshot, ToolCallId, Usage,
};

use crate::answer::Answer;
use crate::lines::Line;
use crate::sanitize::{Sanitizer, one_line};

#[cfg(test)]
mod tests;

/// Messages shown of what was said before somebody attached.
const EARLIER: usize = 6;
/// The most lines and characters of an earlier message; of a message somebody sends now.
const EARLIER_LINES: usize = 12;
const SENT_LINES: usize = 40;
/// The most characters of one of their lines.
const LINE_CHARS: usize = 1000;

type Call = (Option<MessageId>, ToolCallId);

/// A branch as text.
#[derive(Debug)]
pub(crate) struct View {
    branch_id: BranchId,
    /// Quiet lines may be dimmed.
    dim: bool,
    out: String,
    answer: Answer,
    sanitizer: Sanitizer,
    running: Option<MessageId>,
    /// Calls of the turn that were started, each with the command it runs where it runs one.
    started: HashMap<Call, Option<String>>,
    settled: HashSet<Call>,
}

impl View {
    pub(crate) fn new(branch_id: BranchId, dim: bool) -> Self {
        Self {
            branch_id,
            dim,
            out: String::new(),
            answer: Answer::default(),
            sanitizer: Sanitizer::default(),
            running: None,
            started: HashMap::new(),
            settled: HashSet::new(),
        }
    }

    /// The turn that runs, as far as it was seen.
    pub(crate) fn running(&self) -> Option<&MessageId> {
        self.running.as_ref()
    }

    /// What gathered since the last time.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: &Line) {
        self.end_line();
        self.out.push_str(&line.render(self.dim));
        self.out.push('\n');
    }

    /// Adds a line that tells something.
    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.line(&Line::Notice(text.into()));
    }

    /// Adds lines that are harmless already.
    pub(crate) fn block(&mut self, text: &str) {
        self.end_line();
        self.out.push_str(text);
    }

    /// Somebody typed a line here: its newline has moved the terminal to the next one.
    pub(crate) fn line_typed(&mut self) {
        let _moved = self.answer.end_line();
    }

    /// Shows where the branch stands.
    pub(crate) fn open(&mut self, snapshot: &SessionSnapshot) {
        let name = snapshot.name.as_deref().unwrap_or("a session without a name");
        self.notice(format!("{name} (session {})", snapshot.session_id));
        if let Some(model) = &snapshot.resolved_model_id {
            let reason = snapshot.resolved_model_reason.clone();
            self.line(&Line::Model { id: model.to_string(), reason });
        }
        let shown = |message: &&Message| is_said(message) && !message.text().trim().is_empty();
        let said: Vec<&Message> = snapshot.messages.iter().filter(shown).collect();
        let n_left_out = said.len().saturating_sub(EARLIER);
        if snapshot.truncated || n_left_out > 0 {
            self.notice("earlier messages are not shown");
        }
        for message in said.into_iter().skip(n_left_out) {
            match message.role {
                Role::Assistant => self.push_lines(&message.text(), ("", ""), EARLIER_LINES),
                Role::User | Role::System | Role::Tool => self.push_sent(message, EARLIER_LINES),
            }
        }
        let (queue, message_id, what) = match &snapshot.runtime {
            RuntimeState::Idle { queue } => (queue, None, "no turn runs"),
            RuntimeState::Running { queue, message_id, .. } => (queue, Some(message_id), "a turn runs"),
            RuntimeState::WaitingForInteraction { queue, message_id, .. } => {
                (queue, Some(message_id), "a turn waits for an answer")
            }
        };
        self.running = message_id.cloned();
        self.notice(what);
        self.push_queue(queue);
        if let Some(streaming) = &snapshot.streaming {
            // The next delta goes on where this text ends.
            self.answer.start(streaming.step, &streaming.run);
            let text = self.answer.delta(streaming.step, &streaming.run, 0, &streaming.text);
            self.push_answer(&text);
        }
    }

    /// Takes the next event of the session.
    pub(crate) fn apply(&mut self, envelope: &EventEnvelope) {
        let event = &envelope.event;
        if event.branch_id().is_some_and(|branch_id| *branch_id != self.branch_id) {
            return;
        }
        match event {
            AgentEvent::MessageReceived { message } => self.take_message(message),
            AgentEvent::StreamStarted { message_id, step, run, .. } => {
                self.running = Some(message_id.clone());
                let (end, is_repeat) = self.answer.start(*step, run);
                self.push_answer(&end);
                self.sanitizer = Sanitizer::default();
                if is_repeat {
                    self.notice("the answer was cut off and begins again");
                }
            }
            AgentEvent::StreamChunk { step, run, offset, chunk, .. } => {
                let text = self.answer.delta(*step, run, *offset, chunk);
                self.push_answer(&text);
            }
            AgentEvent::ProviderRetrying { attempt, max_attempts, delay_ms, error, .. } => {
                self.line(&Line::Retrying {
                    attempt: *attempt,
                    max_attempts: *max_attempts,
                    delay: *delay_ms,
                    error: error.clone(),
                });
            }
            AgentEvent::ToolCallStarted { tool_call_id, assistant_message_id, input, .. } => {
                let command = input.as_ref().and_then(|input| input.get("command")?.as_str());
                let call = (assistant_message_id.clone(), tool_call_id.clone());
                self.started.insert(call, command.map(str::to_owned));
            }
            AgentEvent::ToolCallSucceeded {
                tool_call_id, tool_name, summary, assistant_message_id, ..
            } => {
                if let Some(command) = self.settle(assistant_message_id.as_ref(), tool_call_id) {
                    let (name, summary) = (tool_name.clone(), summary.clone());
                    self.line(&Line::ToolDone { name, command, summary });
                }
            }
            AgentEvent::ToolCallFailed { tool_call_id, tool_name, summary, assistant_message_id, .. } => {
                if let Some(command) = self.settle(assistant_message_id.as_ref(), tool_call_id) {
                    let (name, summary) = (tool_name.clone(), summary.clone());
                    self.line(&Line::ToolFailed { name, command, summary });
                }
            }
            AgentEvent::InteractionResolved { approved, notes, edited_content, dismissed, .. } => {
                self.push_resolved(*approved, notes.as_deref(), edited_content.is_some(), *dismissed);
            }
            AgentEvent::ErrorOccurred { error, notice, .. } => {
                let error = error.clone();
                self.line(&if *notice { Line::Notice(error) } else { Line::Error(error) });
            }
            AgentEvent::TurnCompleted {
                duration_ms,
                interrupted,
                stream_failed,
                unanswered,
                usage,
                cost_usd,
                ..
            } => {
                let how = match (interrupted, stream_failed, unanswered) {
                    (true, _, _) => "stopped",
                    (false, true, _) => "failed",
                    (false, false, true) => "ended without an answer",
                    (false, false, false) => "answered",
                };
                self.notice(format!("{how} after {}", spent(*duration_ms, usage.as_ref(), *cost_usd)));
                self.running = None;
                self.started.clear();
                self.settled.clear();
            }
            AgentEvent::SessionNameUpdated { name, .. } => {
                self.notice(format!("the session is called {name}"))
            }
            AgentEvent::SessionSettingsUpdated { model_id, .. } => match model_id {
                Some(model_id) => self.notice(format!("the session's model is {model_id}")),
                None => self.notice("the session has no model of its own"),
            },
            // A question is drawn by whoever asks it; the others change nothing that is shown here.
            AgentEvent::InteractionPresented { .. }
            | AgentEvent::SessionStarted { .. }
            | AgentEvent::ModelContextProjected { .. }
            | AgentEvent::StreamEnded { .. }
            | AgentEvent::BranchCreated { .. }
            | AgentEvent::BranchSwitched { .. }
            | AgentEvent::ExtensionStateChanged { .. }
            | AgentEvent::StreamSynchronized { .. } => {}
        }
    }

    fn take_message(&mut self, message: &Message) {
        match message.role {
            Role::Assistant => {
                let text = self.answer.message(&message.text());
                self.push_answer(&text);
                self.sanitizer = Sanitizer::default();
            }
            Role::User => {
                if !message.is_runtime() {
                    self.running = Some(message.id.clone());
                }
                if is_said(message) {
                    self.push_sent(message, SENT_LINES);
                }
            }
            Role::System => self.notice(message.text()),
            Role::Tool => {}
        }
    }

    /// The command of a call that ends now; none when it has ended before.
    fn settle(&mut self, message_id: Option<&MessageId>, call_id: &ToolCallId) -> Option<Option<String>> {
        let call = (message_id.cloned(), call_id.clone());
        let command = self.started.remove(&call).flatten();
        self.settled.insert(call).then_some(command)
    }

    fn push_sent(&mut self, message: &Message, max_lines: usize) {
        let first = match message.kind {
            MessageKind::Regular => "> ",
            MessageKind::Interjection => "> now: ",
        };
        self.push_lines(&message.text(), (first, "  "), max_lines);
    }

    /// The lines of a text behind a mark; what is left out is counted.
    fn push_lines(&mut self, text: &str, (first, other): (&str, &str), max_lines: usize) {
        self.end_line();
        let text = Sanitizer::default().strip(text.trim_end());
        for (n, line) in text.split('\n').take(max_lines).enumerate() {
            self.out.push_str(if n == 0 { first } else { other });
            self.out.extend(line.chars().take(LINE_CHARS));
            if line.chars().nth(LINE_CHARS).is_some() {
                self.out.push('…');
            }
            self.out.push('\n');
        }
        let n_more = text.split('\n').skip(max_lines).count();
        if n_more > 0 {
            self.notice(format!("… {n_more} more lines"));
        }
    }

    fn push_queue(&mut self, queue: &QueueSnapshot) {
        for entry in queue.steering.iter().chain(&queue.follow_up) {
            let content = match entry {
                QueueEntry::Steering { content, .. } | QueueEntry::FollowUp { content, .. } => content,
            };
            self.notice(format!("waits: {}", one_line(content, 200)));
        }
    }

    fn push_resolved(&mut self, approved: bool, notes: Option<&str>, is_edited: bool, dismissed: bool) {
        if dismissed {
            self.notice("the question was closed without an answer");
            return;
        }
        let answer = if approved { "yes" } else { "no" };
        let edited = if is_edited { ", with a changed text" } else { "" };
        let notes = notes.map_or_else(String::new, |notes| format!(": {notes}"));
        self.notice(format!("the answer is {answer}{edited}{notes}"));
    }

    fn push_answer(&mut self, text: &str) {
        self.out.push_str(&self.sanitizer.strip(text));
    }

    fn end_line(&mut self) {
        let end = self.answer.end_line();
        self.out.push_str(&end);
    }
}

/// False for what only the model is told.
fn is_said(message: &Message) -> bool {
    let is_for_model = message.metadata.as_ref().is_some_and(|metadata| metadata.runtime_type().is_some());
    matches!(message.role, Role::User | Role::Assistant) && !is_for_model
}

/// What a turn took.
fn spent(duration: Millis, usage: Option<&Usage>, cost_usd: Option<f64>) -> String {
    let mut text = format!("{:.1} s", duration.0.max(0) as f64 / 1000.0);
    if let Some(usage) = usage {
        text.push_str(&format!(", {} tokens in, {} out", usage.input_tokens, usage.output_tokens));
    }
    if let Some(cost_usd) = cost_usd {
        text.push_str(&format!(", ${cost_usd:.4}"));
    }
    text
}
