//! Failures are counted by their cause, and the run continues if it can.

use super::*;
use crate::results::WRONG_VALUE;
use crate::testing::Reply;
use std::collections::BTreeMap;
use std::sync::Mutex;

#[test]
fn a_flipped_bit_and_the_value_of_another_key_are_wrong() {
    let server = TestServer::start(|request, map| {
        let key = request.key();
        match (request.method.as_str(), &key[..12]) {
            ("GET", "000000000003") => {
                let mut value = map[&key].clone();
                value[17] ^= 4;
                Reply::Answer(200, value)
            }
            ("GET", "000000000005") => {
                let other = map.values().next().unwrap();
                Reply::Answer(200, other.clone())
            }
            ("GET", "000000000007") => Reply::Answer(404, Vec::new()),
            _ => Reply::Store,
        }
    });
    let plan = Plan {
        keys: 10,
        connections: 1,
        key_choice: KeyChoice::Sequential,
        ..plan(&server, Operation::Get)
    };
    fill(&plan);
    let run = run(&plan);
    let wrong = run.failed[WRONG_VALUE];
    assert_eq!(run.failed.len(), 1);
    // Of ten responses seven are right and one key is missing; the last round
    // may be incomplete.
    assert!(wrong.abs_diff(run.missing * 2) <= 2, "{run:?}");
    assert!(run.succeeded.abs_diff(run.missing * 8) <= 8, "{run:?}");

    let trusting = Plan {
        verify: false,
        ..plan
    };
    assert_eq!(failed(&super::run(&trusting)), []);
}

#[test]
fn refusals_are_counted_by_status() {
    let server = TestServer::start(|request, _| match request.number % 4 {
        0 => Reply::Store,
        1 => Reply::Answer(504, b"receipt".to_vec()),
        _ => Reply::Answer(503, Vec::new()),
    });
    let run = run(&plan(&server, Operation::Put));
    let (busy, late) = (run.failed["503"], run.failed["504"]);
    assert!(busy.abs_diff(run.succeeded * 2) <= 8, "{run:?}");
    assert!(late.abs_diff(run.succeeded) <= 8, "{run:?}");
    let last = run.timeline.last().unwrap();
    assert_eq!(last.failed, busy + late);
}

#[test]
fn a_server_that_answers_any_request_with_200_stores_nothing() {
    let server = TestServer::start(|_, _| Reply::Answer(200, b"<html>".to_vec()));
    for (operation, failure) in [
        (Operation::Put, "200"),
        (Operation::Insert, "200"),
        (Operation::Delete, "200"),
        (Operation::Get, WRONG_VALUE),
        (Operation::ReadModifyWrite, WRONG_VALUE),
    ] {
        let run = run(&plan(&server, operation));
        assert_eq!(run.succeeded, 0, "{operation:?}: {run:?}");
        assert!(run.failed[failure] > 0, "{operation:?}: {run:?}");
    }
}

#[test]
fn broken_connections_are_opened_again() {
    let server = TestServer::start(|request, _| match request.number % 20 {
        5 => Reply::Close,
        10 => Reply::Raw(b"no HTTP\r\n\r\n".to_vec()),
        // The client closes the connection of an HTTP/1.0 response.
        15 => Reply::Raw(b"HTTP/1.0 201 X\r\nContent-Length: 0\r\n\r\n".to_vec()),
        _ => Reply::Store,
    });
    let run = run(&plan(&server, Operation::Put));
    let (broken, bad) = (run.failed["connection"], run.failed["bad response"]);
    assert!(broken.abs_diff(bad) <= 1, "{run:?}");
    assert!(run.succeeded >= broken * 16, "{run:?}");
    assert_eq!(run.cut_short, None);
}

#[test]
fn a_request_without_a_response_times_out() {
    let server = TestServer::start(|request, _| match request.number {
        3 => Reply::Silence,
        _ => Reply::Store,
    });
    let plan = Plan {
        timeout_seconds: 0.05,
        ..plan(&server, Operation::Put)
    };
    let run = run(&plan);
    // More than one request times out only if the machine itself stalls.
    assert!(run.failed["timeout"] >= 1, "{run:?}");
    assert!(run.succeeded > 4);
}

#[test]
fn a_fill_repeats_failed_requests_and_counts_those_that_keep_failing() {
    // Each key fails twice, so that no key runs out of attempts by chance.
    let asked: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let server = TestServer::start(move |request, _| {
        let mut asked = asked.lock().unwrap();
        let times = asked.entry(request.key()).or_default();
        *times += 1;
        match times {
            1 => Reply::Answer(503, Vec::new()),
            2 => Reply::Close,
            _ => Reply::Store,
        }
    });
    let plan = Plan {
        keys: 20,
        ..plan(&server, Operation::Put)
    };
    let run = fill(&plan);
    assert_eq!((run.succeeded, failed(&run)), (20, vec![]));
    assert_eq!(server.map().len(), 20);

    let server = TestServer::start(|request, _| {
        if request.key().starts_with("000000000003") {
            Reply::Answer(400, Vec::new())
        } else {
            Reply::Store
        }
    });
    let run = fill(&Plan {
        targets: vec![server.url()],
        ..plan
    });
    assert_eq!((run.succeeded, failed(&run)), (19, vec![("400", 1)]));
}

#[test]
fn a_dead_server_ends_the_run_and_measurements_are_kept() {
    let mut server = Some(TestServer::store());
    let plan = Plan {
        seconds: 60.0,
        rate: Rate::PerSecond(1_000.0),
        ..plan(server.as_ref().unwrap(), Operation::Put)
    };
    // The server is killed after one second of load.
    let run = super::super::run(&plan, &AtomicBool::new(false), &mut |_| drop(server.take()));
    let run = run.unwrap();
    let why = run.cut_short.as_deref().unwrap();
    assert!(why.contains("no target could be reached"), "{why}");
    assert!(run.succeeded > 0 && run.timeline[0].succeeded > 0);
    assert!(run.measured_seconds < 60.0);
    assert!(run.due.unwrap() > run.succeeded);
}

#[test]
fn a_run_that_is_stopped_keeps_what_it_measured() {
    let server = TestServer::store();
    let stop = AtomicBool::new(false);
    let plan = Plan {
        seconds: 60.0,
        threads: 2,
        ..plan(&server, Operation::Put)
    };
    let run = super::super::run(&plan, &stop, &mut |_| stop.store(true, Relaxed)).unwrap();
    assert_eq!(run.cut_short.as_deref(), Some("it was stopped"));
    assert!(run.succeeded > 0 && run.measured_seconds < 60.0);
}

#[test]
fn an_unreachable_target_is_an_error_before_the_load() {
    let mut server = TestServer::store();
    let plan = plan(&server, Operation::Put);
    server.kill();
    let refused = super::super::run(&plan, &AtomicBool::new(false), &mut |_| {});
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(&plan.targets[0]), "{refused}");
}
