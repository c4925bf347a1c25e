//! Owns when a failed request is tried again. Pure: no clock, no randomness of its own.
//! Tested below.

use std::time::Duration;

use crate::{FailureKind, ProviderFailure};

/// When a failed request is tried again, as long as nothing of it was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// The first wait.
    pub initial_delay: Duration,
    /// The longest wait; a provider's own `retry-after` is cut to it.
    pub max_delay: Duration,
    /// What each wait is multiplied with.
    pub factor: f64,
    /// Attempts in all, the first included.
    pub max_attempts: u32,
}

impl Default for RetryPolicy {
    /// Three attempts, 2 s, doubled, at most 30 s (core behaviour, section "Retry").
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(2),
            max_delay: Duration::from_secs(30),
            factor: 2.0,
            max_attempts: 3,
        }
    }
}

impl RetryPolicy {
    /// The wait after attempt `attempt` (from 1), or none when it was the last or must not be repeated.
    /// `uniform` is a random number of 0 to 1: it adds up to a quarter.
    pub fn delay(&self, attempt: u32, failure: &ProviderFailure, uniform: f64) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        match failure.kind {
            FailureKind::Transient | FailureKind::RateLimited => {}
            FailureKind::Auth | FailureKind::ContextOverflow | FailureKind::Refused => return None,
        }
        let wait = match failure.retry_after {
            Some(asked) => asked,
            None => {
                let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
                let seconds = self.initial_delay.as_secs_f64()
                    * self.factor.powi(exponent)
                    * (1.0 + 0.25 * uniform.clamp(0.0, 1.0));
                Duration::try_from_secs_f64(seconds).unwrap_or(self.max_delay)
            }
        };
        Some(Duration::from_millis(u64::try_from(wait.min(self.max_delay).as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, retry_after: Option<u64>) -> ProviderFailure {
        ProviderFailure { kind, message: "busy".into(), retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn waits_double_are_capped_and_end_after_the_third_attempt() {
        let policy = RetryPolicy::default();
        let transient = failure(FailureKind::Transient, None);
        assert_eq!(policy.delay(1, &transient, 0.0), Some(Duration::from_secs(2)));
        assert_eq!(policy.delay(2, &transient, 1.0), Some(Duration::from_secs(5)));
        assert_eq!(policy.delay(3, &transient, 0.0), None);
        let asked = failure(FailureKind::RateLimited, Some(3));
        assert_eq!(policy.delay(1, &asked, 1.0), Some(Duration::from_secs(3)));
        let too_long = failure(FailureKind::RateLimited, Some(3600));
        assert_eq!(policy.delay(1, &too_long, 0.0), Some(Duration::from_secs(30)));
    }

    #[test]
    fn what_would_fail_again_is_not_tried_again() {
        for kind in [FailureKind::Auth, FailureKind::ContextOverflow, FailureKind::Refused] {
            assert_eq!(RetryPolicy::default().delay(1, &failure(kind, Some(1)), 0.0), None);
        }
    }
}
