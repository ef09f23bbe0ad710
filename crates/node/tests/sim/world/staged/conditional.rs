//! Conditional writes, and what coordinators leave behind that end in the middle of one.

use super::{LOOK_PERIOD, calm, run, until};
use crate::host::{Copy, Crash, Host, SentRequest, key_bytes};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::world::World;
use base::{Entry, Expiry, Timestamp};
use bytes::Bytes;
use checker::{Action, Outcome, Request};
use cluster::Replicas;
use cluster::comparison::RepairKind;
use node::simulation::{ConditionalAnswer, Written};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Two of three replicas.
pub(super) const PAIR: Replicas = Replicas::quorum(3);

/// The node that keeps nothing of the key, and its replicas in the order of the preference list.
pub(super) fn key_without(world: &World, coordinator: usize) -> (u64, Vec<usize>) {
    let replicas = |key| {
        let nodes = world.preference_list(&key_bytes(key), 3);
        nodes.iter().map(|node| node.index()).collect::<Vec<_>>()
    };
    let mut keys = (0..world.scenario.keys).map(|key| (key, replicas(key)));
    keys.find(|(_, replicas)| !replicas.contains(&coordinator))
        .unwrap()
}

pub(super) fn write_if(
    host: &Host,
    key: u64,
    value: Option<&'static str>,
    version: Option<Timestamp>,
) -> SentRequest<ConditionalAnswer> {
    let value = value.map(|value| Bytes::from_static(value.as_bytes()));
    host.write_if(key_bytes(key), value, version, PAIR).unwrap()
}

pub(super) async fn answer(sent: SentRequest<ConditionalAnswer>) -> ConditionalAnswer {
    sent.answer.await.unwrap()
}

/// The version of a write that was applied.
pub(super) async fn applied(sent: SentRequest<ConditionalAnswer>) -> Timestamp {
    match answer(sent).await {
        ConditionalAnswer::Applied(Written { timestamp, .. }) => timestamp,
        other => panic!("{other:?}"),
    }
}

/// The newest version, as a quorum has it.
pub(super) async fn read(host: &Host, key: u64) -> Option<Entry> {
    let read = host.get(key_bytes(key), PAIR).unwrap();
    read.answer.await.unwrap().unwrap().entry
}

fn is_any_promise_kept(world: &World) -> bool {
    world.hosts.iter().any(|host| host.promises_kept() > 0)
}

#[test]
fn a_version_is_replaced_only_by_who_names_it() {
    run(calm(), async |world| {
        let (key, _) = key_without(&world, 3);
        let [a, b, ..] = &world.hosts[..] else {
            unreachable!("there are four");
        };
        let first = applied(write_if(a, key, Some("first"), None)).await;
        let again = answer(write_if(b, key, Some("again"), None)).await;
        assert_eq!(again, ConditionalAnswer::NotMatched(Some(first)));
        let second = applied(write_if(b, key, Some("second"), Some(first))).await;
        let stale = answer(write_if(a, key, None, Some(first))).await;
        assert_eq!(stale, ConditionalAnswer::NotMatched(Some(second)));
        let deleted = applied(write_if(a, key, None, Some(second))).await;
        let gone = answer(write_if(b, key, Some("late"), Some(second))).await;
        assert_eq!(gone, ConditionalAnswer::NotMatched(None));
        let third = applied(write_if(b, key, Some("third"), None)).await;
        assert!(first < second && second < deleted && deleted < third);
        let read = read(&world.hosts[3], key).await.unwrap();
        assert_eq!(
            (read.value_bytes(), read.timestamp()),
            (&b"third"[..], third)
        );
        until("no promise is kept", || !is_any_promise_kept(&world)).await;
    });
}

#[test]
fn a_value_gets_another_time_to_live_and_stays() {
    run(calm(), async |world| {
        let (key, _) = key_without(&world, 3);
        let host = &world.hosts[0];
        let touch = || host.touch(key_bytes(key), 100, PAIR).unwrap();
        assert_eq!(answer(touch()).await, ConditionalAnswer::NotMatched(None));
        let first = applied(write_if(host, key, Some("value"), None)).await;
        let touched = applied(touch()).await;
        assert!(first < touched);
        let read = read(&world.hosts[3], key).await.unwrap();
        assert_eq!(read.value_bytes(), b"value");
        assert_eq!(read.timestamp(), touched);
        assert!(read.expiry() != Expiry::NEVER);
    });
}

