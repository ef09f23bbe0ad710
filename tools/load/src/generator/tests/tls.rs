//! Loads over TLS, with a token.

use super::*;
use crate::Credentials;
use crate::plan::Ask;
use crate::testing::certificates::pair;

#[test]
fn values_of_many_records_go_both_ways() {
    let (server, client) = pair();
    let server = TestServer::with_tls(|_, _| Reply::Store, server);
    let plan = Plan {
        keys: 20,
        value_bytes: SizeDistribution::Uniform(1, 200_000),
        access: Credentials {
            tls: Some(client),
            token: None,
        },
        ..plan(&server, Operation::Get)
    };
    let filled = fill(&plan);
    assert_eq!((filled.succeeded, failed(&filled)), (20, vec![]));
    let read = run(&plan);
    assert_eq!((read.missing, failed(&read)), (0, vec![]));
    assert!(read.succeeded > 0);
    let scans = run(&Plan {
        operations: vec![(Operation::Scan, 1.0)],
        ..plan.clone()
    });
    assert!(scans.entities > scans.succeeded, "{scans:?}");
    let batches = run(&Plan {
        batch: Some(10),
        ..plan
    });
    assert_eq!(batches.operations, batches.succeeded * 10);
    assert_eq!(failed(&batches), []);
}

#[test]
fn each_request_shows_the_token() {
    let (server, client) = pair();
    let answer = |request: &crate::testing::Request, _: &mut _| {
        if request.token.as_deref() != Some("kvorum_x") {
            return Reply::Answer(401, Vec::new());
        }
        match &*request.target {
            "/v0/status" => Reply::Answer(200, br#"{"name":"a"}"#.to_vec()),
            _ => Reply::Store,
        }
    };
    let server = TestServer::with_tls(answer, server);
    let mut plan = Plan {
        ask: Ask::Owner,
        access: Credentials {
            tls: Some(client),
            token: Some("kvorum_x".to_owned()),
        },
        ..plan(&server, Operation::Put)
    };
    assert_eq!(failed(&run(&plan)), []);
    plan.access.token = Some("other".to_owned());
    let refused = super::super::run(&plan, &AtomicBool::new(false), &mut |_| {});
    assert!(
        matches!(refused, Err(Error::Refused { status: 401, .. })),
        "{refused:?}"
    );
    plan.ask = Ask::Any;
    let run = run(&plan);
    assert_eq!(run.succeeded, 0);
    assert!(run.failed["401"] > 0, "{run:?}");
}

#[test]
fn a_target_that_is_not_trusted_is_told_before_the_load() {
    let ((server, _), (_, other)) = (pair(), pair());
    let server = TestServer::with_tls(|_, _| Reply::Store, server);
    let mut plan = plan(&server, Operation::Put);
    plan.access.tls = Some(other);
    let refused = super::super::run(&plan, &AtomicBool::new(false), &mut |_| {});
    match refused {
        Err(Error::Distrusted { problem, .. }) => {
            assert!(
                problem.contains("not from an authority that is trusted"),
                "{problem}"
            );
        }
        refused => panic!("{refused:?}"),
    }
    assert_eq!(server.requests(), 0);
}
