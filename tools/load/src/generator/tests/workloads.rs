//! The requests are those that the plan describes.

use super::*;

#[test]
fn a_fill_puts_each_key_once_and_reads_find_all_values() {
    let server = TestServer::store();
    let plan = Plan {
        threads: 2,
        key_bytes: SizeDistribution::Uniform(8, 30),
        value_bytes: SizeDistribution::Uniform(0, 5_000),
        ..plan(&server, Operation::Get)
    };
    let filled = fill(&plan);
    assert_eq!((filled.succeeded, server.requests()), (200, 200));
    assert_eq!(filled.label, "fill");
    let map = server.map();
    assert_eq!(map.len(), 200);
    let value_bytes: usize = map.values().map(Vec::len).sum();
    assert_eq!(filled.body_bytes, value_bytes as u64);

    for choice in [
        KeyChoice::Sequential,
        KeyChoice::Uniform,
        KeyChoice::Zipfian,
        KeyChoice::Latest,
    ] {
        let read = run(&Plan {
            key_choice: choice,
            ..plan.clone()
        });
        assert!(read.succeeded > 0);
        assert_eq!((failed(&read), read.missing), (vec![], 0), "{choice:?}");
    }
    let missing = run(&Plan {
        operations: vec![(Operation::GetMissing, 1.0)],
        ..plan
    });
    assert!(missing.missing > 0);
    assert_eq!(
        (failed(&missing), missing.missing),
        (vec![], missing.succeeded)
    );
}

/// A plan that reads need not have the value sizes of the plan that wrote.
#[test]
fn short_values_are_right_for_a_plan_with_other_sizes() {
    for bytes in 1..=4 {
        let server = TestServer::store();
        let plan = plan(&server, Operation::Get);
        fill(&Plan {
            value_bytes: SizeDistribution::Fixed(bytes),
            ..plan.clone()
        });
        let read = run(&plan);
        assert!(read.succeeded > 0);
        assert_eq!((failed(&read), read.missing), (vec![], 0), "{bytes} bytes");
    }
}

#[test]
fn each_operation_does_what_its_name_says() {
    let server = TestServer::store();
    let base = plan(&server, Operation::Delete);
    fill(&base);
    let with = |operation| {
        run(&Plan {
            operations: vec![(operation, 1.0)],
            scan_limit: 7,
            ..base.clone()
        })
    };

    let scans = with(Operation::Scan);
    assert!(scans.entities > scans.succeeded * 6, "{scans:?}");
    assert!(scans.entities <= scans.succeeded * 7);
    assert_eq!(failed(&scans), []);

    let before = server.map();
    let updates = with(Operation::ReadModifyWrite);
    assert!(updates.succeeded > 0 && updates.missing == 0);
    let after = server.map();
    assert!(before.keys().eq(after.keys()) && before != after);

    // This server has no tags, so nothing is read that a condition could name.
    let created = with(Operation::CompareAndSet);
    assert!(created.succeeded > 0, "{created:?}");
    assert!(after.keys().eq(server.map().keys()));

    let inserts = with(Operation::Insert);
    let added = server.map().len() as u64 - 200;
    // Requests that are answered or on their way at the end are stored but not
    // counted.
    assert!((inserts.succeeded..=inserts.succeeded + 8).contains(&added));

    let deletes = with(Operation::Delete);
    assert!(deletes.succeeded > 0);
    assert!(server.map().len() < added as usize + 200);
}

