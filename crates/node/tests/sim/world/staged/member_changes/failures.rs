//! What fails while the list of members changes: members that are down, joiners that die, a cluster
//! that is cut in two, a node that was declared dead and runs on, and sessions of other lists.

use super::joins::{ALL, JOINER, MEMBERS, begin, join, three_and_one};
use super::{
    ASKED, LEAVER, four, leave, name_of, order, serves, until_connected, until_formed, until_list,
};
use crate::host::Crash;
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::world::World;
use crate::world::staged::{run, until};
use checker::{Action, Outcome, Request};
use cluster::comparison::RepairKind;
use cluster::layout::Phase;
use cluster::{Epoch, NodeId, Replicas};
use node::{ChangeOrder, ChangeRefusal};
use std::time::Duration;
use tokio::time::sleep;

const FOUNDERS: [HostNumber; 4] = [0, 1, 2, 3];

async fn until_down(world: &World, number: HostNumber) {
    until("it is known to be down", || {
        let status = world.hosts[ASKED].changes().unwrap();
        !status.up.contains(NodeId::new(number as u8))
    })
    .await;
}

fn isolate(world: &World, one: HostNumber) {
    for other in (0..world.hosts.len()).filter(|other| *other != one) {
        world.network.cut(one, other);
        world.network.cut(other, one);
    }
}

fn rejoin(world: &World, one: HostNumber) {
    for other in (0..world.hosts.len()).filter(|other| *other != one) {
        world.network.heal(one, other);
        world.network.heal(other, one);
    }
}

#[test]
fn a_member_that_is_down_is_waited_for_in_either_phase_and_nothing_else_is() {
    run(four(), async |world| {
        until_formed(&world).await;
        serves(&world, &[0]).await;
        world.hosts[2].crash(Crash::Kill);
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 3], 1, Phase::Copying).await;
        until("only the data of the one that is down is missing", || {
            let status = world.hosts[ASKED].changes().unwrap();
            let down = NodeId::new(2);
            status.waits_for().is_some_and(|waits| {
                let mut facts = waits.facts.iter();
                waits.reports == [down]
                    && facts.all(|(gaining, old)| *gaining == down || *old == down)
            })
        })
        .await;
        serves(&world, &[0, 1, 3]).await;
        world.start(2);
        until_list(&world, &FOUNDERS, 2, Phase::Settling).await;
        world.hosts[1].crash(Crash::Kill);
        sleep(Duration::from_secs(3)).await;
        until_list(&world, &[0, 2, 3], 2, Phase::Settling).await;
        serves(&world, &[0, 2, 3]).await;
        world.start(1);
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        serves(&world, &[0, 1, 2]).await;
    });
}

#[test]
fn a_joiner_that_dies_when_all_settles_is_declared_dead_to_undo_the_join() {
    run(three_and_one(), async |world| {
        begin(&world).await;
        serves(&world, &[0]).await;
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 2, Phase::Settling).await;
        world.hosts[JOINER].crash(Crash::Kill);
        order(&world, ChangeOrder::Abort).await.unwrap();
        until_list(&world, &MEMBERS, 3, Phase::Aborting).await;
        sleep(Duration::from_secs(3)).await;
        until_list(&world, &MEMBERS, 3, Phase::Aborting).await;
        serves(&world, &MEMBERS).await;
        until("it is known to be down", || {
            world.hosts[ASKED].changes().unwrap().up.iter().count() == 3
        })
        .await;
        order(&world, leave(JOINER, true)).await.unwrap();
        until_list(&world, &MEMBERS, 5, Phase::Stable).await;
        serves(&world, &MEMBERS).await;
    });
}

