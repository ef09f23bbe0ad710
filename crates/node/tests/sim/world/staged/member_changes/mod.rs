//! The list of members changes while the cluster serves, step by step.

mod conditional;
mod failures;
mod joins;
mod scans;

use super::super::World;
use super::{calm, run, until};
use crate::host::{Crash, Host, names};
use crate::network::HostNumber;
use crate::scenario::{Scenario, TombstoneGc};
use checker::{Action, Outcome, Request};
use cluster::layout::{ChangeProgress, Phase};
use cluster::{Epoch, NodeId, Replicas};
use node::{ChangeOrder, ChangeRefusal};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The host at which operators give their orders, and the one that leaves.
const ASKED: HostNumber = 0;
const LEAVER: HostNumber = 3;

const KEYS: u64 = 12;
const PATIENCE: Duration = Duration::from_secs(10);

fn four() -> Scenario {
    Scenario {
        timeout: Duration::from_millis(300),
        ..calm()
    }
}

/// The epoch and the phase of the list at a host; `None` without a process or a list.
fn list_at(host: &Host) -> Option<(u64, Phase)> {
    let list = host.changes()?.list?;
    Some((list.epoch().as_u64(), list.phase()))
}

async fn until_list(world: &World, hosts: &[HostNumber], epoch: u64, phase: Phase) {
    until(&format!("all have list {epoch}"), || {
        let mut hosts = hosts.iter().map(|number| &world.hosts[*number]);
        hosts.all(|host| list_at(host) == Some((epoch, phase)))
    })
    .await;
}

/// The nodes have all met.
async fn until_formed(world: &World) {
    until_list(world, &[0, 1, 2, 3], 0, Phase::Stable).await;
    until_connected(world, &[0, 1, 2, 3]).await;
}

/// Each of these nodes knows that all four are up.
async fn until_connected(world: &World, hosts: &[HostNumber]) {
    until("all nodes are up", || {
        let mut hosts = hosts.iter().map(|number| world.hosts[*number].changes());
        hosts.all(|status| status.is_some_and(|it| it.up.iter().count() == 4))
    })
    .await;
}

async fn order(world: &World, order: ChangeOrder) -> Result<(), ChangeRefusal> {
    let sent = world.hosts[ASKED].order_change(order).unwrap();
    sent.answer.await.unwrap().map(|_| ())
}

fn name_of(number: HostNumber) -> String {
    names(4)[number].to_string()
}

fn leave(number: HostNumber, are_dead: bool) -> ChangeOrder {
    ChangeOrder::Members {
        join: Vec::new(),
        leave: vec![name_of(number)],
        are_dead,
    }
}

/// Writes and reads all keys at each of these nodes.
async fn serves(world: &Rc<World>, nodes: &[HostNumber]) {
    for node in nodes.iter().copied() {
        for key in 0..KEYS {
            for action in [Action::Put { ttl_seconds: None }, Action::Get] {
                let request = Request {
                    client: 0,
                    node,
                    key,
                    action,
                    ack: 2,
                    from: 3,
                };
                let outcome = world.ask(request, PATIENCE).await;
                let is_served = matches!(
                    outcome,
                    Some(Outcome::Written { .. } | Outcome::Found { .. })
                );
                assert!(is_served, "{request}: {outcome:?}");
            }
        }
    }
}

#[test]
fn a_node_leaves_while_the_others_serve() {
    run(four(), async |world| {
        until_formed(&world).await;
        serves(&world, &[0, 1, 2, 3]).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2, 3], 1, Phase::Copying).await;
        assert_eq!(
            order(&world, ChangeOrder::Pair(Replicas { ack: 1, from: 2 })).await,
            Err(ChangeRefusal::Refused(cluster::layout::Refusal::UnderWay {
                phase: Phase::Copying
            }))
        );
        serves(&world, &[0, 1, 2, 3]).await;
        until("only facts are missing", || {
            let status = world.hosts[ASKED].changes().unwrap();
            status
                .waits_for()
                .is_some_and(|waits| waits.reports.is_empty() && !waits.facts.is_empty())
        })
        .await;
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        serves(&world, &[0, 1, 2]).await;
        until("the leaver knows that it was removed", || {
            world.hosts[LEAVER].changes().unwrap().is_removed
        })
        .await;
        assert_eq!(world.hosts[LEAVER].is_voter(), Some(false));
    });
}

/// A GC threshold is above all that was written before the last full repair but one.
#[test]
fn keys_that_were_written_long_ago_move_to_the_nodes_that_gain_them() {
    let scenario = Scenario {
        tombstone_gc: Some(TombstoneGc {
            gc_grace: Duration::from_millis(100),
            full_repair_interval: Duration::from_secs(1),
        }),
        clock_drift_max: Duration::from_secs(1),
        ..four()
    };
    run(scenario, async |world| {
        until_formed(&world).await;
        serves(&world, &[0]).await;
        let held = world.hosts.iter().flat_map(|host| host.all_held());
        let newest = held.map(|entry| entry.timestamp()).max().unwrap();
        until("all is below the GC threshold", || {
            let mut known = world.hosts.iter().map(|host| host.gc_status());
            known.all(|known| known.is_some_and(|it| it.gc_threshold > newest))
        })
        .await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        for host in &world.hosts[..3] {
            for key in 0..KEYS {
                let held = host.held(key).unwrap();
                assert!(held.is_some(), "node {} lacks key {key}", host.number());
            }
        }
    });
}

