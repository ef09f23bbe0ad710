//! The controller of background work: a pure function of measurements.
//!
//! At every step it decides what share of the time background work may use. The share rises by a
//! fixed amount a second (additive increase), and is halved when clients feel the work
//! (multiplicative decrease), as TCP shares a line. After a decrease it rises only once a window of
//! requests has shown nothing. It never falls below [`SHARE_MIN`].
//!
//! While clients send requests, the share stays close to what background work really uses, as TCP
//! does not trust a window that was not filled (RFC 7661). So new work, such as a rebuild, starts
//! slowly: clients would feel an unused share that had grown too large before a window of requests
//! shows it.
//!
//! Clients feel background work when one of these holds:
//! - The runtimes are **saturated**: they have little idle time. A runtime that waits for a
//!   processor is not idle: if it shares the processors with others, it gets less of them than it
//!   needs.
//! - The **queueing delay** of the runtimes is well above its baseline.
//! - More requests are **slow** than chance explains: slower than [`SLOW_FACTOR`] times
//!   the baseline of their 99th percentile.
//!
//! A baseline is measured while background work rests or is at its floor. So a lasting change of
//! the load does no harm: the share falls to the floor, where the baseline is learned again. While
//! background work runs above it, for example because overdue work has a raised floor, a baseline
//! can only fall; otherwise the harm would become the norm. Saturation has no baseline: it is never
//! normal.
//!
//! The controller compares counts of slow requests, not percentiles, because the percentile of a
//! few hundred requests varies severalfold from window to window. One slow request is never enough,
//! and neither is one late probe (the caller leaves out the greatest one).

use super::latencies::{LatencyCounts, LatencyWindow};
use std::time::Duration;

/// The floor: each kind of background work may always use this share of its time.
pub(super) const SHARE_MIN: f64 = 0.02;

/// How often the floor of a kind is doubled at most, while that work is overdue: to 16%.
pub(super) const DOUBLINGS_MAX: u32 = 3;

/// How much the share rises in a second: from the floor to all in five seconds.
const INCREASE_A_SECOND: f64 = 0.2;

/// How far ahead of what is used the share may be: so many times as much, and this more.
const UNUSED_FACTOR: f64 = 2.0;
const UNUSED: f64 = 0.1;

/// Over how long it is averaged what is used.
const USED_OVER: Duration = Duration::from_secs(1);

/// What is left of the share when clients feel the work.
const DECREASE: f64 = 0.5;

/// The greatest time between two steps. After a longer one the process or its clock
/// stood still, and what was measured says nothing.
pub(super) const STEP_MAX: Duration = Duration::from_secs(2);

/// The share of their time that runtimes are busy when they are saturated. Near this point
/// requests begin to queue for several times as long as they take.
const SATURATED: f64 = 0.8;

/// A queueing delay up to this one is never felt. Timers are late by a millisecond.
const DELAY_MIN: Duration = Duration::from_millis(2);

/// A queueing delay is felt from this many times its baseline on.
const DELAY_FACTOR: f64 = 2.0;

/// A request is slow from this many times the baseline on. Clients may see their 99th
/// percentile double; the controller acts before.
const SLOW_FACTOR: f64 = 1.5;

/// A request is not slow unless it takes so much longer than the baseline.
const SLOW_MIN: Duration = Duration::from_micros(250);

/// A window of requests ends after this time, or after so many requests.
const WINDOW_MAX: Duration = Duration::from_millis(500);
const WINDOW_REQUESTS: u64 = 4_000;

/// A window with fewer requests says nothing.
const WINDOW_REQUESTS_MIN: u64 = 20;

/// A baseline counts once it was learned from so many windows.
const WINDOWS_LEARNED_MIN: u32 = 4;

/// How much of a baseline a new measurement replaces, and how much while background
/// work does more than its floor.
const LEARN: f64 = 1.0 / 16.0;
const LEARN_FALLING: f64 = 1.0 / 64.0;

