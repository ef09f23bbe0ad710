//! A member leaves: full sessions bring its keys to the others, and show the facts that the change
//! waits for.

use super::{World, calm, run, until};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Acceptance, Copy, Crash, Host, key_bytes, names};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry, Timestamp};
use checker::OperationId;
use cluster::comparison::RepairKind;
use cluster::layout::{Change, ClusterId, MemberList, Placements};
use cluster::{Member, NodeId, NodeSet, Replicas};
use std::time::Duration;
use tokio::time::sleep;

const COORDINATOR: HostNumber = 0;
/// A member that hears of the change late.
const LATE: HostNumber = 2;
const LEAVER: HostNumber = 3;
const COPIES: u8 = 2;
/// Until all runtimes use a layout that was put in force.
const ADOPTION: Duration = Duration::from_secs(1);

fn node(host: HostNumber) -> NodeId {
    NodeId::new(host as u8)
}

/// The members of a calm world, and the change in which one of them leaves.
fn leaving() -> [MemberList; 2] {
    let named = (1..).zip(names(calm().nodes));
    let members = named.map(|(host, name)| {
        // Where the network has them: a member with another URL has moved.
        let url = format!("http://127.0.0.{host}:8080").parse().unwrap();
        Member::named(&name, url).unwrap()
    });
    let pair = Replicas::quorum(COPIES);
    let before = MemberList::founding(ClusterId::new(1), members.collect(), pair).unwrap();
    let leave = vec![names(calm().nodes).swap_remove(LEAVER)];
    let change = Change::Members {
        join: Vec::new(),
        leave,
        are_dead: false,
    };
    let copying = before.plan(&change, NodeSet::default()).unwrap();
    [before, copying]
}

fn old_value(key: u64) -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 1_000 + key);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(key), timestamp, &value, Expiry::NEVER, COPIES)
}

/// With whom the facts say that a host is equal.
fn facts(host: &Host) -> Vec<NodeId> {
    let facts = host.facts();
    facts.map_or_else(Vec::new, |facts| facts.equal_with.iter().collect())
}

/// The hosts other than one, without some.
fn others(than: HostNumber, without: &[HostNumber]) -> Vec<NodeId> {
    let all = 0..calm().nodes;
    let others = all.filter(|host| *host != than && !without.contains(host));
    others.map(node).collect()
}

async fn until_shown(world: &World, what: &str, shown: impl Fn(HostNumber) -> Vec<NodeId>) {
    until(what, || {
        (0..LEAVER).all(|host| facts(&world.hosts[host]) == shown(host))
    })
    .await;
}

#[test]
fn a_leavers_keys_reach_the_others_and_facts_add_up() {
    let scenario = Scenario {
        keys: 200,
        range_keys: 64,
        timeout: Duration::from_millis(300),
        ..calm()
    };
    run(scenario, async |world| {
        let [before, copying] = leaving();
        let [old, union] = [&before, &copying].map(Placements::from);
        let is_replica = |placements: &Placements, host: HostNumber, key: u64| {
            placements.is_replica(node(host), &key_bytes(key), COPIES)
        };
        let keys = 0..world.scenario.keys;
        for (number, host) in world.hosts.iter().enumerate() {
            for key in keys.clone().filter(|key| is_replica(&old, number, *key)) {
                host.store(old_value(key)).unwrap();
            }
        }
        // One of them does not know the list yet, so it takes no part in the session.
        for host in world.hosts.iter().filter(|host| host.number() != LATE) {
            host.put_in_force(&copying);
        }
        sleep(ADOPTION).await;
        let coordinator = &world.hosts[COORDINATOR];
        coordinator.order_repair(RepairKind::Full);
        let without_late = |host| {
            if host == LATE {
                Vec::new()
            } else {
                others(host, &[LATE])
            }
        };
        until_shown(
            &world,
            "a session without one node has shown its facts",
            without_late,
        )
        .await;
        world.hosts[LATE].put_in_force(&copying);
        sleep(ADOPTION).await;
        // What others have shown is not shown again by a session without them.
        coordinator.order_repair(RepairKind::Full);
        until_shown(&world, "all facts are shown", |host| others(host, &[])).await;
        for (number, host) in world.hosts.iter().enumerate() {
            for key in keys.clone().filter(|key| is_replica(&union, number, *key)) {
                let held = host.held(key).unwrap();
                assert!(held.is_some(), "node {number} lacks key {key}");
            }
        }

        // Facts survive a restart, and not the loss of the store.
        sleep(Duration::from_secs(1)).await;
        let restarted = &world.hosts[1];
        restarted.crash(Crash::PowerCut);
        restarted.start(Acceptance::Nothing).unwrap();
        assert_eq!(facts(restarted), others(1, &[]));
        restarted.crash(Crash::PowerCut);
        restarted.replace_disk(Copy::empty());
        restarted.start(Acceptance::Nothing).unwrap();
        assert_eq!(facts(restarted), []);
    });
}
