//! Traces of the controller: what it decides as the load changes.

use super::controller::{Controller, Measured, SHARE_MIN, STEP_MAX};
use super::latencies::LatencyCounts;
use std::time::Duration;

static BOUNDS_US: [u64; 9] = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000];

const STEP: Duration = Duration::from_millis(100);

/// What clients and runtimes do in a step of the trace.
#[derive(Clone, Copy)]
struct Load {
    requests: u64,
    /// How long one in fifty requests takes; the others are quick.
    slow_us: u64,
    queueing_delay: Duration,
    busy: f64,
    /// How much of its share background work uses.
    work: f64,
}

const IDLE: Load = Load {
    requests: 0,
    slow_us: 0,
    queueing_delay: Duration::ZERO,
    busy: 0.01,
    work: 1.0,
};

const HALF: Load = Load {
    requests: 1_000,
    slow_us: 600,
    queueing_delay: Duration::from_micros(100),
    busy: 0.5,
    work: 1.0,
};

const OVERLOAD: Load = Load {
    requests: 2_000,
    slow_us: 20_000,
    queueing_delay: Duration::from_millis(20),
    busy: 0.99,
    work: 1.0,
};

fn count(counts: &mut LatencyCounts, us: u64, requests: u64) {
    counts.bounds_us = &BOUNDS_US;
    counts.counts.resize(BOUNDS_US.len() + 1, 0);
    counts.counts[BOUNDS_US.partition_point(|bound| *bound < us)] += requests;
}

/// A controller on its own, under a load that a test writes down.
struct Trace {
    controller: Controller,
    now: Duration,
    latencies: LatencyCounts,
    is_floor_raised: bool,
}

impl Trace {
    fn new() -> Self {
        Self {
            controller: Controller::new(Duration::ZERO),
            now: Duration::ZERO,
            latencies: LatencyCounts::default(),
            is_floor_raised: false,
        }
    }

    fn share(&self) -> f64 {
        self.controller.share()
    }

    fn step(&mut self, load: Load) -> f64 {
        self.now += STEP;
        let slow = load.requests / 50;
        count(&mut self.latencies, load.slow_us, slow);
        count(&mut self.latencies, 60, load.requests - slow);
        self.controller.step(&Measured {
            now: self.now,
            queueing_delay: load.queueing_delay,
            busy: load.busy,
            latencies: self.latencies.clone(),
            worked: STEP.mul_f64(self.share() * load.work),
            is_floor_raised: self.is_floor_raised,
        });
        self.share()
    }

    fn run(&mut self, seconds: u64, load: Load) -> f64 {
        for _ in 0..10 * seconds {
            self.step(load);
        }
        self.share()
    }

    /// After a while in which clients were served and there was no background work, and
    /// another one in which they did not feel it.
    fn settled() -> Self {
        let mut trace = Self::new();
        trace.run(20, Load { work: 0.0, ..HALF });
        trace.run(20, HALF);
        assert_eq!(trace.share(), 1.0);
        trace
    }
}

#[test]
fn on_an_idle_machine_background_work_never_rests() {
    let mut trace = Trace::new();
    for _ in 0..600 {
        assert_eq!(trace.step(IDLE), 1.0);
    }
}

#[test]
fn requests_that_do_not_feel_the_work_leave_it_all_its_time() {
    let mut trace = Trace::settled();
    for _ in 0..600 {
        assert_eq!(trace.step(HALF), 1.0);
    }
}

#[test]
fn what_is_normal_is_learned_before_work_is_done_beside_requests() {
    let mut trace = Trace::new();
    assert_eq!(trace.step(HALF), SHARE_MIN);
    assert_eq!(trace.run(1, HALF), SHARE_MIN);
    assert_eq!(trace.run(10, HALF), 1.0);
}

#[test]
fn work_that_begins_beside_requests_begins_slowly() {
    let mut trace = Trace::settled();
    // What was fine before may be too much by the time that there is work again.
    let rests = Load { work: 0.0, ..HALF };
    assert!(trace.run(20, rests) <= 0.11, "{}", trace.share());
    let mut before = trace.share();
    for _ in 0..10 {
        assert!(trace.step(HALF) <= before + 0.03);
        before = trace.share();
    }
    assert_eq!(trace.run(10, HALF), 1.0);
    // Work that uses a tenth of the time does not make room for all.
    let little = Load {
        work: 0.1 / trace.share(),
        ..HALF
    };
    assert!(trace.run(20, little) < 0.4, "{}", trace.share());
}

#[test]
fn without_clients_work_begins_at_once() {
    let mut trace = Trace::settled();
    trace.run(20, Load { work: 0.0, ..HALF });
    assert_eq!(trace.run(10, Load { work: 0.0, ..IDLE }), 1.0);
}

