//! Owns the running totals of branches: one row each, kept by the write that appends the event they come from.
//! Never reads events to answer: that would cost the branch's whole history.
//! Tested below (the fold) and in `storage/tests/it/metrics.rs` (the row against a fold of all events).

use diesel::prelude::*;
use gent_protocol::{AgentEvent, BranchId, ContextGauge, EventSeq, Millis, ModelId, RuntimeMetrics};
use serde_json::{Value, json};

use crate::codec::{column, count, json, optional_id, to_json};
use crate::schema::branch_metrics;
use crate::{Reader, StoreError, WriteTxn};

/// A branch's running totals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BranchMetrics {
    /// What clients are shown.
    pub metrics: RuntimeMetrics,
    /// The model of the last step that named one.
    pub last_model: Option<ModelId>,
    /// What the last step with usage and overhead measured:
    /// `{messageId, step, inputTokens, requestOverheadTokens, model?, event}`.
    pub last_measure: Option<Value>,
}

impl BranchMetrics {
    /// Takes one more event of the branch into account; false when it changes nothing.
    pub fn fold(&mut self, event: &AgentEvent, seq: EventSeq) -> bool {
        match event {
            AgentEvent::TurnCompleted { duration_ms, .. } => {
                self.metrics.turns = self.metrics.turns.saturating_add(1);
                self.metrics.duration_ms = Millis(self.metrics.duration_ms.0.saturating_add(duration_ms.0));
            }
            AgentEvent::ModelContextProjected {
                estimated_tokens,
                available_input_tokens,
                context_limit_tokens,
                omitted_messages,
                handoff_message_id,
                compacted,
                cost_usd,
                ..
            } => {
                let before = self.metrics.context.as_ref().map_or(0, |context| context.compactions);
                self.metrics.context = Some(ContextGauge {
                    estimated_tokens: *estimated_tokens,
                    available_input_tokens: *available_input_tokens,
                    context_limit_tokens: *context_limit_tokens,
                    omitted_messages: *omitted_messages,
                    handoff_message_id: handoff_message_id.clone(),
                    compactions: before + u64::from(*compacted),
                });
                self.metrics.last_input_tokens = 0;
                self.metrics.cost_usd += cost_usd.unwrap_or(0.0);
            }
            AgentEvent::StreamEnded {
                message_id,
                step,
                usage,
                request_overhead_tokens,
                model,
                cost_usd,
                ..
            } => {
                if let Some(usage) = usage {
                    self.metrics.last_input_tokens = usage.input_tokens;
                }
                self.metrics.cost_usd += cost_usd.unwrap_or(0.0);
                if let Some(model) = model {
                    self.last_model = Some(model.clone());
                }
                if let (Some(usage), Some(overhead)) = (usage, request_overhead_tokens) {
                    let mut measure = json!({
                        "messageId": message_id,
                        "step": step,
                        "inputTokens": usage.input_tokens,
                        "requestOverheadTokens": overhead,
                        "event": seq,
                    });
                    if let (Value::Object(fields), Some(model)) = (&mut measure, model) {
                        fields.insert("model".to_owned(), json!(model));
                    }
                    self.last_measure = Some(measure);
                }
            }
            AgentEvent::SessionStarted { .. }
            | AgentEvent::MessageReceived { .. }
            | AgentEvent::StreamStarted { .. }
            | AgentEvent::StreamChunk { .. }
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
            | AgentEvent::StreamSynchronized { .. } => return false,
        }
        true
    }
}

/// Reads a branch's totals; all zero for one without.
pub fn metrics_get(r: &mut impl Reader, branch: &BranchId) -> Result<BranchMetrics, StoreError> {
    Ok(read_row(r, branch)?.unwrap_or_default())
}

type MetricsColumns = (i64, i64, f64, i64, Option<String>, Option<String>, Option<String>);

