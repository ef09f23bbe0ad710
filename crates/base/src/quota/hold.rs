//! A hold: for a moment, nothing is done of what one owner decides.

use std::time::Duration;

/// What holds off something, for example the commits of a store, for a bounded time.
///
/// Whoever began a hold learns at its end whether it lasted from its begin until then. So what
/// several owners held off at one moment is known without a clock that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The number of the hold in force, and until when it lasts on the monotonic clock.
    current: Option<(u64, Duration)>,
}

impl Hold {
    /// Begins a hold until `until`. The number must be new. Returns false if another one is in
    /// force.
    pub fn begin(&mut self, number: u64, until: Duration) -> bool {
        let is_free = self.current.is_none();
        if is_free {
            self.current = Some((number, until));
        }
        is_free
    }

    /// How long the hold in force still lasts. One whose time is over ends here.
    pub fn left(&mut self, now: Duration) -> Option<Duration> {
        let (_, until) = self.current?;
        let left = until.saturating_sub(now);
        if left.is_zero() {
            self.current = None;
            return None;
        }
        Some(left)
    }

    /// Ends the hold with this number. Returns whether it was in force from its begin until now.
    pub fn end(&mut self, number: u64) -> bool {
        let is_held = matches!(self.current, Some((held, _)) if held == number);
        if is_held {
            self.current = None;
        }
        is_held
    }

    /// Ends the hold in force, whoever began it.
    pub fn give_up(&mut self) {
        self.current = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_hold_is_in_force_at_a_time_and_ends_by_itself() {
        let mut hold = Hold::default();
        assert!(hold.begin(1, 3 * SECOND));
        assert!(!hold.begin(2, 9 * SECOND), "another one is in force");
        assert_eq!(hold.left(SECOND), Some(2 * SECOND));
        assert_eq!(hold.left(3 * SECOND), None);
        assert!(!hold.end(1), "its time was over");
        assert!(hold.begin(2, 9 * SECOND));
        assert!(!hold.end(1) && hold.end(2) && !hold.end(2));
    }

    #[test]
    fn a_hold_whose_time_nobody_has_noticed_was_in_force() {
        let mut hold = Hold::default();
        assert!(hold.begin(1, SECOND));
        assert!(hold.end(1));
    }
}
