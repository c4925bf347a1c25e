//! Owns the one classification of a step and what follows from it. Everything after is an exhaustive match.
//! Pure. Tested below (H12, G6–G9, E17).

use gent_extension_api::FinishReason;
use gent_protocol::StepOutcome;
use serde::{Deserialize, Serialize};

use crate::limits::CONTINUATIONS;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The turn was stopped while the answer came.
    Interrupted,
    /// The stream broke or was refused.
    Failed {
        /// Something of the answer had come.
        partial: bool,
        /// Why, for a person.
        error: String,
    },
    /// The model asks for tools.
    ToolCalls {
        /// The answer was cut: its calls do not run.
        cut: bool,
    },
    /// The model answered.
    Answered {
        /// There is nothing in it.
        empty: bool,
        /// It was cut.
        truncated: bool,
        /// The provider withheld it.
        blocked: bool,
    },
}

/// What came of a stream that ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) finish: FinishReason,
    pub(crate) calls: usize,
    pub(crate) observable: bool,
}

/// Classifies a stream that ended by itself.
pub(crate) fn classify(settled: Settled) -> Outcome {
    let truncated = matches!(settled.finish, FinishReason::Length | FinishReason::WindowFull);
    if settled.calls > 0 {
        return Outcome::ToolCalls { cut: truncated };
    }
    Outcome::Answered {
        empty: !settled.observable,
        truncated,
        blocked: settled.finish == FinishReason::ContentFilter,
    }
}

impl Outcome {
    /// What stands in the event.
    pub(crate) fn on_wire(&self) -> StepOutcome {
        match self {
            Self::Interrupted => StepOutcome::Interrupted,
            Self::Failed { .. } => StepOutcome::Failed,
            Self::ToolCalls { .. } => StepOutcome::ToolCalls,
            Self::Answered { .. } => StepOutcome::Answered,
        }
    }

    /// The step's usage counts: it ended by itself.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::ToolCalls { .. } | Self::Answered { .. } => true,
            Self::Interrupted | Self::Failed { .. } => false,
        }
    }
}

/// Why a call of a stored answer is given a failed result without being run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unrun {
    /// The turn was stopped, or the server died.
    Interrupted,
    /// The stream broke.
    StreamFailed,
    /// The turn may take no further step.
    StepLimit,
    /// The answer was cut: its calls may be incomplete.
    Truncated,
    /// What was recorded of the call cannot be read.
    CorruptResult,
    /// It waited for an answer, and which tool it was meant for is not recorded.
    MissingBinding,
    /// It waited for an answer, and the tool is no longer there.
    ToolUnavailable,
    /// It waited for an answer, and the tool no longer says which version it is.
    MissingSourceIdentity,
    /// It waited for an answer, and the tool is another version now.
    SourceMismatch,
    /// It waited for an answer, and the tool takes another input now.
    SchemaMismatch,
}

impl Unrun {
    /// What stands in the result.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Interrupted => "Interrupted",
            Self::StreamFailed => "StreamFailed",
            Self::StepLimit => "StepLimit",
            Self::Truncated => "Truncated",
            Self::CorruptResult => "CorruptResult",
            Self::MissingBinding => "MissingBinding",
            Self::ToolUnavailable => "ToolUnavailable",
            Self::MissingSourceIdentity => "MissingSourceIdentity",
            Self::SourceMismatch => "SourceMismatch",
            Self::SchemaMismatch => "SchemaMismatch",
        }
    }

    /// What the model is told.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Interrupted => "the call was stopped: no result was recorded, and it may have had effects",
            Self::StreamFailed => "the answer broke off before this call could run",
            Self::StepLimit => "the turn has no step left in which this call could be answered",
            Self::Truncated => "the answer was cut before it was complete, so this call did not run",
            Self::CorruptResult => "what was recorded of this call cannot be read",
            Self::MissingBinding => {
                "the call waited for an answer, and the tool it was meant for cannot be told: it did not run"
            }
            Self::ToolUnavailable => {
                "the call waited for an answer, and its tool is gone meanwhile: it did not run"
            }
            Self::MissingSourceIdentity | Self::SourceMismatch => {
                "the call waited for an answer, and its tool was replaced meanwhile: it did not run"
            }
            Self::SchemaMismatch => {
                "the call waited for an answer, and its tool takes another input now: it did not run"
            }
        }
    }
}

/// An instruction of the runtime's own that follows a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// The answer broke off: carry on.
    CarryOn,
    /// There was nothing in the answer: answer.
    AnswerNow,
    /// The answer was too long: smaller steps.
    Smaller,
}

impl Instruction {
    /// What the model is told.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::CarryOn => {
                "Your last answer broke off before it was complete. Carry on from where it stopped; do not repeat what you have already said."
            }
            Self::AnswerNow => "Your last answer was empty. Give your answer now.",
            Self::Smaller => {
                "Your last answer was cut because it grew too long. Carry on from where it stopped, in smaller steps."
            }
        }
    }
}

/// What a turn that stops looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) interrupted: bool,
    pub(crate) stream_failed: bool,
    pub(crate) unanswered: bool,
}

impl Ending {
    pub(crate) const ANSWERED: Self = Self { interrupted: false, stream_failed: false, unanswered: false };
    pub(crate) const INTERRUPTED: Self = Self { interrupted: true, stream_failed: false, unanswered: false };
    pub(crate) const FAILED: Self = Self { interrupted: false, stream_failed: true, unanswered: false };
    pub(crate) const UNANSWERED: Self = Self { interrupted: false, stream_failed: false, unanswered: true };
}

