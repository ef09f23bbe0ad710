use super::*;
use crate::plan::Operation;
use crate::testing::{Reply, TestServer};
use std::time::Duration;

/// A server that answers at most 500 requests per second.
fn slow() -> TestServer {
    TestServer::start(|_, _| {
        std::thread::sleep(Duration::from_millis(2));
        Reply::Store
    })
}

fn plan(server: &TestServer) -> Plan {
    Plan {
        connections: 4,
        warmup_seconds: 0.05,
        seconds: 0.2,
        ..Plan::new(server.url(), Operation::Put, Rate::PerSecond(50.0))
    }
}

fn bound() -> Bound {
    Bound {
        p99_ms: 100.0,
        ..Bound::default()
    }
}

#[test]
fn the_breaking_point_is_near_the_capacity_of_the_server() {
    let server = slow();
    let mut watched = Vec::new();
    let stop = AtomicBool::new(false);
    let found = find_breaking_point(&plan(&server), bound(), &stop, &mut |probe| {
        watched.push(*probe);
    })
    .unwrap();
    assert_eq!(watched, found.probes);
    let rate = found.rate.unwrap();
    // A busy machine sleeps longer than asked, never shorter, and may hold hardly anything.
    assert!(rate > 0.0 && rate <= 520.0, "{found:?}");
    assert_eq!(found.best.unwrap().plan.rate, Rate::PerSecond(rate));
    let beyond = found.probes.iter().filter(|probe| probe.rate > rate);
    assert!(beyond.clone().count() > 0 && beyond.into_iter().any(|probe| !probe.held));
}

#[test]
fn a_rate_with_refusals_does_not_hold() {
    let server = TestServer::start(|request, _| match request.number % 10 {
        0 => Reply::Answer(503, Vec::new()),
        _ => Reply::Store,
    });
    let plan = plan(&server);
    let run = generator::run(&plan, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let probe = Bound {
        achieved_share: 0.9,
        ..bound()
    };
    let strict = probe.judge(50.0, &run);
    assert!(strict.failed_share > 0.01 && !strict.held, "{strict:?}");
}

#[test]
fn a_wrong_value_ends_the_search() {
    let server = TestServer::start(|_, _| Reply::Answer(200, b"anything".to_vec()));
    let plan = Plan {
        operations: vec![(Operation::Get, 1.0)],
        ..plan(&server)
    };
    let found = find_breaking_point(&plan, bound(), &AtomicBool::new(false), &mut |_| {});
    let found = found.unwrap();
    assert_eq!((found.rate, found.probes.len()), (None, 1));
    assert!(found.cut_short.unwrap().contains("never put"));
}

#[test]
fn a_search_that_is_stopped_keeps_what_it_found() {
    let server = TestServer::store();
    let stop = AtomicBool::new(false);
    let found = find_breaking_point(&plan(&server), bound(), &stop, &mut |_| {
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let found = found.unwrap();
    assert_eq!(found.probes.len(), 1);
    assert!(found.cut_short.is_some());
}
