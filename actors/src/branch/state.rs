//! Owns the life of an activation as a pure state machine: what may follow what, and what is then to be done.
//! Never does it: the actor performs the effects. `Faulted` is the directory's word for a branch without an
//! activation. Tested below, state by input.

use gent_protocol::RunId;

/// What an activation does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BranchState {
    /// It takes its epoch and reads its rows.
    Opening,
    /// No turn.
    Idle,
    /// A turn runs.
    Running { run: RunId },
    /// A turn is over and its receipt is being written.
    Settling { run: RunId },
    /// A turn waits for an answer: nothing of it is in memory but its row.
    Waiting,
    /// It asks to leave memory, and takes nothing more until it is answered.
    Retiring { from_waiting: bool },
}

/// What happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Its rows hold a turn to run.
    OpenedOverTurn { run: RunId },
    /// Its rows hold a turn that waits for an answer.
    OpenedOverParked,
    /// Its rows hold none; `waking`: its queue is to be looked at.
    Opened { waking: bool },
    /// A turn was admitted or taken from the queue.
    Took { run: RunId },
    /// There was nothing to take.
    TookNothing,
    /// A run is over.
    Over { run: RunId },
    /// A run was put aside: its turn goes on later.
    PutAside { run: RunId },
    /// A run ended in a question: its turn waits.
    Parked { run: RunId },
    /// A run ended in a question that has been answered meanwhile, or its turn was stopped: another run follows.
    GoesOn { run: RunId, next: RunId },
    /// The turn that waits has its answer, or was stopped.
    Resumed { run: RunId },
    /// The receipt stands.
    ReceiptWritten { run: RunId },
    /// Nothing has held it for a while.
    IdleLongEnough,
    /// It is to stay.
    Stay,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start the turn.
    RunTurn,
    /// Take the next message from the queue.
    TakeNext,
    /// Watch for idleness.
    ArmIdle,
    /// Ask the directory for leave to go.
    AskToRetire,
}

/// An input that does not fit: stale, or a fault of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} does not fit {state:?}")]
pub(crate) struct Refused {
    state: BranchState,
    input: Input,
}

