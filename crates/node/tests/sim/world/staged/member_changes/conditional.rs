//! Conditional writes go on while the list of members changes.

use super::{ASKED, KEYS, LEAVER, four, leave, list_at, order, serves, until_formed, until_list};
use crate::host::{Crash, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::world::World;
use crate::world::staged::{run, until};
use bytes::Bytes;
use cluster::Replicas;
use cluster::layout::Phase;
use node::simulation::ConditionalAnswer;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

const PAIR: Replicas = Replicas::quorum(3);

/// How the increments of all clients have ended.
#[derive(Default)]
struct Counted {
    applied: Cell<u64>,
    unknown: Cell<u64>,
    not_applied: Cell<u64>,
    is_over: Cell<bool>,
}

fn add(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// The sum of all counters, as a quorum has it.
async fn sum(world: &World, node: HostNumber) -> u64 {
    let mut sum = 0;
    for key in 0..KEYS {
        sum += counter(world, node, key).await.unwrap().1;
    }
    sum
}

/// The version and the number of a counter; [`None`] if it cannot be read in time.
async fn counter(
    world: &World,
    node: HostNumber,
    key: u64,
) -> Option<(Option<base::Timestamp>, u64)> {
    let read = world.hosts[node].get(key_bytes(key), PAIR)?;
    let found = read.answer.await.ok()?.ok()?;
    Some(found.entry.map_or((None, 0), |entry| {
        let number = String::from_utf8(entry.value_bytes().to_vec()).unwrap();
        (Some(entry.timestamp()), number.parse().unwrap())
    }))
}

/// Counts by way of one node until it is told to end.
fn count(world: &Rc<World>, node: HostNumber, counted: &Rc<Counted>) -> JoinHandle<()> {
    let (world, counted) = (Rc::clone(world), Rc::clone(counted));
    spawn_local(async move {
        let mut turn = node as u64;
        while !counted.is_over.get() {
            sleep(Duration::from_millis(3)).await;
            turn += 1;
            let key = turn % KEYS;
            let Some((version, number)) = counter(&world, node, key).await else {
                continue;
            };
            let value = Some(Bytes::from((number + 1).to_string()));
            let Some(sent) = world.hosts[node].write_if(key_bytes(key), value, version, PAIR)
            else {
                continue;
            };
            match sent.answer.await {
                Ok(ConditionalAnswer::Applied(_)) => add(&counted.applied),
                Ok(ConditionalAnswer::NotMatched(_)) => {}
                Ok(ConditionalAnswer::NotApplied(_)) => add(&counted.not_applied),
                Ok(ConditionalAnswer::Unknown(_)) | Err(_) => add(&counted.unknown),
            }
        }
    })
}

async fn counts_on(counted: &Counted) {
    let before = counted.applied.get();
    until("the counters count on", || {
        counted.applied.get() > before + 50
    })
    .await;
}

#[test]
fn counters_count_on_while_a_member_leaves() {
    run(four(), async |world| {
        until_formed(&world).await;
        let counted = Rc::<Counted>::default();
        let counting: Vec<_> = (0..3).map(|node| count(&world, node, &counted)).collect();
        counts_on(&counted).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2, LEAVER], 1, Phase::Copying).await;
        counts_on(&counted).await;
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        counts_on(&counted).await;
        counted.is_over.set(true);
        for counting in counting {
            counting.await.unwrap();
        }
        let (applied, unknown) = (counted.applied.get(), counted.unknown.get());
        let sum = sum(&world, 1).await;
        assert!(
            applied <= sum && sum <= applied + unknown,
            "{applied} applied, {unknown} unknown, {sum} counted"
        );
        // Of each coordinator one write may be under way while nodes stop to answer those that have
        // the earlier list.
        assert!(unknown <= 3, "{unknown} unknown");
        assert_eq!(counted.not_applied.get(), 0);
    });
}

/// The coordinator is killed again and again, so promises of each list are left behind.
#[test]
fn what_a_coordinator_leaves_behind_in_a_change_is_settled_by_both_lists() {
    run(four(), async |world| {
        until_formed(&world).await;
        let counted = Rc::<Counted>::default();
        let counting: Vec<_> = [0, 1, LEAVER]
            .map(|node| count(&world, node, &counted))
            .into();
        counts_on(&counted).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        for _ in 0..4 {
            counts_on(&counted).await;
            world.hosts[1].crash(Crash::Kill);
            world.start(1);
        }
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        counts_on(&counted).await;
        counted.is_over.set(true);
        for counting in counting {
            counting.await.unwrap();
        }
        let (applied, unknown) = (counted.applied.get(), counted.unknown.get());
        let sum = sum(&world, 2).await;
        assert!(
            applied <= sum && sum <= applied + unknown,
            "{applied} applied, {unknown} unknown, {sum} counted"
        );
        serves(&world, &[ASKED]).await;
        until("no promise is kept", || {
            (world.hosts.iter()).all(|host| host.promises_kept() == 0)
        })
        .await;
    });
}

/// A coordinator ends between prepare and accept while the data is copied. Nobody else would end the
/// promises of those that only the new list has.
#[test]
fn what_a_coordinator_leaves_behind_is_settled_before_the_change_goes_on() {
    let scenario = Scenario {
        timeout: Duration::from_secs(30),
        ..four()
    };
    run(scenario, async |world| {
        until_formed(&world).await;
        order(&world, leave(LEAVER, false)).await.unwrap();
        until_list(&world, &[0, 1, 2, LEAVER], 1, Phase::Copying).await;
        let replicas = |key: &u64| world.preference_list(&key_bytes(*key), 3);
        let moves = |key: &u64| replicas(key).iter().any(|node| node.index() == LEAVER);
        let key = (0..KEYS).find(moves).unwrap();
        let coordinator = replicas(&key)[0].index();
        let others = (0..4).filter(|host| *host != coordinator);
        for other in others.clone() {
            world.network.set_delay(other, coordinator, &(150..=150));
        }
        let value = Some(Bytes::from_static(b"value"));
        let _lost = world.hosts[coordinator].write_if(key_bytes(key), value, None, PAIR);
        until("all others have promised", || {
            let mut others = others.clone();
            others.all(|host| world.hosts[host].promises_kept() > 0)
        })
        .await;
        world.hosts[coordinator].crash(Crash::Kill);
        world.start(coordinator);
        until("no promise is kept", || {
            (world.hosts.iter()).all(|host| host.promises_kept() == 0)
        })
        .await;
        assert_eq!(list_at(&world.hosts[ASKED]), Some((1, Phase::Copying)));
    });
}
