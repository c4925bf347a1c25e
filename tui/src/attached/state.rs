//! Owns what an attached client knows and does: prompts on their way, the open question, lines and signals, one by one.
//! Never reads or writes anything itself. Tested in `tui/tests/it/attached.rs`.

use std::time::Duration;

use gent_client::{CallError, FollowError, Followed};
use gent_protocol::{
    AgentEvent, BranchId, EventEnvelope, InteractionRequestId, MessageId, OpenQuestion, Question, RequestId,
    SendMessage, SessionId, SessionSnapshot, SteerCommand, client_message_id,
};
use tokio::time::Instant;

use super::calls::{Ask, Calls};
use super::view::View;
use super::{AttachRequest, End, exit_code};
use crate::asking::{Asking, Taken};
use crate::keyboard::{Order, Typed};
use crate::lines::Line;
use crate::open::follow_error;
use crate::outcome::RunError;
use crate::run::never_admitted;
use crate::signals::Interrupt;

/// A second Ctrl-C within this time leaves.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the events of a refused prompt may lag behind its refusal: a turn that failed tells more by itself.
const SETTLE: Duration = Duration::from_secs(1);
const HINT: &str =
    "a line is a prompt; `!now TEXT` speaks into the running turn; Ctrl-C stops it; /quit leaves";

/// A prompt that was sent from here and whose turn has not ended.
#[derive(Debug)]
struct Prompt {
    message_id: MessageId,
    /// Its turn has been seen.
    is_started: bool,
    /// It was refused with this; said when this time is over and no turn was seen.
    refusal: Option<(Instant, String)>,
}

/// One client of a branch.
pub(super) struct Attached<'a> {
    pub(super) request: &'a AttachRequest,
    pub(super) session_id: SessionId,
    branch_id: BranchId,
    pub(super) is_terminal: bool,
    pub(super) view: View,
    pub(super) calls: Calls,
    asking: Asking,
    prompts: Vec<Prompt>,
    /// A line of a pipe that waits until the turn has ended or asks something.
    pub(super) held: Option<String>,
    stopped_at: Option<Instant>,
    is_linked: bool,
    has_failed: bool,
    n_ids: u64,
}

impl<'a> Attached<'a> {
    pub(super) fn new(request: &'a AttachRequest, snapshot: &SessionSnapshot, is_terminal: bool) -> Self {
        let (session_id, branch_id) = (snapshot.session_id.clone(), snapshot.branch_id.clone());
        let mut attached = Self {
            request,
            view: View::new(branch_id.clone(), request.dim),
            asking: Asking::new(session_id.clone(), branch_id.clone(), &request.cwd),
            session_id,
            branch_id,
            is_terminal,
            calls: Calls::default(),
            prompts: Vec::new(),
            held: None,
            stopped_at: None,
            is_linked: false,
            has_failed: false,
            n_ids: 0,
        };
        attached.view.open(snapshot);
        if is_terminal {
            attached.view.notice(HINT);
        }
        if let Some(question) = &snapshot.question {
            attached.present(question);
        }
        attached
    }

    pub(super) fn take(&mut self, followed: Option<Result<Followed, FollowError>>) -> Result<(), End> {
        match followed {
            Some(Ok(Followed::Linked(client))) => {
                if std::mem::replace(&mut self.is_linked, true) {
                    self.view.notice("the connection to the server was lost and is back");
                }
                self.calls.link(client);
            }
            Some(Ok(Followed::Event { envelope, .. })) => self.take_event(&envelope),
            Some(Ok(Followed::Unknown { tag, .. })) => {
                self.view.notice(format!("an event of an unknown kind was skipped: {tag}"));
            }
            Some(Ok(Followed::Synchronized { .. })) => {}
            Some(Err(error)) => return Err(End::Failed(follow_error(error, &self.session_id))),
            None => {
                let message = format!("session {} is no longer followed: attach again", self.session_id);
                return Err(End::Failed(RunError::new("ProtocolError", message)));
            }
        }
        Ok(())
    }

