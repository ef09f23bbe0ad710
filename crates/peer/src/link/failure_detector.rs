//! The failure detector: decides whether a peer is alive by when it was last heard.
//!
//! Pure: times are parameters, on the monotonic clock.

use std::time::Duration;

/// How often a link pings its peer.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(100);

/// A peer that was silent for this long although it was pinged is suspected.
pub(crate) const SUSPECT_AFTER: Duration = Duration::from_millis(400);

/// A connection that was silent for this long is closed, and the peer is dialled
/// again: the peer's machine may have lost the connection, which nothing else
/// would reveal. Where the network was cut, TCP itself sends again only after waits
/// that double, so once the network is whole a new connection is there long before
/// the old one comes back to life.
pub(crate) const CLOSE_AFTER: Duration = Duration::from_secs(1);

/// The same while the system takes no more of what this node has to send. Then pings wait
/// behind what it has taken, which a slow network may carry for longer than
/// [`CLOSE_AFTER`]; a connection that was closed meanwhile would send all of it again, for
/// ever.
const CLOSE_BLOCKED_AFTER: Duration = Duration::from_secs(5);

/// A heartbeat that is later than this shows that this node itself was paused.
const LATE_AFTER: Duration = Duration::from_millis(200);

/// What the silence of a peer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It is too short to mean anything.
    Alive,
    /// It is so long that no request waits for the peer any more.
    Suspected,
    /// It is so long that the connection is closed.
    Dead,
}

/// Watches the silence of one peer on one connection.
#[derive(Debug)]
pub(crate) struct FailureDetector {
    last_heartbeat: Duration,
    silent_since: Duration,
}

impl FailureDetector {
    /// The detector of a connection that begins now.
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            last_heartbeat: now,
            silent_since: now,
        }
    }

    /// Notes that the peer has sent something.
    pub(crate) fn heard(&mut self, now: Duration) {
        self.silent_since = now;
    }

    /// Judges the peer, at each heartbeat. If the heartbeat is late, this node
    /// was paused and could not hear the peer, so the silence begins anew. `is_blocked`:
    /// the system takes no more of what this node has to send.
    pub(crate) fn heartbeat(&mut self, now: Duration, is_blocked: bool) -> Liveness {
        if now.saturating_sub(self.last_heartbeat) > LATE_AFTER {
            self.silent_since = now;
        }
        self.last_heartbeat = now;
        let close_after = if is_blocked {
            CLOSE_BLOCKED_AFTER
        } else {
            CLOSE_AFTER
        };
        match now.saturating_sub(self.silent_since) {
            silence if silence >= close_after => Liveness::Dead,
            silence if silence >= SUSPECT_AFTER => Liveness::Suspected,
            _ => Liveness::Alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Has a heartbeat every 100 ms from `from_ms` to `to_ms`; returns the last
    /// judgement.
    fn heartbeats(detector: &mut FailureDetector, from_ms: u64, to_ms: u64) -> Liveness {
        let mut liveness = Liveness::Alive;
        for at in (from_ms..=to_ms).step_by(100) {
            liveness = detector.heartbeat(ms(at), false);
        }
        liveness
    }

    #[test]
    fn a_silent_peer_is_suspected_and_then_dead() {
        let mut detector = FailureDetector::new(ms(1_000));
        assert_eq!(heartbeats(&mut detector, 1_000, 1_300), Liveness::Alive);
        assert_eq!(detector.heartbeat(ms(1_400), false), Liveness::Suspected);
        detector.heard(ms(1_450));
        assert_eq!(heartbeats(&mut detector, 1_500, 1_800), Liveness::Alive);
        assert_eq!(heartbeats(&mut detector, 1_900, 2_400), Liveness::Suspected);
        assert_eq!(detector.heartbeat(ms(2_500), false), Liveness::Dead);
    }

    #[test]
    fn a_peer_that_is_sent_much_over_a_slow_network_may_be_silent_for_longer() {
        let mut detector = FailureDetector::new(ms(0));
        for at in (0..5_000).step_by(100) {
            assert_ne!(detector.heartbeat(ms(at), true), Liveness::Dead, "{at} ms");
        }
        assert_eq!(detector.heartbeat(ms(5_000), true), Liveness::Dead);
    }

    #[test]
    fn a_node_that_was_paused_suspects_no_peer() {
        let mut detector = FailureDetector::new(ms(0));
        heartbeats(&mut detector, 0, 300);
        assert_eq!(detector.heartbeat(ms(60_000), false), Liveness::Alive);
        assert_eq!(heartbeats(&mut detector, 60_100, 60_300), Liveness::Alive);
        assert_eq!(detector.heartbeat(ms(60_400), false), Liveness::Suspected);
    }
}
