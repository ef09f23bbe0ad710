//! Latencies count from when a request was due.

use super::*;
use crate::testing::Reply;

const STALL: Duration = Duration::from_millis(300);

/// A server that stalls at its 100th request.
fn stalling() -> TestServer {
    TestServer::start(|request, _| {
        if request.number == 100 {
            // All other requests wait for the lock on the map, which this one
            // holds.
            std::thread::sleep(STALL);
        }
        Reply::Store
    })
}

/// How many requests of a run took longer than `ms`.
fn slower_than(run: &Run, ms: f64) -> f64 {
    let within = run.latency.spectrum.iter().filter(|(_, each)| *each <= ms);
    let share = within
        .map(|(percentile, _)| *percentile)
        .fold(0.0, f64::max);
    run.latency.count as f64 * (1.0 - share / 100.0)
}

#[test]
fn a_stall_is_seen_by_all_requests_that_fell_due_in_it() {
    let server = stalling();
    let plan = Plan {
        rate: Rate::PerSecond(1_000.0),
        seconds: 1.0,
        ..plan(&server, Operation::Put)
    };
    let run = run(&plan);
    // 300 requests fell due during the stall, 250 of them at least 50 ms before
    // its end.
    assert!(slower_than(&run, 50.0) >= 200.0, "{:?}", run.latency);
    assert_eq!(run.due, Some(1_000));
    assert!(run.latency.max_ms >= 300.0);
    let last = run.timeline.last().unwrap();
    assert!(
        (last.at_seconds, run.timeline.len()) == (1.0, 1),
        "{last:?}"
    );
}

#[test]
fn a_closed_loop_sees_a_stall_once_per_connection() {
    let server = stalling();
    let run = run(&Plan {
        seconds: 1.0,
        ..plan(&server, Operation::Put)
    });
    assert_eq!(run.due, None);
    assert!(run.succeeded > 100);
    assert!(run.latency.max_ms >= 300.0);
    let slow = run.latency.spectrum.iter().filter(|(_, ms)| *ms >= 299.0);
    let least = slow
        .map(|(percentile, _)| *percentile)
        .fold(100.0, f64::min);
    // Four requests are slow, unless the machine itself stalls. The spectrum
    // cannot tell four from five, but it can tell four from a tenth of all.
    assert!(least > 90.0, "{:?}", run.latency);
}

#[test]
fn a_rate_is_kept_over_threads_and_connections() {
    let server = TestServer::store();
    let mut seconds = Vec::new();
    let plan = Plan {
        rate: Rate::PerSecond(500.0),
        threads: 2,
        seconds: 2.0,
        warmup_seconds: 0.2,
        ..plan(&server, Operation::Put)
    };
    let run = super::super::run(&plan, &AtomicBool::new(false), &mut |second| {
        seconds.push(*second);
    })
    .unwrap();
    assert_eq!(run.due, Some(1_000));
    assert_eq!((run.measured_seconds, run.cut_short), (2.0, None));
    assert_eq!(seconds, run.timeline);
    let ends: Vec<f64> = seconds.iter().map(|second| second.at_seconds).collect();
    assert_eq!(ends, [1.0, 2.0]);
    let counted: u64 = seconds.iter().map(|second| second.succeeded).sum();
    assert_eq!((counted, run.latency.count), (run.succeeded, run.succeeded));
    // The requests of the warm-up are sent but not counted.
    assert!(server.requests() > run.succeeded, "{}", run.succeeded);
}

#[test]
fn an_overloaded_server_gets_no_more_requests_than_were_due() {
    let server = TestServer::start(|_, _| {
        // At most 100 a second on a connection.
        std::thread::sleep(Duration::from_millis(10));
        Reply::Store
    });
    let plan = Plan {
        rate: Rate::PerSecond(1_000.0),
        ..plan(&server, Operation::Put)
    };
    let run = run(&plan);
    assert_eq!(run.due, Some(300));
    assert!((1..=30).contains(&run.succeeded), "{}", run.succeeded);
}

#[test]
fn the_slowest_requests_are_told_one_by_one() {
    let server = stalling();
    let plan = Plan {
        rate: Rate::PerSecond(1_000.0),
        seconds: 1.0,
        ..plan(&server, Operation::Put)
    };
    let stop = AtomicBool::new(false);
    let (run, slowest) = run_with_slowest(&plan, 20, &stop, &mut |_| {}).unwrap();
    assert_eq!(slowest.len(), 20);
    assert!(slowest.is_sorted_by(|one, other| one.latency() >= other.latency()));
    let most_ms = slowest[0].latency().as_secs_f64() * 1e3;
    assert!(
        (most_ms / run.latency.max_ms - 1.0).abs() < 0.01,
        "{most_ms} ms, {:?}",
        run.latency
    );
    for request in &slowest {
        assert!(request.due <= request.sent && request.sent <= request.received);
        assert!(request.woke <= request.received && request.port > 0);
        assert!(
            request
                .waited_for
                .is_none_or(|before| before <= request.sent)
        );
    }
    // Four connections stalled, and what fell due meanwhile had none.
    let waited = slowest
        .iter()
        .filter(|request| request.waited_for.is_some());
    assert!(waited.count() >= 12, "{slowest:?}");
}