/// A plain write is on its way into the log of each replica when the ballot is to be promised.
#[test]
fn a_plain_write_between_look_and_promise_is_not_skipped() {
    run(calm(), async |world| {
        let (key, _) = key_without(&world, 3);
        let host = &world.hosts[3];
        let plain = Request {
            client: 0,
            node: 3,
            key,
            action: Action::Put { ttl_seconds: None },
            ack: PAIR.ack,
            from: PAIR.from,
        };
        let plain = host.ask(plain, Some(Bytes::from_static(b"plain"))).unwrap();
        let late = write_if(host, key, Some("late"), None);
        let Outcome::Written { version, .. } = plain.answer.await.unwrap() else {
            panic!("the plain write fails");
        };
        let late = answer(late).await;
        assert_eq!(late, ConditionalAnswer::NotMatched(Some(version)));
    });
}

/// The value changes between the read of a touch and its write.
#[test]
fn a_touch_brings_no_older_value_back() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        let (host, other) = (&world.hosts[3], &world.hosts[replicas[0]]);
        let first = applied(write_if(other, key, Some("first"), None)).await;
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(50..=50));
        }
        let touch = host.touch(key_bytes(key), 100, PAIR).unwrap();
        // The replicas have answered the read, and the coordinator has not heard of it.
        sleep(Duration::from_millis(70)).await;
        applied(write_if(other, key, Some("second"), Some(first))).await;
        let touched = applied(touch).await;
        let read = read(other, key).await.unwrap();
        assert_eq!(
            (read.value_bytes(), read.timestamp()),
            (&b"second"[..], touched)
        );
    });
}

#[test]
fn a_write_goes_on_without_its_client() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(50..=50));
        }
        let sent = write_if(&world.hosts[3], key, Some("value"), None);
        let has_promised = |replica: &usize| world.hosts[*replica].promises_kept() > 0;
        until("all have promised", || replicas.iter().all(has_promised)).await;
        sent.leave.abort();
        until("it is written", || {
            let holds = |replica: &usize| world.hosts[*replica].held(key).unwrap().is_some();
            replicas.iter().all(holds)
        })
        .await;
        assert!(!is_any_promise_kept(&world));
    });
}

/// The promises are there when a coordinator goes on that has stood still for longer than its time.
/// By then replicas may have forgotten ballots.
#[test]
fn no_version_is_sent_after_the_deadline() {
    let timeout = Duration::from_millis(600);
    let scenario = Scenario { timeout, ..calm() };
    run(scenario, async |world| {
        let (key, replicas) = key_without(&world, 3);
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(50..=50));
        }
        let sent = write_if(&world.hosts[3], key, Some("value"), None);
        let has_promised = |replica: &usize| world.hosts[*replica].promises_kept() > 0;
        until("all have promised", || replicas.iter().all(has_promised)).await;
        world.hosts[3].freeze();
        sleep(timeout).await;
        world.hosts[3].thaw();
        let answer = answer(sent).await;
        assert!(
            matches!(answer, ConditionalAnswer::NotApplied(_)),
            "{answer:?}"
        );
    });
}

#[test]
fn a_replica_that_stands_still_gets_a_hint() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        let host = &world.hosts[3];
        let first = applied(write_if(host, key, Some("first"), None)).await;
        let frozen = &world.hosts[replicas[0]];
        frozen.freeze();
        let second = applied(write_if(host, key, Some("second"), Some(first))).await;
        frozen.thaw();
        until("the hint has arrived", || {
            let held = frozen.held(key).unwrap();
            held.is_some_and(|held| held.timestamp() == second)
        })
        .await;
    });
}

/// A coordinator ends between prepare and accept, and nobody asks for the key.
#[test]
fn what_a_coordinator_has_left_behind_is_settled_within_a_second() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        let first = applied(write_if(&world.hosts[0], key, Some("first"), None)).await;
        // The promises reach the coordinator late.
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(300..=300));
        }
        let _lost = write_if(&world.hosts[3], key, Some("second"), Some(first));
        let promised = || {
            replicas
                .iter()
                .all(|it| world.hosts[*it].promises_kept() > 0)
        };
        until("all have promised", promised).await;
        world.hosts[3].crash(Crash::Kill);
        let began = Instant::now();
        until("the key is settled", || !is_any_promise_kept(&world)).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        // All have answered, so the version is as it was.
        let read = read(&world.hosts[0], key).await.unwrap();
        assert_eq!(read.timestamp(), first);
        applied(write_if(&world.hosts[1], key, Some("third"), Some(first))).await;
    });
}

