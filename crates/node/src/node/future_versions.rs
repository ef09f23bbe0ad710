//! Finds versions from the future, for a node that was told to drop them.

use base::{Clock, Timestamp};
use std::time::Duration;

/// The last timestamp that is not from the future: as far ahead of the clock as stores
/// take versions of other nodes. A lower end would drop versions that two nodes within
/// the bound have given a timestamp and acknowledged.
///
/// # Errors
/// The clock was never set: by such a clock all versions are from the future.
pub(crate) fn end_of_present(
    clock: &dyn Clock,
    drift_max: Duration,
) -> Result<Timestamp, lsm::Error> {
    let now_unix_ms = clock.unix_ms();
    if now_unix_ms < Timestamp::EPOCH_UNIX_MS {
        return Err(lsm::Error::Invalid(
            "--drop-future-versions needs a correct clock, but this machine's clock shows a time \
             before 2020: set the clock, then start the node again"
                .to_owned(),
        ));
    }
    let drift_max_ms = u64::try_from(drift_max.as_millis()).unwrap_or(u64::MAX);
    let end_unix_ms = now_unix_ms.saturating_add(drift_max_ms.saturating_mul(2));
    Ok(Timestamp::new(end_unix_ms, u16::MAX, u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;
    use cluster::ClockBound;

    #[test]
    fn a_version_that_stores_still_take_is_not_from_the_future() {
        let hour = Duration::from_secs(3600);
        let now_unix_ms = Timestamp::EPOCH_UNIX_MS + 1_000_000;
        let end = end_of_present(&ManualClock::new(now_unix_ms), hour).unwrap();
        assert!(ClockBound::new(hour).accepts(end, now_unix_ms));
        let next = Timestamp::from_u64(end.as_u64() + 1);
        assert!(!ClockBound::new(hour).accepts(next, now_unix_ms));
        assert!(end_of_present(&ManualClock::new(5), hour).is_err());
    }
}