/// Requests that take longer the more background work is done: the share settles where
/// the slow ones take less than twice as long as normally.
#[test]
fn the_share_settles_where_clients_do_not_feel_the_work() {
    let mut trace = Trace::settled();
    let (mut shares, mut slow) = (Vec::new(), Vec::new());
    for number in 0..1_200 {
        let slow_us = (600.0 * (1.0 + 4.0 * trace.share())) as u64;
        let share = trace.step(Load { slow_us, ..HALF });
        if number >= 600 {
            shares.push(share);
            slow.push(slow_us as f64);
        }
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (share, slow_us) = (mean(&shares), mean(&slow));
    assert!((0.05..0.5).contains(&share), "{share}");
    assert!(slow_us < 2.0 * 600.0, "{slow_us}");
}

#[test]
fn at_overload_the_share_falls_to_its_floor_at_once_and_stays_there() {
    let mut trace = Trace::settled();
    trace.run(1, OVERLOAD);
    // Even if it lasts so long that all of it has become normal.
    for _ in 0..6_000 {
        assert_eq!(trace.step(OVERLOAD), SHARE_MIN);
    }
}

#[test]
fn each_sign_of_overload_is_enough() {
    let saturated = Load { busy: 0.85, ..HALF };
    let queueing_delay = Duration::from_millis(10);
    let delayed = Load {
        queueing_delay,
        ..HALF
    };
    let slow = Load {
        slow_us: 9_000,
        ..HALF
    };
    for load in [saturated, delayed, slow] {
        let mut trace = Trace::settled();
        let least = (0..30).map(|_| trace.step(load)).fold(1.0, f64::min);
        assert_eq!(least, SHARE_MIN);
    }
}

/// At the breaking point requests are as slow as ever and runtimes have a little idle time
/// left, whether background work is done or not: only that there is little tells it.
#[test]
fn at_the_breaking_point_work_has_its_floor_and_no_more() {
    let full = Load {
        slow_us: 9_000,
        busy: 0.82,
        ..HALF
    };
    let mut trace = Trace::new();
    trace.run(30, Load { work: 0.0, ..full });
    for _ in 0..600 {
        assert_eq!(trace.step(full), SHARE_MIN);
    }
    assert_eq!(trace.run(20, HALF), 1.0);
}

/// A slow disk is no reason to starve: clients have what it gives, and what they wait for
/// is not the work.
#[test]
fn a_high_latency_that_does_not_change_leaves_the_work_its_time() {
    let slow = Load {
        slow_us: 24_000,
        queueing_delay: Duration::from_millis(15),
        busy: 0.2,
        ..HALF
    };
    let mut trace = Trace::new();
    trace.run(30, Load { work: 0.0, ..slow });
    assert_eq!(trace.run(20, slow), 1.0);
}

#[test]
fn after_an_overload_the_share_recovers_in_seconds() {
    let mut trace = Trace::settled();
    assert_eq!(trace.run(60, OVERLOAD), SHARE_MIN);
    assert!(trace.run(2, HALF) > 0.1);
    assert_eq!(trace.run(10, HALF), 1.0);
}

/// More load takes longer on any machine; it is no harm that background work does.
#[test]
fn a_lasting_change_of_the_load_becomes_normal() {
    let mut trace = Trace::settled();
    let heavier = Load {
        slow_us: 2_000,
        ..HALF
    };
    assert!(trace.run(3, heavier) < 0.2);
    assert_eq!(trace.run(30, heavier), 1.0);
}

/// Otherwise the share would rise for ever, a little at a time.
#[test]
fn what_clients_feel_beside_the_work_does_not_become_normal() {
    let mut trace = Trace::settled();
    let (_, delay) = trace.controller.queueing_delay();
    let (_, latency) = trace.controller.latency();
    for number in 0..600 {
        // Too little to be felt.
        count(&mut trace.latencies, 990, number % 6);
        let queueing_delay = Duration::from_micros(100 + 3 * number);
        let load = Load {
            queueing_delay,
            ..HALF
        };
        assert_eq!(trace.step(load), 1.0);
    }
    assert!(trace.controller.latency().0 > latency);
    assert!(trace.controller.latency().1 <= latency);
    assert!(trace.controller.queueing_delay().0 > 10 * delay);
    assert!(trace.controller.queueing_delay().1 <= delay);
}

#[test]
fn what_clients_feel_of_overdue_work_does_not_become_normal() {
    // At the floor it works eight times as long as it would.
    let slow = Load {
        queueing_delay: Duration::from_millis(20),
        work: 8.0,
        ..HALF
    };
    for is_floor_raised in [false, true] {
        let mut trace = Trace::settled();
        trace.is_floor_raised = is_floor_raised;
        let (_, before) = trace.controller.queueing_delay();
        for _ in 0..600 {
            trace.step(slow);
        }
        let (_, after) = trace.controller.queueing_delay();
        assert_eq!(after > before, !is_floor_raised, "{before:?} {after:?}");
    }
}

#[test]
fn one_slow_request_is_not_felt() {
    let mut trace = Trace::settled();
    for number in 0..100 {
        if number % 10 == 0 {
            count(&mut trace.latencies, 1_000_000, 1);
        }
        let few = Load {
            requests: 10,
            ..HALF
        };
        assert_eq!(trace.step(few), 1.0);
    }
}

#[test]
fn what_was_measured_while_the_clock_stood_still_says_nothing() {
    let mut trace = Trace::settled();
    for _ in 0..10 {
        trace.now += STEP_MAX;
        assert_eq!(trace.step(OVERLOAD), 1.0);
        assert_eq!(trace.run(1, HALF), 1.0);
    }
}