/// Background work that used no more of a core than this has not been felt.
const UNFELT: f64 = 0.05;

/// What was measured since the last step.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// The time on the monotonic clock.
    pub(super) now: Duration,
    /// The queueing delay of the runtimes, without the greatest outlier.
    pub(super) queueing_delay: Duration,
    /// The share of their time that the runtimes were busy or waited for a processor; 0 if
    /// that is unknown.
    pub(super) busy: f64,
    /// How long requests took, since the start.
    pub(super) latencies: LatencyCounts,
    /// How long background work of all kinds worked since the last step.
    pub(super) worked: Duration,
    /// Whether the floor of a kind is raised, because its work is overdue.
    pub(super) is_floor_raised: bool,
}

/// What is normal, learned while background work is not felt.
#[derive(Clone, Copy, Debug, Default)]
struct Baseline {
    normal: Duration,
    /// From how many measurements.
    learned: u32,
}

impl Baseline {
    /// Learns from a measurement, while background work does more than its floor only
    /// what is better than the baseline.
    fn learn(&mut self, measured: Duration, is_unfelt: bool) {
        let part = match (is_unfelt, self.learned) {
            (true, learned) => (1.0 / (f64::from(learned) + 1.0)).max(LEARN),
            (false, 0) => return,
            (false, _) if measured >= self.normal => return,
            (false, _) => LEARN_FALLING,
        };
        self.normal = self.normal.mul_f64(1.0 - part) + measured.mul_f64(part);
        if is_unfelt {
            self.learned = self.learned.saturating_add(1);
        }
    }
}

/// The requests since a moment.
#[derive(Debug, Default)]
struct Window {
    began: Duration,
    before: LatencyCounts,
    /// How long background work worked in it.
    worked: Duration,
}

/// What a window of requests says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requests {
    /// Too few so far, or nothing unusual.
    Fine,
    /// Too many were slow.
    Slow,
    /// The baseline is not known yet.
    Unknown,
}

/// The controller.
#[derive(Debug)]
pub(super) struct Controller {
    share: f64,
    /// Which share of the time all background work has used of late.
    used: f64,
    /// Whether the last window had requests enough to say something.
    has_clients: bool,
    /// Whether the share has fallen, and what came of it is not known yet.
    waits: bool,
    stepped: Duration,
    delay: Duration,
    delay_baseline: Baseline,
    latency: Duration,
    latency_baseline: Baseline,
    window: Window,
}

