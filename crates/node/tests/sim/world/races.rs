//! Stories that random worlds hit too rarely, or never, step by step.

use super::{World, simulate};
use crate::dice::Dice;
use crate::host::{CLOCK_DRIFT_MAX, Copy, Crash, Host, key_bytes};
use crate::scenario::Scenario;
use base::{Entry, Expiry, Timestamp};
use checker::{Action, Outcome, Request};
use cluster::sweep::PassKind;
use lsm::Durability;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

const SEED: u64 = 1;

/// How often to look whether something has happened, and how many times at most.
const LOOK_PERIOD: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 6_000;

/// A calm world of four nodes, with fast disks and a fast network, without sweeps.
pub(super) fn calm() -> Scenario {
    Scenario {
        nodes: 4,
        runtimes: 1,
        keys: 20,
        timeout: Duration::from_secs(3),
        delay_ms: 0..=1,
        losses_per_million: 0,
        work_ms_max: 1,
        skew_ms_max: 0,
        durability: Durability::Sync,
        repair_interval: None,
        range_keys: 16 << 10,
        forgetting: None,
        clock_drift_max: CLOCK_DRIFT_MAX,
        faults: Vec::new(),
        loss: None,
        ..Scenario::new(&Dice::new(SEED))
    }
}

/// Runs a world in which all stores count.
pub(super) fn run<Story: Future<Output = ()>>(
    scenario: Scenario,
    story: impl FnOnce(Rc<World>) -> Story,
) {
    simulate(async move {
        let world = World::of(scenario, &Dice::new(SEED));
        spawn_local(world.network.clone().run());
        for (number, host) in world.hosts.iter().enumerate() {
            spawn_local(Rc::clone(host).drive());
            world.start(number);
        }
        let is_voter = |host: &Rc<Host>| host.is_voter() == Some(true);
        until("all stores count", || world.hosts.iter().all(is_voter)).await;
        story(world).await;
    });
}

pub(super) async fn until(what: &str, has_happened: impl Fn() -> bool) {
    for _ in 0..LOOKS_MAX {
        if has_happened() {
            return;
        }
        sleep(LOOK_PERIOD).await;
    }
    panic!("it never happened that {what}");
}

#[test]
fn an_ack_of_a_lost_store_does_not_count_beside_an_ack_after_the_store_was_filled() {
    run(calm(), async |world| {
        // The coordinator keeps nothing of the key. One replica hears of the write late, and
        // one never.
        const COORDINATOR: usize = 3;
        let replicas_of = |key| world.placement.ranking(&key_bytes(key), 3);
        let is_elsewhere = |key: &u64| {
            replicas_of(*key)
                .iter()
                .all(|node| node.index() != COORDINATOR)
        };
        let key = (0..world.scenario.keys).find(is_elsewhere).unwrap();
        let (lost, late, never) = (0, 1, 2);
        world.network.set_delay(COORDINATOR, late, &(200..=200));
        world.network.cut(COORDINATOR, never);
        let request = Request {
            client: 0,
            node: COORDINATOR,
            key,
            action: Action::Put { ttl_seconds: None },
            ack: 2,
            from: 3,
        };
        let asking = spawn_local({
            let world = Rc::clone(&world);
            async move { world.ask(request, Duration::from_secs(10)).await }
        });
        let host = &world.hosts[lost];
        let holds = |host: &Host| host.held(key).unwrap().is_some();
        until("the first replica stores the write", || holds(host)).await;
        // Its ack arrives.
        sleep(LOOK_PERIOD).await;
        assert!(!holds(&world.hosts[late]));
        host.crash(Crash::Kill);
        host.replace_disk(Copy::empty());
        world.start(lost);
        until("the lost store is filled", || {
            let is_filled = host.is_voter() == Some(true);
            if !is_filled {
                host.order_sweep(PassKind::Full);
            }
            is_filled
        })
        .await;
        let outcome = asking.await.unwrap();
        let Some(Outcome::Written { version, .. }) = outcome else {
            panic!("the write was not acknowledged: {outcome:?}");
        };
        let held = host.held(key).unwrap();
        assert_eq!(
            held.as_ref().map(Entry::timestamp),
            Some(version),
            "the filled store lacks a write that was acknowledged with its ack"
        );
    });
}

#[test]
fn copies_of_one_version_with_different_values_become_equal() {
    run(calm(), async |world| {
        const KEY: u64 = 3;
        let timestamp = Timestamp::from_unix_ms(1_799_999_000_000);
        let replicas = world.placement.ranking(&key_bytes(KEY), 3);
        for (node, value) in replicas.iter().zip([&b"whole"[..], b"whole", b"who"]) {
            let entry = Entry::value(&key_bytes(KEY), timestamp, value, Expiry::NEVER, 3);
            world.hosts[node.index()].store(entry).unwrap();
        }
        let are_equal = || {
            let copies = world.copies_of_all_keys();
            copies.and_then(|copies| world.agree(&copies)).is_ok()
        };
        let is_stored = |host: &Host| matches!(host.held(KEY), Ok(Some(_)));
        until("the versions are stored", || {
            replicas
                .iter()
                .all(|node| is_stored(&world.hosts[node.index()]))
        })
        .await;
        assert!(!are_equal());
        world.hosts[0].order_sweep(PassKind::Full);
        until("the replicas are equal", are_equal).await;
    });
}
