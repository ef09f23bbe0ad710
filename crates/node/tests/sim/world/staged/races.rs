//! What happens at the same time as a write or a repair.

use super::{LOOK_PERIOD, calm, run, until};
use crate::host::{Copy, Crash, Host, key_bytes};
use base::{Entry, Expiry, Timestamp};
use checker::{Action, Outcome, Request};
use cluster::comparison::RepairKind;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

#[test]
fn an_ack_of_a_lost_store_does_not_count_beside_an_ack_after_the_store_was_rebuilt() {
    run(calm(), async |world| {
        // The coordinator keeps nothing of the key. One replica hears of the write late, and
        // one never.
        const COORDINATOR: usize = 3;
        let replicas_of = |key| world.preference_list(&key_bytes(key), 3);
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
        until("the lost store is rebuilt", || {
            let is_rebuilt = host.is_voter() == Some(true);
            if !is_rebuilt {
                host.order_repair(RepairKind::Full);
            }
            is_rebuilt
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
            "the rebuilt store lacks a write that was acknowledged with its ack"
        );
    });
}

#[test]
fn copies_of_one_version_with_different_values_become_equal() {
    run(calm(), async |world| {
        const KEY: u64 = 3;
        let timestamp = Timestamp::from_unix_ms(1_799_999_000_000);
        let replicas = world.preference_list(&key_bytes(KEY), 3);
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
        world.hosts[0].order_repair(RepairKind::Full);
        until("the replicas are equal", are_equal).await;
    });
}
