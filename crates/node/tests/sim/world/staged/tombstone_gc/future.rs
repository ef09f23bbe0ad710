//! A cluster whose clocks were years ahead, and what an operator does about that.

use super::{
    GC_GRACE, LONG, World, delete, gc_threshold, held, is_value, its_tombstone, old_value,
    raise_gc_threshold_above, run, store, three, until,
};
use crate::clock::BEGIN_UNIX_MS;
use crate::host::{Acceptance, Crash, key_bytes};
use crate::value;
use base::{Clock, Entry, Expiry, Timestamp};
use checker::{Action, OperationId, Outcome, Request};
use cluster::comparison::RepairKind;
use tokio::time::sleep;

const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;

/// A key that nobody deletes.
const LIVING: u64 = super::KEY + 1;

fn living() -> Entry {
    let timestamp = Timestamp::from_unix_ms(BEGIN_UNIX_MS - 9_000);
    let value = value::of(OperationId(0), 30);
    Entry::value(&key_bytes(LIVING), timestamp, &value, Expiry::NEVER, 3)
}

async fn written(world: &World, request: Request) -> Timestamp {
    for _ in 0..100 {
        let outcome = world.ask(request, LONG).await;
        if let Some(Outcome::Written { version, .. }) = outcome {
            return version;
        }
        sleep(GC_GRACE).await;
    }
    panic!("{request} is never acknowledged");
}

fn restart_all(world: &World, acceptance: Acceptance) {
    for host in &world.hosts {
        host.crash(Crash::Kill);
    }
    for host in &world.hosts {
        host.start(acceptance).unwrap();
    }
}

#[test]
fn bounds_from_the_future_are_lowered_and_nothing_that_was_deleted_comes_back() {
    run(three(), async |world| {
        for host in &world.hosts {
            store(host, &old_value(3)).await;
            host.store(living()).unwrap();
            host.store(its_tombstone(3)).unwrap();
        }
        raise_gc_threshold_above(&world, its_tombstone(3).timestamp()).await;
        let right = world.hosts[0].clock.unix_ms();
        // All clocks together are years ahead, so each confirms the others.
        for host in &world.hosts {
            host.clock.set_skew_ms(5 * YEAR_MS);
        }
        let late_past = Timestamp::from_unix_ms(right + 4 * YEAR_MS as u64);
        until("the GC threshold is in the future", || {
            world.hosts[0].order_repair(RepairKind::Full);
            world
                .hosts
                .iter()
                .all(|host| gc_threshold(host) > late_past)
        })
        .await;
        let put = Request {
            action: Action::Put { ttl_seconds: None },
            ..delete(0, 3, 3)
        };
        assert!(written(&world, put).await > late_past);
        for host in &world.hosts {
            host.compact();
        }
        // The clocks are right again, and the operator knows.
        for host in &world.hosts {
            host.clock.set_skew_ms(0);
        }
        restart_all(&world, Acceptance::DropFuture);
        sleep(2 * GC_GRACE).await;
        restart_all(&world, Acceptance::Nothing);
        let present = || Timestamp::from_unix_ms(world.hosts[0].clock.unix_ms());
        until("the bounds are of the present", || {
            world.hosts.iter().all(|host| {
                let known = host.gc_status();
                known.is_some_and(|known| known.closed.max(known.greatest) <= present())
            })
        })
        .await;
        for host in &world.hosts {
            assert!(!is_value(host), "it came back: {:?}", held(host));
            let is_kept = host.held(LIVING).unwrap() == Some(living());
            assert!(is_kept, "what was never deleted is gone");
        }
        // Writes of now are taken, and are collected in their time.
        written(&world, put).await;
        let version = written(&world, delete(1, 3, 3)).await;
        assert!(version < late_past);
        raise_gc_threshold_above(&world, version).await;
        for host in &world.hosts {
            host.compact();
            assert!(!is_value(host), "it came back");
            assert_eq!(host.held(LIVING).unwrap(), Some(living()));
        }
    });
}