#[test]
fn requests_go_to_all_targets() {
    let servers = [TestServer::store(), TestServer::store()];
    let plan = Plan {
        targets: servers.iter().map(TestServer::url).collect(),
        replicas: Some((1, 2)),
        ..plan(&servers[0], Operation::Put)
    };
    let filled = fill(&plan);
    assert_eq!(filled.succeeded, 200);
    let counts: Vec<usize> = servers.iter().map(|server| server.map().len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 200);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_batch_has_its_number_of_operations() {
    let server = TestServer::store();
    let base = Plan {
        batch: Some(30),
        key_bytes: SizeDistribution::Uniform(8, 30),
        value_bytes: SizeDistribution::Uniform(0, 500),
        ..plan(&server, Operation::Get)
    };
    // 200 keys make six whole batches and a part of one.
    let filled = fill(&base);
    assert_eq!((filled.succeeded, filled.operations), (7, 200));
    assert_eq!((server.requests(), server.map().len()), (7, 200));
    let read = run(&base);
    assert!(read.succeeded > 0);
    assert_eq!(read.operations, 30 * read.succeeded);
    assert_eq!((failed(&read), read.missing), (vec![], 0));
    let mixed = run(&Plan {
        operations: vec![
            (Operation::Get, 1.0),
            (Operation::GetMissing, 1.0),
            (Operation::Put, 1.0),
            (Operation::Delete, 0.1),
        ],
        ..base
    });
    assert_eq!(failed(&mixed), []);
    assert!(mixed.missing > 0 && mixed.missing < mixed.operations);
}

/// The server answers only when three batches are there, as one chunk.
#[test]
fn batches_of_a_pipeline_do_not_wait_for_the_answers_to_those_before_them() {
    let held = std::sync::Mutex::new(Vec::<u8>::new());
    let server = TestServer::start(move |request, _| {
        let mut held = held.lock().unwrap();
        if request.number % 3 == 0 {
            held.clear();
        }
        let lines = String::from_utf8(request.body.clone()).unwrap();
        let answers = lines.lines().map(|line| {
            if line.contains("\"put\"") {
                "{\"status\":201,\"version\":\"1\"}\n"
            } else {
                "{\"status\":202,\"version\":\"1\"}\n"
            }
        });
        held.extend(answers.flat_map(str::bytes));
        match request.number % 3 {
            2 => Reply::Answer(200, held.clone()),
            _ => Reply::Silence,
        }
    });
    let plan = Plan {
        connections: 1,
        batch: Some(7),
        pipeline: Some(3),
        operations: vec![(Operation::Put, 1.0), (Operation::Delete, 1.0)],
        ..plan(&server, Operation::Put)
    };
    let run = run(&plan);
    assert!(run.succeeded >= 6, "{run:?}");
    assert_eq!(run.operations, 7 * run.succeeded);
    assert_eq!(failed(&run), []);
    let waited = server.requests() - run.succeeded;
    assert!(
        (1..=3 + 3).contains(&waited),
        "{waited} batches waited at the end"
    );
}

#[test]
fn a_pipeline_fills_a_store_whose_connections_end_and_whose_operations_fail() {
    let server = TestServer::start(|request, _| match request.number % 9 {
        4 => Reply::Close,
        7 => Reply::Answer(
            200,
            b"{\"status\":503,\"problem\":{}}\n"
                .repeat(request.body.split(|b| *b == b'\n').count() - 1),
        ),
        _ => Reply::Store,
    });
    let plan = Plan {
        connections: 2,
        batch: Some(3),
        pipeline: Some(4),
        keys: 500,
        ..plan(&server, Operation::Get)
    };
    let filled = fill(&plan);
    assert_eq!((filled.operations, server.map().len()), (500, 500));
    assert_eq!(failed(&filled), []);
}

#[test]
fn what_waits_in_a_pipeline_that_breaks_counts_as_failed() {
    let server = TestServer::start(|_, _| Reply::Raw(b"no chunk".to_vec()));
    let ended = run(&Plan {
        connections: 1,
        batch: Some(2),
        pipeline: Some(4),
        ..plan(&server, Operation::Put)
    });
    assert_eq!((ended.succeeded, ended.operations), (0, 0));
    assert!(ended.failed["bad response"] >= 4, "{ended:?}");
}

#[test]
fn a_batch_with_an_operation_that_fails_counts_as_failed() {
    let server = TestServer::start(|request, _| match request.target.as_str() {
        "/v0/batch" => Reply::Answer(
            200,
            b"{\"status\":201,\"version\":\"1\"}\n{\"status\":503,\"problem\":{}}\n".to_vec(),
        ),
        _ => Reply::Store,
    });
    let ended = run(&Plan {
        batch: Some(2),
        ..plan(&server, Operation::Put)
    });
    assert_eq!((ended.succeeded, ended.operations), (0, 0));
    assert!(ended.failed["503"] > 0);
}