#[test]
fn a_list_is_reported_once_no_request_of_an_earlier_one_can_be_left() {
    let scenario = Scenario {
        timeout: Duration::from_secs(4),
        ..calm()
    };
    run(scenario, async |world| {
        until_formed(&world).await;
        let begun = Instant::now();
        order(&world, leave(LEAVER, false)).await.unwrap();
        until("a member has reported the change", || {
            let status = world.hosts[ASKED].changes().unwrap();
            status
                .reported
                .iter()
                .any(|(_, it)| it.epoch == Epoch::new(1))
        })
        .await;
        assert!(begun.elapsed() > world.scenario.timeout);
    });
}

#[test]
fn a_change_is_aborted_in_either_phase() {
    run(four(), async |world| {
        until_formed(&world).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2, 3], 1, Phase::Copying).await;
        order(&world, ChangeOrder::Abort).await.unwrap();
        until_list(&world, &[0, 1, 2, 3], 2, Phase::Stable).await;
        serves(&world, &[0, 3]).await;

        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2, 3], 3, Phase::Copying).await;
        // It settles only once a node that is down has reported that.
        until_list(&world, &[0, 1, 2, 3], 4, Phase::Settling).await;
        world.hosts[2].crash(Crash::Kill);
        order(&world, ChangeOrder::Abort).await.unwrap();
        until_list(&world, &[0, 1, 3], 5, Phase::Aborting).await;
        sleep(Duration::from_secs(5)).await;
        until_list(&world, &[0, 1, 3], 5, Phase::Aborting).await;
        serves(&world, &[0, 3]).await;
        world.start(2);
        until_list(&world, &[0, 1, 2, 3], 6, Phase::Stable).await;
        serves(&world, &[0, 1, 2, 3]).await;
    });
}

#[test]
fn a_node_that_was_declared_dead_is_waited_for_nowhere_and_learns_of_it() {
    run(four(), async |world| {
        until_formed(&world).await;
        serves(&world, &[0]).await;
        let alive = order(&world, leave(LEAVER, true)).await;
        let answers = cluster::layout::Refusal::Answers {
            name: name_of(LEAVER),
        };
        assert_eq!(alive, Err(ChangeRefusal::Refused(answers)));
        world.hosts[LEAVER].crash(Crash::Kill);
        until("it is known to be down", || {
            let status = world.hosts[ASKED].changes().unwrap();
            !status.up.contains(NodeId::new(LEAVER as u8))
        })
        .await;
        order(&world, leave(LEAVER, true)).await.unwrap();
        until_list(&world, &[0, 1, 2], 1, Phase::Copying).await;
        serves(&world, &[0, 1, 2]).await;
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        serves(&world, &[0, 1, 2]).await;
        world.start(LEAVER);
        until("it knows that it was removed", || {
            world.hosts[LEAVER]
                .changes()
                .is_some_and(|it| it.is_removed)
        })
        .await;
        assert_eq!(world.hosts[LEAVER].is_voter(), Some(false));
    });
}

#[test]
fn a_node_that_sleeps_through_two_changes_gets_the_last_list() {
    run(four(), async |world| {
        until_formed(&world).await;
        world.hosts[2].crash(Crash::Kill);
        for (epoch, ack) in [(1, 1), (2, 2)] {
            order(&world, ChangeOrder::Pair(Replicas { ack, from: 2 }))
                .await
                .unwrap();
            until_list(&world, &[0, 1, 3], epoch, Phase::Stable).await;
        }
        world.start(2);
        until_list(&world, &[0, 1, 2, 3], 2, Phase::Stable).await;
        serves(&world, &[2]).await;
    });
}

#[test]
fn a_change_goes_on_while_nodes_are_restarted_in_each_phase() {
    run(four(), async |world| {
        until_formed(&world).await;
        serves(&world, &[0]).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        for number in [0, 1, 2, 3] {
            world.hosts[number].crash(Crash::PowerCut);
            world.start(number);
            until("its store counts", || {
                world.hosts[number].is_voter() == Some(true)
            })
            .await;
        }
        until_list(&world, &[0, 1, 2, 3], 1, Phase::Copying).await;
        until_list(&world, &[0, 1, 2, 3], 2, Phase::Settling).await;
        for number in [0, 1] {
            world.hosts[number].crash(Crash::Kill);
            world.start(number);
        }
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        until("all stores count", || {
            let mut hosts = world.hosts[..3].iter();
            hosts.all(|host| host.is_voter() == Some(true))
        })
        .await;
        serves(&world, &[0, 1, 2]).await;
        let status = world.hosts[1].changes().unwrap();
        assert_eq!(status.progress, ChangeProgress::Stable);
    });
}
