//! Scans of the whole cluster while the list of members changes.

use super::joins::{ALL, JOINER, MEMBERS, begin, join, three_and_one};
use super::{ASKED, KEYS, LEAVER, four, leave, order, serves, until_formed, until_list};
use crate::host::{Crash, ScanTold, key_bytes};
use crate::network::HostNumber;
use crate::world::World;
use crate::world::staged::until;
use cluster::layout::Phase;
use cluster::{NodeId, Replicas};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

const QUORUM: Replicas = Replicas { ack: 2, from: 3 };
const ALL_OF_THREE: Replicas = Replicas { ack: 3, from: 3 };

async fn scan(world: &World, at: HostNumber, replicas: Replicas, pause: Duration) -> ScanTold {
    let sent = world.hosts[at].ask_scan(0, replicas, pause).unwrap();
    sent.answer.await.unwrap()
}

/// The scan has told all keys in their order.
#[track_caller]
fn is_of_all_keys(told: &ScanTold) {
    let mut expected: Vec<u64> = (0..KEYS).collect();
    expected.sort_by_key(|key| key_bytes(*key));
    let keys: Vec<u64> = told.entities.iter().map(|(key, ..)| *key).collect();
    assert_eq!((told.is_whole, keys), (true, expected));
}

/// Scans slowly again and again, so that some scans begin with one list and end with another one.
/// Returns how many there were.
fn scans(
    world: &Rc<World>,
    at: HostNumber,
    pause: Duration,
    is_over: &Rc<Cell<bool>>,
) -> JoinHandle<usize> {
    let (world, is_over) = (Rc::clone(world), Rc::clone(is_over));
    spawn_local(async move {
        let mut count = 0;
        while !is_over.get() {
            is_of_all_keys(&scan(&world, at, QUORUM, pause).await);
            count += 1;
            sleep(Duration::from_millis(7)).await;
        }
        count
    })
}

#[test]
fn a_joiner_that_is_down_is_not_missing_from_a_scan() {
    super::run(three_and_one(), async |world| {
        begin(&world).await;
        serves(&world, &[0]).await;
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 1, Phase::Copying).await;
        world.hosts[JOINER].crash(Crash::Kill);
        sleep(Duration::from_secs(2)).await;
        until_list(&world, &MEMBERS, 1, Phase::Copying).await;
        for at in MEMBERS {
            is_of_all_keys(&scan(&world, at, ALL_OF_THREE, Duration::ZERO).await);
        }
    });
}

#[test]
fn a_member_that_was_declared_dead_is_missing_from_a_scan() {
    super::run(four(), async |world| {
        until_formed(&world).await;
        serves(&world, &[0]).await;
        world.hosts[LEAVER].crash(Crash::Kill);
        until("it is known to be down", || {
            let status = world.hosts[ASKED].changes().unwrap();
            !status.up.contains(NodeId::new(LEAVER as u8))
        })
        .await;
        order(&world, leave(LEAVER, true)).await.unwrap();
        until_list(&world, &[0, 1, 2], 1, Phase::Copying).await;
        is_of_all_keys(&scan(&world, 0, QUORUM, Duration::ZERO).await);
        let told = scan(&world, 0, ALL_OF_THREE, Duration::ZERO).await;
        assert!(!told.is_whole, "a replica is dead");
        // With another one down, a key may have only one replica left of three.
        world.hosts[2].crash(Crash::Kill);
        sleep(Duration::from_secs(1)).await;
        until_list(&world, &[0, 1], 1, Phase::Copying).await;
        let told = scan(&world, 0, QUORUM, Duration::ZERO).await;
        assert!(!told.is_whole, "two nodes are missing");
        world.start(2);
        until_list(&world, &[0, 1, 2], 3, Phase::Stable).await;
        is_of_all_keys(&scan(&world, 0, ALL_OF_THREE, Duration::ZERO).await);
    });
}

#[test]
fn scans_that_go_on_over_a_whole_change_tell_every_key() {
    super::run(three_and_one(), async |world| {
        begin(&world).await;
        serves(&world, &[0]).await;
        let is_over = Rc::default();
        let paces = [(0, 150), (1, 400)];
        let paces = paces.map(|(at, ms)| (at, Duration::from_millis(ms)));
        let running = paces.map(|(at, pause)| scans(&world, at, pause, &is_over));
        order(&world, join()).await.unwrap();
        until_list(&world, &ALL, 3, Phase::Stable).await;
        order(&world, leave(2, false)).await.unwrap();
        until_list(&world, &[0, 1, JOINER], 6, Phase::Stable).await;
        is_over.set(true);
        for running in running {
            assert!(running.await.unwrap() > 1);
        }
    });
}