impl BranchState {
    /// The state after `input` and what is to be done then.
    pub(crate) fn next(self, input: Input) -> Result<(Self, Option<Effect>), Refused> {
        let next = match (&self, &input) {
            (Self::Opening, Input::OpenedOverTurn { run }) | (Self::Idle, Input::Took { run }) => {
                (Self::Running { run: run.clone() }, Some(Effect::RunTurn))
            }
            (Self::Opening, Input::Opened { waking: true }) => (Self::Idle, Some(Effect::TakeNext)),
            (Self::Opening, Input::Opened { waking: false })
            | (Self::Idle, Input::TookNothing)
            | (Self::Retiring { from_waiting: false }, Input::Stay) => (Self::Idle, Some(Effect::ArmIdle)),
            (Self::Opening, Input::OpenedOverParked)
            | (Self::Retiring { from_waiting: true }, Input::Stay) => (Self::Waiting, Some(Effect::ArmIdle)),
            (Self::Running { run }, Input::Parked { run: parked }) if run == parked => {
                (Self::Waiting, Some(Effect::ArmIdle))
            }
            (Self::Running { run }, Input::GoesOn { run: ended, next }) if run == ended => {
                (Self::Running { run: next.clone() }, Some(Effect::RunTurn))
            }
            (Self::Waiting, Input::Resumed { run }) => {
                (Self::Running { run: run.clone() }, Some(Effect::RunTurn))
            }
            (Self::Running { run }, Input::Over { run: over }) if run == over => {
                (Self::Settling { run: run.clone() }, None)
            }
            (Self::Running { run }, Input::PutAside { run: aside }) if run == aside => {
                (Self::Idle, Some(Effect::ArmIdle))
            }
            (Self::Settling { run }, Input::ReceiptWritten { run: settled }) if run == settled => {
                (Self::Idle, Some(Effect::TakeNext))
            }
            (Self::Idle, Input::IdleLongEnough) => {
                (Self::Retiring { from_waiting: false }, Some(Effect::AskToRetire))
            }
            (Self::Waiting, Input::IdleLongEnough) => {
                (Self::Retiring { from_waiting: true }, Some(Effect::AskToRetire))
            }
            (
                Self::Opening
                | Self::Idle
                | Self::Running { .. }
                | Self::Settling { .. }
                | Self::Waiting
                | Self::Retiring { .. },
                _,
            ) => return Err(Refused { state: self, input }),
        };
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> RunId {
        RunId::parse(name).unwrap()
    }

    fn states() -> Vec<BranchState> {
        vec![
            BranchState::Opening,
            BranchState::Idle,
            BranchState::Running { run: run("1") },
            BranchState::Settling { run: run("1") },
            BranchState::Waiting,
            BranchState::Retiring { from_waiting: false },
            BranchState::Retiring { from_waiting: true },
        ]
    }

    fn inputs() -> Vec<Input> {
        vec![
            Input::OpenedOverTurn { run: run("1") },
            Input::OpenedOverParked,
            Input::Opened { waking: true },
            Input::Opened { waking: false },
            Input::Took { run: run("1") },
            Input::TookNothing,
            Input::Over { run: run("1") },
            Input::Over { run: run("stale") },
            Input::PutAside { run: run("1") },
            Input::Parked { run: run("1") },
            Input::Parked { run: run("stale") },
            Input::GoesOn { run: run("1"), next: run("2") },
            Input::GoesOn { run: run("stale"), next: run("2") },
            Input::Resumed { run: run("1") },
            Input::ReceiptWritten { run: run("1") },
            Input::ReceiptWritten { run: run("stale") },
            Input::IdleLongEnough,
            Input::Stay,
        ]
    }

    #[test]
    fn every_state_takes_its_own_inputs_and_refuses_the_others() {
        let mut table = Vec::new();
        for state in states() {
            for input in inputs() {
                if let Ok((next, effect)) = state.clone().next(input.clone()) {
                    table.push(format!("{state:?} + {input:?} = {next:?}, {effect:?}"));
                }
            }
        }
        let run = r#"{ run: "1" }"#;
        assert_eq!(
            table,
            [
                format!("Opening + OpenedOverTurn {run} = Running {run}, Some(RunTurn)"),
                "Opening + OpenedOverParked = Waiting, Some(ArmIdle)".into(),
                "Opening + Opened { waking: true } = Idle, Some(TakeNext)".into(),
                "Opening + Opened { waking: false } = Idle, Some(ArmIdle)".into(),
                format!("Idle + Took {run} = Running {run}, Some(RunTurn)"),
                "Idle + TookNothing = Idle, Some(ArmIdle)".into(),
                "Idle + IdleLongEnough = Retiring { from_waiting: false }, Some(AskToRetire)".into(),
                format!("Running {run} + Over {run} = Settling {run}, None"),
                format!("Running {run} + PutAside {run} = Idle, Some(ArmIdle)"),
                format!("Running {run} + Parked {run} = Waiting, Some(ArmIdle)"),
                format!(
                    "Running {run} + GoesOn {{ run: \"1\", next: \"2\" }} = Running {{ run: \"2\" }}, Some(RunTurn)"
                ),
                format!("Settling {run} + ReceiptWritten {run} = Idle, Some(TakeNext)"),
                format!("Waiting + Resumed {run} = Running {run}, Some(RunTurn)"),
                "Waiting + IdleLongEnough = Retiring { from_waiting: true }, Some(AskToRetire)".into(),
                "Retiring { from_waiting: false } + Stay = Idle, Some(ArmIdle)".into(),
                "Retiring { from_waiting: true } + Stay = Waiting, Some(ArmIdle)".into(),
            ]
        );
    }
}