/// A coordinator ends once one replica has accepted, which then cannot be reached.
#[test]
fn a_version_that_one_replica_has_accepted_stays_hidden_if_others_have_gone_on() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        let [one, other, third] = replicas[..] else {
            unreachable!("there are three");
        };
        let first = applied(write_if(&world.hosts[other], key, Some("first"), None)).await;
        until("all hold it", || {
            let holds = |replica: &usize| world.hosts[*replica].held(key).unwrap().is_some();
            replicas.iter().all(holds)
        })
        .await;
        // Its version reaches one replica alone.
        world.network.set_delay(3, other, &(60..=60));
        world.network.set_delay(3, third, &(60..=60));
        let _lost = write_if(&world.hosts[3], key, Some("hidden"), Some(first));
        until("one has accepted", || {
            let held = world.hosts[one].held(key).unwrap();
            held.is_some_and(|held| held.timestamp() != first)
        })
        .await;
        world.network.cut(3, other);
        world.network.cut(3, third);
        world.hosts[3].crash(Crash::Kill);
        world.hosts[one].freeze();
        let are_settled = || {
            [other, third]
                .iter()
                .all(|it| world.hosts[*it].promises_kept() == 0)
        };
        assert!(!are_settled(), "both have promised");
        until("the others are settled", are_settled).await;
        let current = read(&world.hosts[other], key).await.unwrap();
        assert_eq!(current.value_bytes(), b"first");
        // Otherwise a plain write below the hidden version could still be acknowledged.
        let hidden = world.hosts[one].held(key).unwrap().unwrap();
        assert!(current.timestamp() > hidden.timestamp(), "{current:?}");
        let second = write_if(
            &world.hosts[other],
            key,
            Some("second"),
            Some(current.timestamp()),
        );
        let second = applied(second).await;
        world.hosts[one].thaw();
        until("it is hidden", || {
            let held = world.hosts[one].held(key).unwrap();
            held.is_some_and(|held| held.timestamp() == second)
        })
        .await;
        sleep(LOOK_PERIOD).await;
        let read = read(&world.hosts[one], key).await.unwrap();
        assert_eq!(read.value_bytes(), b"second");
    });
}

/// The promises of the replicas reach the coordinator after the value has expired.
#[test]
fn a_value_that_expires_between_condition_and_write_is_replaced_by_one_of_two() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        let (host, other) = (&world.hosts[3], &world.hosts[replicas[0]]);
        applied(write_if(host, key, Some("lease"), None)).await;
        let expires = host.touch(key_bytes(key), 1, PAIR).unwrap();
        let leased = applied(expires).await;
        sleep(Duration::from_millis(800)).await;
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(300..=300));
        }
        // It still holds its lease when it asks.
        let renewed = write_if(host, key, Some("renewed"), Some(leased));
        sleep(Duration::from_millis(250)).await;
        let taken = write_if(other, key, Some("taken"), None);
        let (renewed, taken) = (answer(renewed).await, answer(taken).await);
        match (&renewed, &taken) {
            (ConditionalAnswer::Applied(by), ConditionalAnswer::NotMatched(current)) => {
                assert_eq!(*current, Some(by.timestamp));
            }
            // Its promises have become stale meanwhile, and the other one has settled them.
            (
                ConditionalAnswer::NotMatched(_) | ConditionalAnswer::NotApplied(_),
                ConditionalAnswer::Applied(_),
            ) => {}
            _ => panic!("{renewed:?} and {taken:?}"),
        }
        let is_renewed = matches!(renewed, ConditionalAnswer::Applied(_));
        let read = read(other, key).await.unwrap();
        let expected: &[u8] = if is_renewed { b"renewed" } else { b"taken" };
        assert_eq!(read.value_bytes(), expected);
    });
}

