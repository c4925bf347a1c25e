//! Owns how a day is written for a model: the local date with its zone.
//! Never reads the clock. Tested below.

use gent_protocol::Millis;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The day of a moment, such as `2026-01-31 (Europe/Berlin)`; in UTC where the machine names no zone.
pub(crate) fn local_day(at: Millis) -> String {
    day_in(at, TimeZone::system())
}

fn day_in(at: Millis, zone: TimeZone) -> String {
    let moment = Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH);
    let name = zone.iana_name().unwrap_or("UTC").to_owned();
    let local = moment.to_zoned_datetime(zone);
    format!("{} ({name})", local.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_that_of_its_zone() {
        let at = Millis(1_769_900_400_000);
        assert_eq!(day_in(at, TimeZone::UTC), "2026-01-31 (UTC)");
        assert_eq!(day_in(Millis(i64::MAX), TimeZone::UTC), "1970-01-01 (UTC)");
    }
}
