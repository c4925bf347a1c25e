//! Owns what of a conversation a model is sent: the budget, the estimate, and the choice of messages.
//! Pure: no clock, no store, no driver. Every failure names its kind; `BudgetExceeded` is the only one that a
//! later turn can grow out of. Tested below (H5, H14's estimate, H20 end to end).

use std::collections::HashMap;
use std::sync::Arc;

use gent_extension_api::{HostMessage, WireTool};
use gent_protocol::{MessageId, Model, Ordinal, Part, Role, ToolCallId};

use crate::limits::OUTPUT_RESERVE;

/// What a request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The window in tokens.
    pub(crate) window: u64,
    /// Output that is reserved and asked for.
    pub(crate) output: u64,
    /// Estimated tokens of system prompt, notices and tools.
    pub(crate) overhead: u64,
    /// What is left for messages.
    pub(crate) available: u64,
}

/// Why no request can be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WindowError {
    /// System prompt and tools alone fill the window.
    #[error("ReserveExhausted")]
    ReserveExhausted,
    /// The newest turn alone is larger than what is left for messages.
    #[error(
        "BudgetExceeded: the newest turn needs about {needed} tokens and {available} are left for messages; send \
         less, or use a model with a larger window"
    )]
    BudgetExceeded {
        /// Estimated tokens of the newest turn.
        needed: u64,
        /// What is left for messages.
        available: u64,
    },
    /// A call stands in a message that is not the model's.
    #[error("ToolCallWrongRole: {0}")]
    ToolCallWrongRole(ToolCallId),
    /// A result stands in a message that is not the tools'.
    #[error("ToolResultWrongRole: {0}")]
    ToolResultWrongRole(ToolCallId),
    /// A call of this id stands twice in one message.
    #[error("DuplicateToolCallId: {0}")]
    DuplicateToolCallId(ToolCallId),
    /// A result of this id stands twice for one call.
    #[error("DuplicateToolResultId: {0}")]
    DuplicateToolResultId(ToolCallId),
    /// A result without a call before it.
    #[error("OrphanToolResult: {0}")]
    OrphanToolResult(ToolCallId),
    /// A result that names another tool than its call.
    #[error("MismatchedToolResultName: {0}")]
    MismatchedToolResultName(ToolCallId),
    /// A call without a result.
    #[error("IncompleteToolCallGroup: {0}")]
    IncompleteToolCallGroup(ToolCallId),
}

/// `ceil(chars / 4)`: the estimate of a text in tokens.
pub(crate) fn tokens(chars: usize) -> u64 {
    u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX)
}

/// The budget of a request.
pub(crate) fn budget(
    model: &Model,
    context_length: Option<u64>,
    system: &[String],
    notice: Option<&str>,
    tools: &[WireTool],
) -> Result<Budget, WindowError> {
    let window = context_length.or(model.context_length).unwrap_or(0);
    let output = model.output_limit.unwrap_or(OUTPUT_RESERVE).min(OUTPUT_RESERVE).min(window / 4);
    let ceiling = window.saturating_sub(output).min(model.input_limit.unwrap_or(u64::MAX));
    let system_chars: usize = system.iter().map(|block| block.chars().count()).sum();
    let notice_chars = notice.map_or(0, |text| text.chars().count());
    let tool_chars: usize = tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.chars().count() + tool.parameters.to_string().len())
        .sum();
    let overhead = tokens(system_chars + notice_chars) + tokens(tool_chars);
    match ceiling.checked_sub(overhead) {
        Some(available) if available > 0 => Ok(Budget { window, output, overhead, available }),
        Some(_) | None => Err(WindowError::ReserveExhausted),
    }
}

/// One message of the conversation with what has been found out about it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) ordinal: Ordinal,
    pub(crate) message: HostMessage,
    chars: usize,
}

impl Entry {
    /// Takes a message in; results must have been bounded.
    pub(crate) fn new(ordinal: Ordinal, message: HostMessage) -> Self {
        let chars = message.parts.iter().map(part_chars).sum();
        Self { ordinal, message, chars }
    }
}

fn part_chars(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } | Part::Reasoning { text, .. } => text.chars().count(),
        Part::ToolCall(call) => call.name.len() + call.params.to_string().len(),
        Part::ToolResult(outcome) => outcome.result.to_string().len(),
        Part::File { .. } => 1_000,
        Part::ToolApprovalRequest { .. } | Part::ToolApprovalResponse { .. } => 0,
    }
}

/// The provider's own count at an earlier request: it raises an estimate that was too low, never lowers one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measure {
    /// The reply to that request: everything before it was counted.
    pub(crate) reply: MessageId,
    /// Counted input less the estimate of system prompt and tools.
    pub(crate) tokens: u64,
}

/// What goes into a request.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    pub(crate) messages: Vec<HostMessage>,
    /// Where it begins, when something was left out.
    pub(crate) begins: Option<Ordinal>,
    pub(crate) estimated: u64,
    pub(crate) omitted: u64,
}

/// A group that is sent or left out as a whole.
struct Unit {
    first: usize,
    end: usize,
    chars: usize,
    has_user: bool,
}