    fn take_event(&mut self, envelope: &EventEnvelope) {
        self.view.apply(envelope);
        if envelope.event.branch_id() != Some(&self.branch_id) {
            return;
        }
        match &envelope.event {
            AgentEvent::InteractionPresented { request_id, text, metadata, .. } => {
                let question = Question { text: text.clone(), metadata: metadata.clone() };
                self.present(&OpenQuestion { request_id: request_id.clone(), question });
            }
            AgentEvent::InteractionResolved { request_id, .. } => {
                self.asking.resolve(request_id);
            }
            AgentEvent::MessageReceived { message } => {
                if let Some(prompt) = self.prompt_mut(&message.id) {
                    prompt.is_started = true;
                    prompt.refusal = None;
                }
            }
            AgentEvent::TurnCompleted { message_id, interrupted, stream_failed, unanswered, .. } => {
                self.asking.end();
                if self.forget_prompt(message_id) {
                    self.has_failed |= *interrupted || *stream_failed || *unanswered;
                }
            }
            AgentEvent::SessionStarted { .. }
            | AgentEvent::ModelContextProjected { .. }
            | AgentEvent::StreamStarted { .. }
            | AgentEvent::StreamChunk { .. }
            | AgentEvent::ProviderRetrying { .. }
            | AgentEvent::StreamEnded { .. }
            | AgentEvent::ToolCallStarted { .. }
            | AgentEvent::ToolCallSucceeded { .. }
            | AgentEvent::ToolCallFailed { .. }
            | AgentEvent::ErrorOccurred { .. }
            | AgentEvent::SessionNameUpdated { .. }
            | AgentEvent::SessionSettingsUpdated { .. }
            | AgentEvent::BranchCreated { .. }
            | AgentEvent::BranchSwitched { .. }
            | AgentEvent::ExtensionStateChanged { .. }
            | AgentEvent::StreamSynchronized { .. } => {}
        }
    }

    fn present(&mut self, question: &OpenQuestion) {
        if let Some(text) = self.asking.present(question) {
            self.view.block(&text);
        }
    }

    pub(super) fn take_report(&mut self, ask: Ask, outcome: Result<(), CallError>) {
        match (ask, outcome) {
            (Ask::Respond(answer), Ok(())) => self.asking.confirm(&answer.request_id),
            (Ask::Respond(answer), Err(error)) => self.reject(&answer.request_id, &error),
            // The events of its turn tell the rest.
            (Ask::Send(_) | Ask::Steer(_), Ok(())) => {}
            (Ask::Send(message), Err(error)) => {
                if let Some(request_id) = &message.request_id {
                    self.refuse(&client_message_id(request_id), &error);
                }
            }
            (Ask::Steer(SteerCommand::Cancel { .. }), Err(error)) => {
                self.view.notice(format!("the turn could not be stopped: {error}"));
            }
            (Ask::Steer(SteerCommand::Interject { .. }), Err(error)) => {
                self.has_failed = true;
                self.view.line(&Line::Error(format!("this was not said to the turn: {error}")));
            }
        }
    }

    fn reject(&mut self, request_id: &InteractionRequestId, error: &CallError) {
        let said = self.asking.reject(request_id, error);
        self.view.notice(said);
        if let Some(text) = self.asking.text() {
            self.view.block(&text);
        }
    }

    /// A prompt was refused. A turn that failed refuses its prompt as well: its events say why.
    fn refuse(&mut self, message_id: &MessageId, error: &CallError) {
        let wait = if never_admitted(error) { Duration::ZERO } else { SETTLE };
        if let Some(prompt) = self.prompt_mut(message_id)
            && !prompt.is_started
        {
            prompt.refusal = Some((Instant::now() + wait, format!("the prompt was not taken: {error}")));
        }
    }

    pub(super) fn settle_at(&self) -> Option<Instant> {
        self.prompts.iter().filter_map(|prompt| prompt.refusal.as_ref()).map(|(due, _)| *due).min()
    }

    pub(super) fn settle(&mut self) {
        let now = Instant::now();
        let is_due = |prompt: &mut Prompt| prompt.refusal.as_ref().is_some_and(|(due, _)| *due <= now);
        let refused: Vec<Prompt> = self.prompts.extract_if(.., is_due).collect();
        for (_, said) in refused.into_iter().filter_map(|prompt| prompt.refusal) {
            self.has_failed = true;
            self.view.line(&Line::Error(said));
        }
    }

    fn prompt_mut(&mut self, message_id: &MessageId) -> Option<&mut Prompt> {
        self.prompts.iter_mut().find(|prompt| prompt.message_id == *message_id)
    }

    fn forget_prompt(&mut self, message_id: &MessageId) -> bool {
        let n_before = self.prompts.len();
        self.prompts.retain(|prompt| prompt.message_id != *message_id);
        self.prompts.len() < n_before
    }

    /// Leaves; whoever wrote a pipe is told whether its prompts were answered.
    pub(super) fn leave(&self) -> End {
        End::Left(u8::from(self.has_failed && !self.is_terminal))
    }

