//! Copies on nodes that are no replicas of their version go, and nothing that counts goes with
//! them.

use super::{
    GC_GRACE, KEY, World, held, its_tombstone, old_value, places, raise_gc_threshold_above,
    repair_for_long, run, store, three, until,
};
use crate::host::{Copy, Crash, Host};
use crate::network::HostNumber;
use base::Timestamp;
use checker::{Action, Content, Outcome, Request};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(5);

fn request(key: u64, node: HostNumber, action: Action, from: u8) -> Request {
    Request {
        client: 0,
        node,
        key,
        action,
        ack: from,
        from,
    }
}

async fn write(world: &World, key: u64, action: Action, from: u8) -> Timestamp {
    let node = key as usize % world.hosts.len();
    let outcome = world.ask(request(key, node, action, from), PATIENCE).await;
    let Some(Outcome::Written { version, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    version
}

/// What a read of so many replicas finds: its version, if it is alive.
async fn read(world: &World, key: u64, node: HostNumber, from: u8) -> Option<Timestamp> {
    let get = request(key, node, Action::Get, from);
    match world.ask(get, PATIENCE).await {
        Some(Outcome::Found {
            version, content, ..
        }) => version.filter(|_| content != Content::Absent),
        outcome => panic!("{outcome:?}"),
    }
}

fn compact(world: &World) {
    world.hosts.iter().for_each(|host| host.compact());
}

fn non_owned_below(host: &Host) -> Timestamp {
    let known = host.gc_status();
    known.map_or(Timestamp::ZERO, |known| known.non_owned_below)
}

/// Waits until all nodes may drop the non-owned copies up to a timestamp.
async fn may_go(world: &World, timestamp: Timestamp) {
    raise_gc_threshold_above(world, timestamp).await;
    until("non-owned copies may go", || {
        let mut hosts = world.hosts.iter();
        hosts.all(|host| non_owned_below(host) > timestamp)
    })
    .await;
}

#[test]
fn after_a_pass_each_store_keeps_the_copies_that_its_versions_ask_for_and_no_others() {
    const KEYS: u64 = 20;
    run(three(), async |world| {
        let mut newest = Vec::new();
        for key in 0..KEYS {
            // The later write has fewer copies, or more, or as many; some keys are deleted.
            let (first, second) = (1 + key as u8 % 3, 1 + key as u8 / 3 % 3);
            write(&world, key, Action::Put { ttl_seconds: None }, first).await;
            let action = match key % 5 {
                4 => Action::Delete,
                _ => Action::Put { ttl_seconds: None },
            };
            let version = write(&world, key, action, second).await;
            newest.push((version, action, second));
            // A read of all puts what it finds on all.
            read(&world, key, 0, 3).await;
        }
        let last = newest.iter().map(|(version, ..)| *version).max().unwrap();
        may_go(&world, last).await;
        compact(&world);
        let copies = world.copies_of_all_keys().unwrap();
        for (key, (version, action, from)) in (0..).zip(&newest) {
            let expected = match action {
                Action::Delete => 0,
                _ => usize::from(*from),
            };
            let of_key = copies.iter().find(|copies| copies.key() == key).unwrap();
            let entries: Vec<_> = of_key.entries().collect();
            assert_eq!(entries.len(), expected, "{}", of_key.describe());
            assert!(entries.iter().all(|entry| entry.timestamp() == *version));
            assert_eq!(of_key.non_owned().count(), 0, "{}", of_key.describe());
        }
        let dropped: u64 = world
            .hosts
            .iter()
            .map(|host| host.non_owned_dropped())
            .sum();
        assert!(dropped > 5, "{dropped}");
        // A read repair fails at a store whose GC threshold has risen since the read: let the sessions
        // that were ordered end.
        sleep(2 * GC_GRACE).await;
        // Reads that overlap with the writes see them, through any node and with any `from`.
        for (key, (version, action, from)) in (0..).zip(newest) {
            let expected = (action != Action::Delete).then_some(version);
            for read_from in from..=3 {
                for node in 0..3 {
                    assert_eq!(read(&world, key, node, read_from).await, expected);
                }
            }
        }
        // The next sessions find nothing to send, and what the reads have brought back goes again.
        sleep(2 * GC_GRACE).await;
        may_go(&world, last).await;
        compact(&world);
        let copies = world.copies_of_all_keys().unwrap();
        assert!(
            copies
                .iter()
                .all(|copies| copies.non_owned().next().is_none())
        );
    });
}

#[test]
fn a_version_that_a_newer_one_of_fewer_copies_hides_elsewhere_comes_down() {
    for copies in [1, 2] {
        run(three(), async |world| {
            let places = places(&world);
            for host in &world.hosts {
                store(host, &old_value(3)).await;
                // Its own table.
                host.compact();
            }
            let newer = base::Entry::value(
                old_value(3).key(),
                its_tombstone(3).timestamp(),
                b"newer",
                base::Expiry::NEVER,
                copies,
            );
            store(&world.hosts[places[0]], &newer).await;
            may_go(&world, newer.timestamp()).await;
            compact(&world);
            for (place, number) in (0..).zip(places) {
                let expected = (place < copies).then(|| newer.clone());
                assert_eq!(held(&world.hosts[number]), expected, "{place}");
            }
        });
    }
}

#[test]
fn a_copy_that_is_the_only_one_stays_until_a_pass_has_brought_it_to_its_place() {
    run(three(), async |world| {
        let places = places(&world);
        let (own, stray) = (&world.hosts[places[0]], &world.hosts[places[1]]);
        store(stray, &old_value(1)).await;
        compact(&world);
        assert!(
            held(stray).is_some(),
            "nobody has shown that another has it"
        );
        may_go(&world, old_value(1).timestamp()).await;
        assert_eq!(held(own), Some(old_value(1)));
        compact(&world);
        assert_eq!((held(stray), held(own)), (None, Some(old_value(1))));
        repair_for_long(&world, || assert_eq!(held(stray), None, "it is sent back")).await;
        assert_eq!(
            read(&world, KEY, 0, 3).await,
            Some(old_value(1).timestamp())
        );
    });
}

#[test]
fn while_a_store_lacks_something_a_non_owned_copy_stays_and_restores_it() {
    run(three(), async |world| {
        let places = places(&world);
        let [own, stray, other] = [0, 1, 2].map(|place| &world.hosts[places[place]]);
        store(own, &old_value(1)).await;
        store(stray, &old_value(1)).await;
        may_go(&world, old_value(1).timestamp()).await;
        own.crash(Crash::PowerCut);
        own.replace_disk(Copy::empty());
        world.start(places[0]);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(own.is_voter(), Some(false), "it is not rebuilt yet");
        stray.compact();
        assert_eq!(held(stray), Some(old_value(1)), "it is the last copy");
        let is_rebuilt = |host: &Rc<Host>| host.is_voter() == Some(true);
        until("the store is rebuilt", || {
            other.order_repair(cluster::comparison::RepairKind::Full);
            is_rebuilt(own)
        })
        .await;
        assert_eq!(held(own), Some(old_value(1)));
        // The others hear that it is rebuilt.
        sleep(2 * GC_GRACE).await;
        compact(&world);
        assert_eq!((held(stray), held(own)), (None, Some(old_value(1))));
    });
}

#[test]
fn what_may_go_outlives_a_restart() {
    run(three(), async |world| {
        let places = places(&world);
        let (own, stray) = (&world.hosts[places[0]], &world.hosts[places[2]]);
        store(own, &old_value(2)).await;
        store(stray, &old_value(2)).await;
        may_go(&world, old_value(2).timestamp()).await;
        for host in &world.hosts {
            host.crash(Crash::PowerCut);
        }
        (0..3).for_each(|number| world.start(number));
        // Nothing goes before the node has met the others.
        stray.compact();
        assert!(held(stray).is_some());
        until("all stores count", || {
            world.hosts.iter().all(|host| host.is_voter() == Some(true))
        })
        .await;
        stray.compact();
        assert_eq!((held(stray), held(own)), (None, Some(old_value(2))));
    });
}