/// Chooses the newest messages that fit. `older` messages of the branch were not even loaded; `kept` is where the
/// window of the step before began.
///
/// A window that must be cut is cut to three quarters and then kept where it begins for as long as it fits, so that
/// the requests of many steps begin with the same bytes.
pub(crate) fn project(
    entries: &[Entry],
    older: u64,
    available: u64,
    measure: Option<&Measure>,
    kept: Option<Ordinal>,
) -> Result<Projection, WindowError> {
    let units = group(entries)?;
    let scale = scale(entries, &units, measure);
    let cost = |unit: &Unit, at: usize| match scale {
        Some((factor, before)) if at < before => (tokens(unit.chars) as f64 * factor).ceil() as u64,
        Some(_) | None => tokens(unit.chars),
    };
    let costs: Vec<u64> = units.iter().enumerate().map(|(at, unit)| cost(unit, at)).collect();
    let anchor = units.iter().rposition(|unit| unit.has_user).unwrap_or(units.len().saturating_sub(1));
    let needed: u64 = costs.iter().skip(anchor).sum();
    if needed > available {
        return Err(WindowError::BudgetExceeded { needed, available });
    }
    let begins_at = |ordinal: Ordinal| {
        let place = |unit: &Unit| entries.get(unit.first).is_some_and(|entry| entry.ordinal == ordinal);
        units.iter().position(place).filter(|at| *at <= anchor)
    };
    let earliest = kept.and_then(begins_at).unwrap_or(0);
    let all: u64 = costs.iter().skip(earliest).sum();
    let (from, estimated) = if all <= available {
        (earliest, all)
    } else {
        newest_within(&costs, earliest, anchor, (available / 4 * 3).max(needed))
    };
    let first = units.get(from).map_or(entries.len(), |unit| unit.first);
    let is_shown = |entry: &&Entry| !entry.message.is_hidden();
    let messages: Vec<_> =
        entries.iter().skip(first).filter(is_shown).map(|e| Arc::clone(&e.message)).collect();
    let left_out = entries.iter().take(first).filter(is_shown).count();
    Ok(Projection {
        messages,
        begins: entries.get(first).filter(|_| first > 0).map(|entry| entry.ordinal),
        estimated,
        omitted: older + u64::try_from(left_out).unwrap_or(0),
    })
}

/// The units before `anchor`, newest first, that fit `target` with everything from `anchor` on: where they begin and
/// what all costs.
fn newest_within(costs: &[u64], earliest: usize, anchor: usize, target: u64) -> (usize, u64) {
    let mut used: u64 = costs.iter().skip(anchor).sum();
    let mut from = anchor;
    let before = costs.iter().enumerate().take(anchor).skip(earliest).rev();
    for (at, cost) in before {
        if used + cost > target {
            break;
        }
        used += cost;
        from = at;
    }
    (from, used)
}

/// How much larger the provider found the units before its reply than they were estimated.
fn scale(entries: &[Entry], units: &[Unit], measure: Option<&Measure>) -> Option<(f64, usize)> {
    let measure = measure?;
    let reply = entries.iter().position(|entry| entry.message.id == measure.reply)?;
    let before = units.iter().position(|unit| unit.first <= reply && reply < unit.end)?;
    let estimated: u64 = units.iter().take(before).map(|unit| tokens(unit.chars)).sum();
    (measure.tokens > estimated && estimated > 0).then(|| (measure.tokens as f64 / estimated as f64, before))
}

/// Cuts the conversation into groups: a message of calls goes with its results.
fn group(entries: &[Entry]) -> Result<Vec<Unit>, WindowError> {
    let mut units: Vec<Unit> = Vec::new();
    // The calls of the newest message of calls, and which of them have a result.
    let mut open: HashMap<ToolCallId, (String, bool)> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        let message = &entry.message;
        if message.is_hidden() {
            if let Some(unit) = units.last_mut() {
                unit.end = at + 1;
            }
            continue;
        }
        check_roles(entry)?;
        if message.role == Role::Tool && message.tool_outcomes().next().is_some() {
            for outcome in message.tool_outcomes() {
                match open.get_mut(&outcome.id) {
                    None => return Err(WindowError::OrphanToolResult(outcome.id.clone())),
                    Some((_, true)) => {
                        return Err(WindowError::DuplicateToolResultId(outcome.id.clone()));
                    }
                    Some((name, _)) if *name != outcome.name => {
                        return Err(WindowError::MismatchedToolResultName(outcome.id.clone()));
                    }
                    Some((_, has_result)) => *has_result = true,
                }
            }
            if let Some(unit) = units.last_mut() {
                unit.end = at + 1;
                unit.chars += entry.chars;
            }
            continue;
        }
        close_group(&mut open)?;
        for call in message.tool_calls().filter(|call| !call.provider_executed) {
            if open.insert(call.id.clone(), (call.name.clone(), false)).is_some() {
                return Err(WindowError::DuplicateToolCallId(call.id.clone()));
            }
        }
        let has_user = message.role == Role::User && !message.is_runtime();
        units.push(Unit { first: at, end: at + 1, chars: entry.chars, has_user });
    }
    close_group(&mut open)?;
    Ok(units)
}

fn close_group(open: &mut HashMap<ToolCallId, (String, bool)>) -> Result<(), WindowError> {
    match open.drain().find(|(_, (_, has_result))| !has_result) {
        Some((call, _)) => Err(WindowError::IncompleteToolCallGroup(call)),
        None => Ok(()),
    }
}

fn check_roles(entry: &Entry) -> Result<(), WindowError> {
    let message = &entry.message;
    if message.role != Role::Assistant
        && let Some(call) = message.tool_calls().next()
    {
        return Err(WindowError::ToolCallWrongRole(call.id.clone()));
    }
    if message.role != Role::Tool
        && let Some(outcome) = message.tool_outcomes().find(|outcome| !outcome.provider_executed)
    {
        return Err(WindowError::ToolResultWrongRole(outcome.id.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