/// What happens to the calls of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// They run.
    Run,
    /// They are answered without being run.
    Refuse(Unrun),
}

/// What follows the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another step.
    Step,
    /// An instruction, then another step.
    Continue(Instruction),
    /// Nothing.
    Stop(Ending),
}

/// What becomes of a step's calls.
pub(crate) fn calls_after(outcome: &Outcome, is_final: bool) -> Calls {
    match outcome {
        Outcome::ToolCalls { .. } if is_final => Calls::Refuse(Unrun::StepLimit),
        Outcome::ToolCalls { cut: true } => Calls::Refuse(Unrun::Truncated),
        Outcome::ToolCalls { cut: false } => Calls::Run,
        Outcome::Interrupted => Calls::Refuse(Unrun::Interrupted),
        Outcome::Failed { .. } => Calls::Refuse(Unrun::StreamFailed),
        // There are none.
        Outcome::Answered { .. } => Calls::Run,
    }
}

/// What follows a step whose calls, if any, have their results.
pub(crate) fn next_after(outcome: &Outcome, continuations: u32, is_final: bool) -> Next {
    let or_stop = |instruction, ending| {
        if continuations < CONTINUATIONS && !is_final {
            Next::Continue(instruction)
        } else {
            Next::Stop(ending)
        }
    };
    match outcome {
        Outcome::Interrupted => Next::Stop(Ending::INTERRUPTED),
        Outcome::Failed { partial: false, .. } => Next::Stop(Ending::FAILED),
        Outcome::Failed { partial: true, .. } => or_stop(Instruction::CarryOn, Ending::FAILED),
        Outcome::ToolCalls { .. } if is_final => Next::Stop(Ending::UNANSWERED),
        Outcome::ToolCalls { cut: true } => or_stop(Instruction::Smaller, Ending::UNANSWERED),
        Outcome::ToolCalls { cut: false } => Next::Step,
        Outcome::Answered { blocked: true, empty, .. } => {
            Next::Stop(if *empty { Ending::UNANSWERED } else { Ending::ANSWERED })
        }
        Outcome::Answered { truncated: true, empty, .. } => {
            or_stop(Instruction::Smaller, if *empty { Ending::UNANSWERED } else { Ending::ANSWERED })
        }
        Outcome::Answered { empty: true, .. } => or_stop(Instruction::AnswerNow, Ending::UNANSWERED),
        Outcome::Answered { empty: false, .. } => Next::Stop(Ending::ANSWERED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(empty: bool, truncated: bool) -> Outcome {
        Outcome::Answered { empty, truncated, blocked: false }
    }

    fn failed(partial: bool) -> Outcome {
        Outcome::Failed { partial, error: "cut".into() }
    }

    #[test]
    fn an_unknown_finish_word_is_a_finished_answer_h12() {
        let settled = Settled { finish: FinishReason::Unknown, calls: 0, observable: true };
        assert_eq!(classify(settled), answered(false, false));
        assert_eq!(next_after(&answered(false, false), 0, false), Next::Stop(Ending::ANSWERED));
    }

    #[test]
    fn calls_of_a_cut_answer_do_not_run() {
        let settled = Settled { finish: FinishReason::Length, calls: 2, observable: true };
        let outcome = classify(settled);
        assert_eq!(calls_after(&outcome, false), Calls::Refuse(Unrun::Truncated));
        assert_eq!(next_after(&outcome, 0, false), Next::Continue(Instruction::Smaller));
    }

    #[test]
    fn every_outcome_leads_where_the_table_says() {
        let cases = [
            (Outcome::Interrupted, 0, false, Next::Stop(Ending::INTERRUPTED)),
            (failed(false), 0, false, Next::Stop(Ending::FAILED)),
            (failed(true), 1, false, Next::Continue(Instruction::CarryOn)),
            (failed(true), 2, false, Next::Stop(Ending::FAILED)),
            (failed(true), 0, true, Next::Stop(Ending::FAILED)),
            (answered(true, false), 1, false, Next::Continue(Instruction::AnswerNow)),
            (answered(true, false), 2, false, Next::Stop(Ending::UNANSWERED)),
            (answered(false, true), 1, false, Next::Continue(Instruction::Smaller)),
            (answered(false, true), 2, false, Next::Stop(Ending::ANSWERED)),
            (answered(true, true), 2, false, Next::Stop(Ending::UNANSWERED)),
            (Outcome::ToolCalls { cut: false }, 2, false, Next::Step),
            (Outcome::ToolCalls { cut: false }, 0, true, Next::Stop(Ending::UNANSWERED)),
            (
                Outcome::Answered { empty: true, truncated: false, blocked: true },
                0,
                false,
                Next::Stop(Ending::UNANSWERED),
            ),
        ];
        for (outcome, continuations, is_final, expected) in cases {
            assert_eq!(next_after(&outcome, continuations, is_final), expected, "{outcome:?}");
        }
    }

    #[test]
    fn calls_of_the_last_step_are_refused_e17() {
        let outcome = Outcome::ToolCalls { cut: false };
        assert_eq!(calls_after(&outcome, true), Calls::Refuse(Unrun::StepLimit));
        assert_eq!(calls_after(&outcome, false), Calls::Run);
    }
}