/// A replica has promised, and loses its disk before the version comes.
#[test]
fn a_replica_that_loses_its_disk_in_the_middle_of_a_write_counts_for_nothing() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        let lost = &world.hosts[replicas[0]];
        let first = applied(write_if(&world.hosts[3], key, Some("first"), None)).await;
        until("all hold it", || {
            let holds = |replica: &usize| world.hosts[*replica].held(key).unwrap().is_some();
            replicas.iter().all(holds)
        })
        .await;
        // All have promised, and the coordinator hears of it late.
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(60..=60));
        }
        let second = write_if(&world.hosts[3], key, Some("second"), Some(first));
        until("all have promised", || {
            let mut all = replicas.iter();
            all.all(|replica| world.hosts[*replica].promises_kept() > 0)
        })
        .await;
        lost.crash(Crash::PowerCut);
        lost.replace_disk(Copy::empty());
        world.start(replicas[0]);
        let second = answer(second).await;
        let ConditionalAnswer::Applied(Written { timestamp, .. }) = second else {
            panic!("two of three are enough: {second:?}");
        };
        // The empty store counts for nothing, whoever is silent beside it.
        world.hosts[replicas[1]].freeze();
        let host = &world.hosts[replicas[2]];
        let third = answer(write_if(host, key, Some("third"), Some(first))).await;
        assert!(
            matches!(third, ConditionalAnswer::NotApplied(_)),
            "{third:?}"
        );
        world.hosts[replicas[1]].thaw();
        until("the store is rebuilt", || {
            let is_rebuilt = lost.is_voter() == Some(true);
            if !is_rebuilt {
                lost.order_repair(RepairKind::Full);
            }
            is_rebuilt
        })
        .await;
        assert_eq!(read(lost, key).await.unwrap().timestamp(), timestamp);
        applied(write_if(lost, key, Some("third"), Some(timestamp))).await;
    });
}

/// Has a host come back with an older copy of its disk. Its peers have met a later start, so that
/// they know.
async fn restore(world: &World, number: HostNumber, copy: Copy) {
    let host = &world.hosts[number];
    host.crash(Crash::Kill);
    world.start(number);
    until("its peers have met it", || host.is_voter() == Some(true)).await;
    host.crash(Crash::Kill);
    host.replace_disk(copy);
    world.start(number);
}

/// A replica has promised, and is an older copy of itself when the version comes. It still keeps the
/// promise, and has lost whatever else it was told since.
#[test]
fn what_a_store_accepts_that_does_not_count_does_not_count() {
    // Nobody settles a promise meanwhile where requests are given so much time.
    let timeout = Duration::from_secs(60);
    run(Scenario { timeout, ..calm() }, async |world| {
        let (key, replicas) = key_without(&world, 3);
        let [copied, late, silent] = replicas[..] else {
            unreachable!("there are three");
        };
        let first = applied(write_if(&world.hosts[3], key, Some("first"), None)).await;
        until("all hold it", || {
            let holds = |replica: &usize| world.hosts[*replica].held(key).unwrap().is_some();
            replicas.iter().all(holds)
        })
        .await;
        world.network.cut(3, silent);
        world.network.cut(silent, 3);
        // The second promise reaches the coordinator once the other store is back. No silence is so
        // long that the coordinator takes that replica for dead.
        for ms in [150, 300, 450] {
            world.network.set_delay(3, late, &(ms..=ms));
            sleep(Duration::from_secs(1)).await;
        }
        let second = write_if(&world.hosts[3], key, Some("second"), Some(first));
        let host = &world.hosts[copied];
        until("it has promised", || host.promises_kept() > 0).await;
        // Its answer arrives.
        sleep(LOOK_PERIOD).await;
        restore(&world, copied, host.copy_disk()).await;
        assert!(host.promises_kept() > 0, "the copy has the promise");
        let second = answer(second).await;
        assert!(
            matches!(second, ConditionalAnswer::Unknown(_)),
            "one of three has accepted it: {second:?}"
        );
        let held = host.held(key).unwrap().unwrap();
        assert_eq!(held.value_bytes(), b"second", "it is stored all the same");
        assert_eq!(host.is_voter(), Some(false));
    });
}

/// Nobody would end the promise of a store that does not count: what others settle it hears of only
/// once it is rebuilt, and what is to rebuild it may lie below the promise.
#[test]
fn a_store_that_does_not_count_gives_its_promises_up() {
    run(calm(), async |world| {
        let (key, replicas) = key_without(&world, 3);
        for replica in &replicas {
            world.network.set_delay(*replica, 3, &(100..=100));
        }
        let _lost = write_if(&world.hosts[3], key, Some("value"), None);
        let has_promised = |replica: &usize| world.hosts[*replica].promises_kept() > 0;
        until("all have promised", || replicas.iter().all(has_promised)).await;
        let host = &world.hosts[replicas[0]];
        let copy = host.copy_disk();
        world.hosts[3].crash(Crash::Kill);
        until("the key is settled", || !is_any_promise_kept(&world)).await;
        world.start(3);
        restore(&world, replicas[0], copy).await;
        assert!(host.promises_kept() > 0, "the copy has the promise");
        until("it is given up", || host.promises_kept() == 0).await;
        assert_eq!(host.is_voter(), Some(false));
    });
}
