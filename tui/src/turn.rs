//! Owns what the events of one turn mean to a run: what is shown, what is counted, how it ended.
//! Pure: an event in, effects out. Never writes. Tested in `tui/tests/it`.

use std::collections::{HashMap, HashSet};

use gent_protocol::{
    AgentEvent, BranchId, EventEnvelope, Message, MessageId, Millis, Role, ToolCallId, Usage,
};

use crate::answer::Answer;
use crate::lines::Line;
use crate::outcome::Outcome;

/// What an event asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// The envelope belongs to the turn.
    Mine,
    /// Text for a terminal that streams the answer.
    Answer(String),
    /// A line on standard error.
    Line(Line),
}

/// How the turn ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) duration: Millis,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost_usd: Option<f64>,
}

/// One turn as its events tell it.
#[derive(Debug)]
pub(crate) struct Turn {
    message_id: MessageId,
    branch_id: BranchId,
    is_started: bool,
    ended: Option<Ended>,
    answer: Answer,
    text: String,
    n_steps: u32,
    last_step: Option<u32>,
    /// Calls that were started, each with the command it runs where it runs one.
    started_calls: HashMap<(Option<MessageId>, ToolCallId), Option<String>>,
    settled_calls: HashSet<(Option<MessageId>, ToolCallId)>,
    last_error: Option<String>,
}

impl Turn {
    /// The turn that `message_id` opens.
    pub(crate) fn new(message_id: MessageId, branch_id: BranchId) -> Self {
        Self {
            message_id,
            branch_id,
            is_started: false,
            ended: None,
            answer: Answer::default(),
            text: String::new(),
            n_steps: 0,
            last_step: None,
            started_calls: HashMap::new(),
            settled_calls: HashSet::new(),
            last_error: None,
        }
    }

    pub(crate) fn is_started(&self) -> bool {
        self.is_started
    }

    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    pub(crate) fn n_steps(&self) -> u32 {
        self.n_steps
    }

    pub(crate) fn n_tool_calls(&self) -> u32 {
        u32::try_from(self.started_calls.len()).unwrap_or(u32::MAX)
    }

    /// The last error that the turn may have ended on.
    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// The text of the last assistant message that has any; what has streamed so far while the turn has not ended.
    pub(crate) fn text(&self) -> &str {
        if self.ended.is_none() && !self.answer.collected().is_empty() {
            self.answer.collected()
        } else {
            &self.text
        }
    }

    /// True while the answer stands in the middle of a line.
    pub(crate) fn is_line_open(&self) -> bool {
        self.answer.is_line_open()
    }

    /// Ends a line that the answer left open.
    pub(crate) fn end_line(&mut self) -> String {
        self.answer.end_line()
    }

    /// Takes the next event of the session.
    pub(crate) fn apply(&mut self, envelope: &EventEnvelope) -> Vec<Effect> {
        let event = &envelope.event;
        if event.branch_id() != Some(&self.branch_id) || self.ended.is_some() {
            return Vec::new();
        }
        if let AgentEvent::MessageReceived { message } = event
            && message.id == self.message_id
        {
            self.is_started = true;
            return vec![Effect::Mine];
        }
        if !self.is_started || self.is_of_another_turn(event) {
            return Vec::new();
        }
        let mut effects = vec![Effect::Mine];
        self.fold(event, &mut effects);
        effects.retain(|effect| !matches!(effect, Effect::Answer(text) if text.is_empty()));
        effects
    }

    fn is_of_another_turn(&self, event: &AgentEvent) -> bool {
        match event {
            AgentEvent::StreamStarted { message_id, .. }
            | AgentEvent::StreamChunk { message_id, .. }
            | AgentEvent::StreamEnded { message_id, .. }
            | AgentEvent::TurnCompleted { message_id, .. } => *message_id != self.message_id,
            AgentEvent::SessionStarted { .. }
            | AgentEvent::MessageReceived { .. }
            | AgentEvent::ModelContextProjected { .. }
            | AgentEvent::ProviderRetrying { .. }
            | AgentEvent::ToolCallStarted { .. }
            | AgentEvent::ToolCallSucceeded { .. }
            | AgentEvent::ToolCallFailed { .. }
            | AgentEvent::InteractionPresented { .. }
            | AgentEvent::InteractionResolved { .. }
            | AgentEvent::ErrorOccurred { .. }
            | AgentEvent::SessionNameUpdated { .. }
            | AgentEvent::SessionSettingsUpdated { .. }
            | AgentEvent::BranchCreated { .. }
            | AgentEvent::BranchSwitched { .. }
            | AgentEvent::ExtensionStateChanged { .. }
            | AgentEvent::StreamSynchronized { .. } => false,
        }
    }