#[test]
fn of_a_cluster_that_is_cut_in_two_only_the_side_with_a_majority_decides() {
    run(four(), async |world| {
        until_formed(&world).await;
        isolate(&world, 3);
        until_down(&world, 3).await;
        let pair = |ack| ChangeOrder::Pair(Replicas { ack, from: 2 });
        let at_minority = world.hosts[3].order_change(pair(1)).unwrap();
        order(&world, pair(2)).await.unwrap();
        let told = at_minority.answer.await.unwrap().map(|_| ());
        assert_eq!(told, Err(ChangeRefusal::NoMajority));
        until_list(&world, &[3], 0, Phase::Stable).await;
        until_list(&world, &[0, 1, 2], 1, Phase::Stable).await;
        rejoin(&world, 3);
        until_list(&world, &FOUNDERS, 1, Phase::Stable).await;
        let list = world.hosts[3].changes().unwrap().list.unwrap();
        assert_eq!(list.default_pair(), Replicas { ack: 2, from: 2 });
        until_connected(&world, &FOUNDERS).await;
        serves(&world, &[3]).await;
    });
}

#[test]
fn a_node_that_was_declared_dead_and_runs_on_is_served_by_nobody() {
    run(four(), async |world| {
        until_formed(&world).await;
        serves(&world, &[0]).await;
        isolate(&world, LEAVER);
        until_down(&world, LEAVER).await;
        order(&world, leave(LEAVER, true)).await.unwrap();
        until_list(&world, &[0, 1, 2], 1, Phase::Copying).await;
        rejoin(&world, LEAVER);
        for key in 0..4 {
            let request = Request {
                client: 0,
                node: LEAVER,
                key,
                action: Action::Put { ttl_seconds: None },
                ack: 2,
                from: 3,
            };
            let outcome = world.ask(request, Duration::from_secs(10)).await;
            let is_served = matches!(outcome, Some(Outcome::Written { .. }));
            assert!(!is_served, "{request}: {outcome:?}");
        }
        until("it knows that it was removed", || {
            let status = world.hosts[LEAVER].changes();
            status.is_some_and(|status| status.is_removed)
        })
        .await;
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        serves(&world, &[0, 1, 2]).await;
        let list = world.hosts[0].changes().unwrap().list.unwrap();
        assert!(list.named(&name_of(LEAVER)).is_none());
    });
}

/// What old members acknowledge by the old list alone would come behind the comparison.
#[test]
fn no_node_takes_part_in_a_session_of_a_change_that_it_has_not_reported() {
    let scenario = Scenario {
        timeout: Duration::from_secs(3),
        ..four()
    };
    run(scenario, async |world| {
        until_formed(&world).await;
        serves(&world, &[0]).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2, LEAVER], 1, Phase::Copying).await;
        // An operator does not wait for that.
        world.hosts[ASKED].order_repair(RepairKind::Full);
        until("a session has shown something", || {
            world.hosts.iter().any(|host| host.facts().is_some())
        })
        .await;
        for (number, host) in world.hosts.iter().enumerate() {
            let own = NodeId::new(number as u8);
            let reported = host.changes().unwrap().reported;
            let epoch = reported.get(own).map(|report| report.epoch);
            assert_eq!(epoch, Some(Epoch::new(1)), "node {number}");
        }
    });
}

/// What was acknowledged between two changes is not among what sessions of the first one have shown.
#[test]
fn a_change_goes_by_the_facts_of_no_earlier_one() {
    run(four(), async |world| {
        until_formed(&world).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2, LEAVER], 2, Phase::Settling).await;
        world.hosts[2].crash(Crash::Kill);
        order(&world, ChangeOrder::Abort).await.unwrap();
        until_list(&world, &[0, 1, LEAVER], 3, Phase::Aborting).await;
        world.start(2);
        until_list(&world, &[0, 1, 2, LEAVER], 4, Phase::Stable).await;
        serves(&world, &[0, 3]).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2], 7, Phase::Stable).await;
        for host in &world.hosts[..3] {
            let facts = host.facts().unwrap();
            assert_eq!(facts.change, Epoch::new(5), "node {}", host.number());
        }
    });
}
