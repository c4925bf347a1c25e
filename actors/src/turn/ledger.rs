//! Owns the sums of a turn: tokens and cost. A step whose count is unknown makes the turn's sum unknown.
//! Pure. Tested below (G11, G12, G13).

use gent_extension_api::KnownUsage;
use gent_protocol::{Pricing, Usage};
use serde::{Deserialize, Serialize};

/// The largest whole number that every JSON reader keeps exactly.
const SAFE: u64 = (1 << 53) - 1;

/// The sums of a turn so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    steps: u32,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    cost: f64,
    #[serde(default)]
    is_usage_partial: bool,
    #[serde(default)]
    is_cost_partial: bool,
}

impl Ledger {
    /// Adds a step; `None` where its count or price is unknown.
    pub(crate) fn add(&mut self, usage: Option<Usage>, cost: Option<f64>) {
        self.steps += 1;
        match usage.and_then(|usage| sum(self.usage, usage)) {
            Some(total) => self.usage = total,
            None => self.is_usage_partial = true,
        }
        match cost {
            Some(cost) => self.cost += cost,
            None => self.is_cost_partial = true,
        }
    }

    /// Something of this turn was spent where it was not seen.
    pub(crate) fn mark_partial(&mut self) {
        self.is_usage_partial = true;
        self.is_cost_partial = true;
    }

    /// What is known of the turn's spending, and whether that is all of it.
    pub(crate) fn known(&self) -> KnownUsage {
        KnownUsage {
            known: self.usage,
            cost_usd: (self.cost > 0.0).then_some(self.cost),
            complete: self.usage().is_some(),
        }
    }

    /// The turn's tokens, when every step's are known.
    pub(crate) fn usage(&self) -> Option<Usage> {
        (self.steps > 0 && !self.is_usage_partial).then_some(self.usage)
    }

    /// The turn's cost, beside its tokens, when every step was priced.
    pub(crate) fn cost(&self) -> Option<f64> {
        (self.usage().is_some() && !self.is_cost_partial).then_some(self.cost)
    }
}

fn sum(a: Usage, b: Usage) -> Option<Usage> {
    let add = |a: u64, b: u64| a.checked_add(b).filter(|sum| *sum <= SAFE);
    let add_known = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => Some(None),
        (a, b) => add(a.unwrap_or(0), b.unwrap_or(0)).map(Some),
    };
    Some(Usage {
        input_tokens: add(a.input_tokens, b.input_tokens)?,
        output_tokens: add(a.output_tokens, b.output_tokens)?,
        cache_read_tokens: add_known(a.cache_read_tokens, b.cache_read_tokens)?,
        cache_write_tokens: add_known(a.cache_write_tokens, b.cache_write_tokens)?,
    })
}

/// What a step cost, in US dollars.
pub(crate) fn cost(usage: &Usage, pricing: &Pricing) -> f64 {
    let read = usage.cache_read_tokens.unwrap_or(0);
    let write = usage.cache_write_tokens.unwrap_or(0);
    let plain = usage.input_tokens.saturating_sub(read).saturating_sub(write);
    (plain as f64 * pricing.input
        + read as f64 * pricing.cache_read.unwrap_or(pricing.input)
        + write as f64 * pricing.cache_write.unwrap_or(pricing.input)
        + usage.output_tokens as f64 * pricing.output)
        / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
    }

    #[test]
    fn one_step_without_usage_leaves_the_turn_without_usage_and_cost_g11() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.usage(), None);
        ledger.add(Some(usage(10, 1)), Some(0.5));
        assert_eq!((ledger.usage(), ledger.cost()), (Some(usage(10, 1)), Some(0.5)));
        ledger.add(None, Some(0.5));
        assert_eq!((ledger.usage(), ledger.cost()), (None, None));
    }

    #[test]
    fn one_unpriced_step_leaves_the_turn_with_usage_and_without_cost_g12() {
        let mut ledger = Ledger::default();
        ledger.add(Some(usage(10, 1)), Some(0.5));
        ledger.add(Some(usage(5, 2)), None);
        assert_eq!((ledger.usage(), ledger.cost()), (Some(usage(15, 3)), None));
    }

    #[test]
    fn a_sum_beyond_exact_numbers_is_unknown() {
        let mut ledger = Ledger::default();
        ledger.add(Some(usage(SAFE, 1)), None);
        ledger.add(Some(usage(1, 1)), None);
        assert_eq!(ledger.usage(), None);
    }

    #[test]
    fn cached_input_is_priced_at_its_own_rate() {
        let pricing = Pricing { input: 10.0, output: 100.0, cache_read: Some(1.0), cache_write: None };
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 10_000,
            cache_read_tokens: Some(500_000),
            cache_write_tokens: Some(100_000),
        };
        assert!((cost(&usage, &pricing) - (4.0 + 0.5 + 1.0 + 1.0)).abs() < 1e-9);
    }
}
