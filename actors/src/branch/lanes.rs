//! Owns the order in which an activation takes what was filed: control, then reports of its turn, then data.
//! Never runs a command. Bounded by the permits that travel with the commands. Tested below.

use std::collections::VecDeque;

use gent_protocol::{InteractionRequestId, MessageId, QuestionDecision, QueueSnapshot, RequestId, RunId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::messages::{BranchError, Interjection, StopOrder, Submission};
use crate::turn::TurnEnd;

/// How a command is answered.
pub(crate) type Reply<T = ()> = oneshot::Sender<Result<T, BranchError>>;

/// What waits to be taken.
pub(crate) enum Command {
    Stop { order: Box<StopOrder>, reply: Reply<bool> },
    Interject { interjection: Box<Interjection>, reply: Reply },
    Answer { answer: Box<(InteractionRequestId, QuestionDecision)>, reply: Reply },
    Dequeue { message: MessageId, reply: Reply<bool> },
    DrainAll { request: RequestId, reply: Reply<QueueSnapshot> },
    CredentialOffered { reply: Reply },
    RunEnded { run: RunId, end: Box<TurnEnd> },
    Submit { submission: Box<Submission>, waits: bool, reply: Reply },
}

/// A command and its place, which is given back when it is taken.
pub(crate) struct Filed {
    pub(crate) command: Command,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// The lanes.
#[derive(Default)]
pub(crate) struct Lanes {
    control: VecDeque<Filed>,
    reports: VecDeque<Filed>,
    data: VecDeque<Filed>,
}

impl Lanes {
    /// Files a command in its lane.
    pub(crate) fn file(&mut self, command: Command, permit: Option<OwnedSemaphorePermit>) {
        let lane = match &command {
            Command::Stop { .. }
            | Command::Interject { .. }
            | Command::Answer { .. }
            | Command::Dequeue { .. }
            | Command::DrainAll { .. } => &mut self.control,
            Command::RunEnded { .. } => &mut self.reports,
            Command::CredentialOffered { .. } | Command::Submit { .. } => &mut self.data,
        };
        lane.push_back(Filed { command, permit });
    }

    /// The next command; its permit is given back.
    pub(crate) fn take(&mut self) -> Option<Command> {
        let lanes = [&mut self.control, &mut self.reports, &mut self.data];
        let filed = lanes.into_iter().find_map(VecDeque::pop_front)?;
        drop(filed.permit);
        Some(filed.command)
    }

    /// Gives back the room that the fullest moment took: a branch at rest keeps none.
    pub(crate) fn shrink(&mut self) {
        for lane in [&mut self.control, &mut self.reports, &mut self.data] {
            lane.shrink_to_fit();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.reports.is_empty() && self.data.is_empty()
    }
}

impl Command {
    /// Answers a command that will not be taken.
    pub(crate) fn refuse(self, why: impl Fn() -> BranchError) {
        match self {
            Self::Interject { reply, .. }
            | Self::Answer { reply, .. }
            | Self::CredentialOffered { reply }
            | Self::Submit { reply, .. } => drop(reply.send(Err(why()))),
            Self::Stop { reply, .. } | Self::Dequeue { reply, .. } => drop(reply.send(Err(why()))),
            Self::DrainAll { reply, .. } => drop(reply.send(Err(why()))),
            Self::RunEnded { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply<T>() -> Reply<T> {
        oneshot::channel().0
    }

    #[test]
    fn control_goes_before_reports_and_reports_before_data() {
        let mut lanes = Lanes::default();
        lanes.file(Command::CredentialOffered { reply: reply() }, None);
        let end = Box::new(TurnEnd::Abandoned(gent_storage::StoreError::Closed));
        lanes.file(Command::RunEnded { run: RunId::parse("r").unwrap(), end }, None);
        let request = RequestId::parse("c").unwrap();
        let order = Box::new(StopOrder { request, message: None, requester: None });
        lanes.file(Command::Stop { order, reply: reply() }, None);
        assert!(matches!(lanes.take(), Some(Command::Stop { .. })));
        assert!(matches!(lanes.take(), Some(Command::RunEnded { .. })));
        assert!(matches!(lanes.take(), Some(Command::CredentialOffered { .. })));
        assert!(lanes.is_empty());
    }
}