    /// True while nothing of this client is on its way and no turn runs.
    pub(super) fn is_at_rest(&self) -> bool {
        self.held.is_none() && self.is_idle() && self.calls.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.view.running().is_none() && self.prompts.is_empty()
    }

    pub(super) fn may_take_held(&self) -> bool {
        self.is_idle() || self.asking.is_open()
    }

    pub(super) async fn take_typed(&mut self, typed: Typed) -> Result<(), End> {
        match typed {
            Typed::Line(line) => {
                if self.is_terminal {
                    self.view.line_typed();
                    return self.obey(&line).await;
                }
                match Order::of(&line, false) {
                    Order::Leave | Order::Now(_) => self.obey(&line).await,
                    // Whoever writes a pipe cannot see whether it answers or opens a turn: each line has its time.
                    Order::Nothing | Order::Answer(_) | Order::Prompt(_) => {
                        self.held = Some(line);
                        Ok(())
                    }
                }
            }
            Typed::Unusable(why) => {
                self.has_failed = true;
                self.view.line(&Line::Error(why.to_owned()));
                Ok(())
            }
            Typed::End => Ok(()),
        }
    }

    /// Does what a line asks for.
    pub(super) async fn obey(&mut self, line: &str) -> Result<(), End> {
        match Order::of(line, self.asking.is_open()) {
            Order::Nothing => Ok(()),
            Order::Leave => Err(self.leave()),
            Order::Now(text) if self.is_idle() => self.send(text),
            Order::Now(text) => self.interject(text),
            Order::Prompt(text) => self.send(text),
            Order::Answer(line) => {
                match self.asking.take(&line).await {
                    Some(Taken::Say(text)) => self.view.block(&text),
                    Some(Taken::Answer(answer)) => self.ask(Ask::Respond(answer)),
                    None => {}
                }
                Ok(())
            }
        }
    }

    fn send(&mut self, content: String) -> Result<(), End> {
        let request_id = self.next_id()?;
        let message_id = client_message_id(&request_id);
        self.prompts.push(Prompt { message_id, is_started: false, refusal: None });
        self.ask(Ask::Send(SendMessage {
            session_id: self.session_id.clone(),
            branch_id: self.branch_id.clone(),
            content,
            request_id: Some(request_id),
            approval: None,
            env: Default::default(),
        }));
        Ok(())
    }

    fn interject(&mut self, message: String) -> Result<(), End> {
        let command = SteerCommand::Interject {
            session_id: self.session_id.clone(),
            branch_id: self.branch_id.clone(),
            request_id: self.next_id()?,
            message,
            metadata: None,
            // The turn may end before it is heard.
            wake: true,
        };
        self.ask(Ask::Steer(command));
        Ok(())
    }

    fn ask(&mut self, ask: Ask) {
        if let Some(ask) = self.calls.ask(ask) {
            let error = "too much waits for an answer of the server: nothing was sent, try again later";
            self.has_failed = true;
            match ask {
                Ask::Send(_) => {
                    self.prompts.pop();
                }
                Ask::Respond(answer) => self.asking.take_back(&answer.request_id),
                Ask::Steer(_) => {}
            }
            self.view.line(&Line::Error(error.to_owned()));
        }
    }

    /// The first Ctrl-C stops the turn, the next one leaves; nothing to stop: the first one leaves.
    pub(super) fn hear(&mut self, interrupt: Interrupt) -> Result<(), End> {
        let is_again = self.stopped_at.is_some_and(|since| since.elapsed() < AGAIN);
        let first = self.prompts.first().map(|prompt| &prompt.message_id);
        let target = self.view.running().or(first).cloned();
        let (Interrupt::CtrlC, false, Some(message_id)) = (interrupt, is_again, target) else {
            return Err(End::Left(exit_code(interrupt)));
        };
        self.stopped_at = Some(Instant::now());
        let command = SteerCommand::Cancel {
            session_id: self.session_id.clone(),
            branch_id: self.branch_id.clone(),
            request_id: self.next_id()?,
            message_id: Some(message_id),
        };
        self.ask(Ask::Steer(command));
        self.view.notice("stopping the turn; Ctrl-C again leaves");
        Ok(())
    }

    fn next_id(&mut self) -> Result<RequestId, End> {
        self.n_ids += 1;
        RequestId::parse(format!("{}-{}", self.request.id, self.n_ids))
            .map_err(|error| End::Failed(RunError::of("InvalidParams", &error)))
    }
}