impl Controller {
    /// A controller that gives background work all its time until clients feel it.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            share: 1.0,
            used: 0.0,
            has_clients: false,
            waits: false,
            stepped: now,
            delay: Duration::ZERO,
            delay_baseline: Baseline::default(),
            latency: Duration::ZERO,
            latency_baseline: Baseline::default(),
            window: Window {
                began: now,
                ..Window::default()
            },
        }
    }

    /// The share of its time that each kind of background work may use.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// The queueing delay in the last step, and its baseline.
    pub(super) fn queueing_delay(&self) -> (Duration, Duration) {
        (self.delay, self.delay_baseline.normal)
    }

    /// The 99th percentile of the last window of requests, and its baseline.
    pub(super) fn latency(&self) -> (Duration, Duration) {
        (self.latency, self.latency_baseline.normal)
    }

    /// Decides on the share until the next step.
    pub(super) fn step(&mut self, measured: &Measured) {
        let elapsed = measured.now.saturating_sub(self.stepped);
        self.stepped = measured.now;
        if elapsed > STEP_MAX {
            self.begin_window(measured);
            return;
        }
        self.note_used(measured.worked, elapsed);
        let is_saturated = measured.busy >= SATURATED;
        let is_delayed = self.judge_delay(measured, elapsed, is_saturated);
        let requests = self.judge_requests(measured, is_saturated);
        if is_saturated || is_delayed || requests == Requests::Slow {
            self.share = (self.share * DECREASE).max(SHARE_MIN);
            // The requests so far were served beside more work than the next ones are.
            self.begin_window(measured);
            self.waits = true;
        } else if requests == Requests::Unknown {
            self.share = SHARE_MIN;
        } else if !self.waits {
            let change = INCREASE_A_SECOND * elapsed.as_secs_f64();
            let most = self.share_max();
            self.share = if self.share <= most {
                (self.share + change).min(most)
            } else {
                (self.share - change).max(most)
            };
        }
    }

    fn note_used(&mut self, worked: Duration, elapsed: Duration) {
        if !elapsed.is_zero() {
            let used = worked.as_secs_f64() / elapsed.as_secs_f64();
            let part = (elapsed.as_secs_f64() / USED_OVER.as_secs_f64()).min(1.0);
            self.used += part * (used - self.used);
        }
    }

    /// How far the share may rise for now.
    fn share_max(&self) -> f64 {
        if self.has_clients {
            (UNUSED_FACTOR * self.used + UNUSED).min(1.0)
        } else {
            1.0
        }
    }

    /// Whether background work that worked so long is not felt.
    fn is_unfelt(&self, worked: Duration, elapsed: Duration, is_floor_raised: bool) -> bool {
        let is_at_floor = self.share <= SHARE_MIN && !is_floor_raised;
        is_at_floor || worked <= elapsed.mul_f64(UNFELT)
    }

    /// Whether the queueing delay is felt.
    fn judge_delay(&mut self, measured: &Measured, elapsed: Duration, is_saturated: bool) -> bool {
        self.delay = measured.queueing_delay;
        let normal = self.delay_baseline.normal.mul_f64(DELAY_FACTOR);
        let is_delayed = self.delay > DELAY_MIN.max(normal);
        if !is_saturated {
            let is_unfelt = self.is_unfelt(measured.worked, elapsed, measured.is_floor_raised);
            self.delay_baseline.learn(self.delay, is_unfelt);
        }
        is_delayed
    }

    /// What the requests say; once a window.
    fn judge_requests(&mut self, measured: &Measured, is_saturated: bool) -> Requests {
        self.window.worked += measured.worked;
        let window = LatencyWindow::between(&self.window.before, &measured.latencies);
        let elapsed = measured.now.saturating_sub(self.window.began);
        let requests = window.requests();
        if elapsed < WINDOW_MAX && requests < WINDOW_REQUESTS {
            return self.judge_unmeasured(requests);
        }
        let is_unfelt = self.is_unfelt(self.window.worked, elapsed, measured.is_floor_raised);
        self.begin_window(measured);
        self.waits = false;
        self.has_clients = requests >= WINDOW_REQUESTS_MIN;
        if !self.has_clients {
            return Requests::Fine;
        }
        self.latency = window.quantile(0.99);
        let normal = self.latency_baseline.normal;
        let slow = normal.mul_f64(SLOW_FACTOR).max(normal + SLOW_MIN);
        // One in a hundred by definition, and what chance adds: two deviations.
        let expected = requests as f64 / 100.0;
        let is_slow = window.slower_than(slow) > expected + 2.0 * expected.sqrt() + 1.0;
        if !is_saturated {
            self.latency_baseline.learn(self.latency, is_unfelt);
        }
        match self.judge_unmeasured(requests) {
            Requests::Fine if is_slow => Requests::Slow,
            known => known,
        }
    }

    /// Unknown while clients send requests and it is not known what is normal.
    fn judge_unmeasured(&self, requests: u64) -> Requests {
        let is_known = self.latency_baseline.learned >= WINDOWS_LEARNED_MIN;
        if !is_known && requests >= WINDOW_REQUESTS_MIN {
            Requests::Unknown
        } else {
            Requests::Fine
        }
    }

    fn begin_window(&mut self, measured: &Measured) {
        self.window = Window {
            began: measured.now,
            before: measured.latencies.clone(),
            worked: Duration::ZERO,
        };
    }
}