fn read_row(r: &mut impl Reader, branch: &BranchId) -> Result<Option<BranchMetrics>, StoreError> {
    let found: Option<MetricsColumns> = branch_metrics::table
        .find(branch.as_str())
        .select((
            branch_metrics::turns,
            branch_metrics::duration_ms,
            branch_metrics::cost_usd,
            branch_metrics::last_input_tokens,
            branch_metrics::context_json,
            branch_metrics::last_model,
            branch_metrics::last_measure_json,
        ))
        .first(r.connection())
        .optional()?;
    let Some((turns, duration, cost_usd, last_input, context, last_model, last_measure)) = found else {
        return Ok(None);
    };
    let place = || format!("the totals of branch {branch}");
    Ok(Some(BranchMetrics {
        metrics: RuntimeMetrics {
            turns: count(turns, place)?,
            duration_ms: Millis(duration),
            cost_usd,
            last_input_tokens: count(last_input, place)?,
            context: context.map(|text| json(&text, place)).transpose()?,
        },
        last_model: optional_id(last_model.as_deref(), place)?,
        last_measure: last_measure.map(|text| json(&text, place)).transpose()?,
    }))
}

/// Folds one event into the row of its branch, in the write that appends it.
pub(crate) fn fold_into_row(
    txn: &mut WriteTxn<'_>,
    event: &AgentEvent,
    seq: EventSeq,
) -> Result<(), StoreError> {
    let counts = matches!(
        event,
        AgentEvent::TurnCompleted { .. }
            | AgentEvent::ModelContextProjected { .. }
            | AgentEvent::StreamEnded { .. }
    );
    let (true, Some(branch)) = (counts, event.branch_id()) else { return Ok(()) };
    let stored = read_row(txn, branch)?;
    let is_new = stored.is_none();
    let mut totals = stored.unwrap_or_default();
    totals.fold(event, seq);
    let columns = (
        branch_metrics::turns.eq(column(totals.metrics.turns)),
        branch_metrics::duration_ms.eq(totals.metrics.duration_ms.0),
        branch_metrics::cost_usd.eq(totals.metrics.cost_usd),
        branch_metrics::last_input_tokens.eq(column(totals.metrics.last_input_tokens)),
        branch_metrics::context_json.eq(totals.metrics.context.as_ref().map(to_json).transpose()?),
        branch_metrics::last_model.eq(totals.last_model.as_ref().map(ModelId::as_str)),
        branch_metrics::last_measure_json.eq(totals.last_measure.as_ref().map(to_json).transpose()?),
    );
    if is_new {
        diesel::insert_into(branch_metrics::table)
            .values((branch_metrics::branch_id.eq(branch.as_str()), columns))
            .execute(txn.connection())?;
    } else {
        diesel::update(branch_metrics::table.find(branch.as_str())).set(columns).execute(txn.connection())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gent_protocol::{MessageId, SessionId, StepOutcome, Usage};

    use super::*;

    fn ended(usage: Option<Usage>, overhead: Option<u64>) -> AgentEvent {
        AgentEvent::StreamEnded {
            session_id: SessionId::parse("s").unwrap(),
            branch_id: BranchId::parse("b").unwrap(),
            message_id: MessageId::parse("m").unwrap(),
            step: 1,
            usage,
            request_overhead_tokens: overhead,
            model: Some(ModelId::parse("p/m").unwrap()),
            cost_usd: Some(0.5),
            priced_model: None,
            interrupted: false,
            outcome: StepOutcome::Answered,
        }
    }

    #[test]
    fn a_step_without_usage_keeps_the_last_measure_and_the_last_input() {
        let mut totals = BranchMetrics::default();
        let usage = Usage { input_tokens: 9, ..Usage::default() };
        assert!(totals.fold(&ended(Some(usage), Some(2)), EventSeq(4)));
        let measured = totals.last_measure.clone();
        assert!(totals.fold(&ended(None, None), EventSeq(5)));
        assert_eq!(totals.last_measure, measured);
        assert_eq!(totals.metrics.last_input_tokens, 9);
        assert!((totals.metrics.cost_usd - 1.0).abs() < 1e-9);
        let measured = measured.unwrap();
        assert_eq!((&measured["model"], &measured["inputTokens"]), (&json!("p/m"), &json!(9)));
    }
}