    fn fold(&mut self, event: &AgentEvent, effects: &mut Vec<Effect>) {
        match event {
            AgentEvent::StreamStarted { step, run, .. } => {
                if self.last_step != Some(*step) {
                    self.last_step = Some(*step);
                    self.n_steps += 1;
                }
                let (end, is_repeat) = self.answer.start(*step, run);
                effects.push(Effect::Answer(end));
                if is_repeat {
                    let text = "the answer was cut off and begins again";
                    effects.push(Effect::Line(Line::Notice(text.to_owned())));
                }
            }
            AgentEvent::StreamChunk { step, run, offset, chunk, .. } => {
                effects.push(Effect::Answer(self.answer.delta(*step, run, *offset, chunk)));
            }
            AgentEvent::MessageReceived { message } => self.take_message(message, effects),
            AgentEvent::ProviderRetrying { attempt, max_attempts, delay_ms, error, .. } => {
                effects.push(Effect::Line(Line::Retrying {
                    attempt: *attempt,
                    max_attempts: *max_attempts,
                    delay: *delay_ms,
                    error: error.clone(),
                }));
            }
            AgentEvent::ToolCallStarted { tool_call_id, assistant_message_id, input, .. } => {
                let command = input.as_ref().and_then(|input| input.get("command")?.as_str());
                let call = (assistant_message_id.clone(), tool_call_id.clone());
                self.started_calls.insert(call, command.map(str::to_owned));
            }
            AgentEvent::ToolCallSucceeded {
                tool_call_id, tool_name, summary, assistant_message_id, ..
            } => {
                let call = (assistant_message_id.clone(), tool_call_id.clone());
                if let Some(command) = self.settle(call) {
                    let (name, summary) = (tool_name.clone(), summary.clone());
                    effects.push(Effect::Line(Line::ToolDone { name, command, summary }));
                }
            }
            AgentEvent::ToolCallFailed { tool_call_id, tool_name, summary, assistant_message_id, .. } => {
                let call = (assistant_message_id.clone(), tool_call_id.clone());
                if let Some(command) = self.settle(call) {
                    let (name, summary) = (tool_name.clone(), summary.clone());
                    effects.push(Effect::Line(Line::ToolFailed { name, command, summary }));
                }
            }
            AgentEvent::ErrorOccurred { error, notice, .. } => {
                effects.push(Effect::Answer(self.answer.end_line()));
                effects.push(Effect::Line(if *notice {
                    Line::Notice(error.clone())
                } else {
                    self.last_error = Some(error.clone());
                    Line::Error(error.clone())
                }));
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
                let outcome = match (interrupted, stream_failed, unanswered) {
                    (true, _, _) => Outcome::Interrupted,
                    (false, true, _) => Outcome::Failed,
                    (false, false, true) => Outcome::Unanswered,
                    (false, false, false) => Outcome::Answered,
                };
                effects.push(Effect::Answer(self.answer.end_line()));
                let (duration, usage, cost_usd) = (*duration_ms, *usage, *cost_usd);
                self.ended = Some(Ended { outcome, duration, usage, cost_usd });
            }
            // Questions are the runner's business: also those of an earlier turn stand in its way.
            AgentEvent::InteractionPresented { .. }
            | AgentEvent::SessionStarted { .. }
            | AgentEvent::ModelContextProjected { .. }
            | AgentEvent::StreamEnded { .. }
            | AgentEvent::InteractionResolved { .. }
            | AgentEvent::SessionNameUpdated { .. }
            | AgentEvent::SessionSettingsUpdated { .. }
            | AgentEvent::BranchCreated { .. }
            | AgentEvent::BranchSwitched { .. }
            | AgentEvent::ExtensionStateChanged { .. }
            | AgentEvent::StreamSynchronized { .. } => {}
        }
    }

    /// The command of a call that ends now; none when it has ended before.
    fn settle(&mut self, call: (Option<MessageId>, ToolCallId)) -> Option<Option<String>> {
        let command = self.started_calls.get(&call).cloned().flatten();
        self.settled_calls.insert(call).then_some(command)
    }

    fn take_message(&mut self, message: &Message, effects: &mut Vec<Effect>) {
        if message.role != Role::Assistant {
            return;
        }
        let text = message.text();
        effects.push(Effect::Answer(self.answer.message(&text)));
        if !text.is_empty() {
            self.text = text;
        }
    }
}
