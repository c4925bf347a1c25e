//! Owns the restart budget of a branch: how many deaths within a minute, and how long to wait after each.
//! Pure. Tested below.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::{DEATH_WINDOW, DEATHS};

/// The wait after the first death of a minute; doubled after each further one.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// The deaths of a branch's actor that still count.
#[derive(Debug, Default)]
pub(super) struct Deaths(VecDeque<Duration>);

impl Deaths {
    /// Deaths within a minute that are too many.
    pub(super) const MAX: usize = DEATHS;

    /// Counts a death and says how long to wait before the next activation.
    pub(super) fn add(&mut self, now: Duration) -> Duration {
        self.forget(now);
        self.0.push_back(now);
        let before = u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(0).min(8);
        FIRST_WAIT * 2u32.pow(before)
    }

    pub(super) fn are_too_many(&mut self, now: Duration) -> bool {
        self.forget(now);
        self.0.len() >= Self::MAX
    }

    pub(super) fn is_recent(&mut self, now: Duration) -> bool {
        self.forget(now);
        !self.0.is_empty()
    }

    fn forget(&mut self, now: Duration) {
        while self.0.front().is_some_and(|death| now.saturating_sub(*death) > DEATH_WINDOW) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_third_death_within_a_minute_is_too_many_and_older_ones_are_forgotten() {
        let mut deaths = Deaths::default();
        assert_eq!(deaths.add(at(0)), FIRST_WAIT);
        assert_eq!(deaths.add(at(30)), FIRST_WAIT * 2);
        assert!(!deaths.are_too_many(at(30)));
        assert_eq!(deaths.add(at(61)), FIRST_WAIT * 2, "the first is forgotten");
        assert!(!deaths.are_too_many(at(61)));
        deaths.add(at(62));
        assert!(deaths.are_too_many(at(62)));
        assert!(!deaths.is_recent(at(200)));
    }
}
