//! Requests that go to the owners of their keys.

use super::*;
use crate::generator::placement::Placement;
use crate::plan::Ask;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// A node with a name, and the keys that it was asked for.
struct NamedServer {
    server: TestServer,
    keys: Arc<Mutex<BTreeSet<String>>>,
}

fn named(name: &'static str) -> NamedServer {
    let keys = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&keys);
    let server = TestServer::start(move |request, _| {
        if request.target == "/v0/status" {
            return Reply::Answer(200, format!("{{\"name\":\"{name}\"}}").into_bytes());
        }
        seen.lock().unwrap().insert(request.key());
        Reply::Store
    });
    NamedServer { server, keys }
}

fn plan_for(servers: &[NamedServer]) -> Plan {
    Plan {
        targets: servers.iter().map(|node| node.server.url()).collect(),
        ask: Ask::Owner,
        connections: 12,
        threads: 2,
        ..plan(&servers[0].server, Operation::Get)
    }
}

/// The keys of which each node is the owner.
fn owned(names: &[&str], keys: &BTreeSet<String>) -> Vec<BTreeSet<String>> {
    let placement = Placement::new(names.iter().copied());
    let mut owned = vec![BTreeSet::new(); names.len()];
    for key in keys {
        let owner = placement.owner(key.as_bytes(), |_| true).unwrap();
        owned[owner].insert(key.clone());
    }
    owned
}

#[test]
fn each_request_goes_to_the_owner_of_its_key() {
    let names = ["node-1", "node-2", "node-3"];
    let servers = names.map(named);
    let plan = plan_for(&servers);
    let filled = fill(&plan);
    assert_eq!((filled.succeeded, failed(&filled)), (plan.keys, vec![]));
    let asked = || -> Vec<BTreeSet<String>> {
        let servers = servers.iter();
        servers
            .map(|node| node.keys.lock().unwrap().clone())
            .collect()
    };
    let all: BTreeSet<String> = asked().into_iter().flatten().collect();
    assert_eq!(all.len() as u64, plan.keys);
    assert_eq!(asked(), owned(&names, &all));
    assert!(asked().iter().all(|keys| keys.len() > 30), "{:?}", asked());
    for rate in [Rate::Max, Rate::PerSecond(2_000.0)] {
        for choice in [KeyChoice::Uniform, KeyChoice::Zipfian] {
            let read = run(&Plan {
                rate,
                key_choice: choice,
                operations: vec![(Operation::Get, 1.0), (Operation::ReadModifyWrite, 1.0)],
                ..plan.clone()
            });
            assert!(read.succeeded > 100, "{rate:?} {choice:?}");
            assert_eq!((failed(&read), read.missing), (vec![], 0));
        }
    }
    assert_eq!(asked(), owned(&names, &all));
}

#[test]
fn keys_of_a_node_that_is_gone_go_to_the_next() {
    let names = ["node-1", "node-2", "node-3"];
    let mut servers = names.map(named);
    let plan = Plan {
        operations: vec![(Operation::Put, 1.0)],
        ..plan_for(&servers)
    };
    let killed = Arc::new(Mutex::new(Some(&mut servers[1].server)));
    let stop = AtomicBool::new(false);
    let mut last = 0;
    let run = crate::run(
        &Plan {
            seconds: 3.0,
            warmup_seconds: 0.0,
            ..plan
        },
        &stop,
        &mut |second| {
            if let Some(server) = killed.lock().unwrap().take() {
                server.kill();
            }
            last = second.succeeded;
        },
    )
    .unwrap();
    assert!(run.cut_short.is_none() && last > 0, "{run:?}");
}

#[test]
fn targets_must_be_different_nodes_that_say_their_names() {
    let twins = [named("same"), named("same")];
    let stop = AtomicBool::new(false);
    let refused = crate::run(&plan_for(&twins), &stop, &mut |_| {});
    assert!(matches!(refused, Err(Error::Plan(why)) if why.contains("the node same")));
    let nameless = TestServer::start(|_, _| Reply::Answer(404, Vec::new()));
    let plan = Plan {
        ask: Ask::Owner,
        ..plan(&nameless, Operation::Get)
    };
    let refused = crate::run(&plan, &stop, &mut |_| {});
    assert!(
        matches!(refused, Err(Error::Unreachable { target, .. }) if target.ends_with("/v0/status"))
    );
}
