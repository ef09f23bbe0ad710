//! Stores that lack something after the GC threshold has risen, step by step: what they must
//! not bring back, and what must not be lost with them.

use super::{
    GC_GRACE, KEY, LONG, World, delete, dropped_everywhere, gc_threshold, is_value, old_value,
    places, raise_gc_threshold_above, repair_for_long, run, store, three, until,
};
use crate::host::{Acceptance, Copy, Crash, Host, key_bytes};
use crate::scenario::Scenario;
use crate::value;
use base::{Entry, Expiry};
use checker::{Action, Content, OperationId, Outcome, Request};
use cluster::comparison::RepairKind;
use lsm::Durability;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn is_voter(host: &Rc<Host>) -> bool {
    host.is_voter() == Some(true)
}

/// What a read of all three replicas finds, once it is answered.
async fn read(world: &World, node: usize) -> Outcome {
    let get = Request {
        action: Action::Get,
        ..delete(node, 3, 3)
    };
    let began = Instant::now();
    loop {
        let outcome = world.ask(get, LONG).await;
        if let Some(outcome @ Outcome::Found { .. }) = outcome {
            return outcome;
        }
        assert!(began.elapsed() < 5 * LONG, "{outcome:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

fn has_value(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Found {
            content: Content::Value(_),
            ..
        }
    )
}

#[test]
fn stores_that_lack_something_do_not_bring_back_to_each_other_what_was_deleted() {
    let scenario = Scenario {
        durability: Durability::Os,
        ..three()
    };
    // While one node is away no full session can tell what was deleted.
    for kind in [RepairKind::Incremental, RepairKind::Full] {
        run(scenario.clone(), async |world| {
            for host in &world.hosts {
                store(host, &old_value(3)).await;
            }
            let [remembering, restored, away] = [0, 1, 2].map(|number| &world.hosts[number]);
            restored.crash(Crash::Kill);
            let copy = restored.copy_disk();
            world.start(1);
            dropped_everywhere(&world).await;
            sleep(GC_GRACE).await;
            // The power of all fails, which may have lost writes; one disk dies with it.
            for host in &world.hosts {
                host.crash(Crash::PowerCut);
            }
            restored.replace_disk(copy);
            world.start(0);
            world.start(1);
            let began = Instant::now();
            while began.elapsed() < LONG {
                remembering.order_repair(kind);
                restored.order_repair(kind);
                sleep(Duration::from_millis(200)).await;
                assert!(!is_value(remembering), "it came back, {kind:?}");
            }
            world.start(2);
            until("all stores count", || {
                remembering.order_repair(RepairKind::Full);
                world.hosts.iter().all(is_voter)
            })
            .await;
            assert!(!is_value(away) && !is_value(remembering), "{kind:?}");
            for node in 0..3 {
                assert!(!has_value(&read(&world, node).await), "{kind:?}");
            }
        });
    }
}

#[test]
fn a_store_that_was_accepted_is_filled_once_and_then_read_as_any_other() {
    run(three(), async |world| {
        for host in &world.hosts {
            store(host, &old_value(3)).await;
        }
        raise_gc_threshold_above(&world, old_value(3).timestamp()).await;
        let bound = gc_threshold(&world.hosts[0]);
        let accepted = &world.hosts[1];
        accepted.crash(Crash::Kill);
        accepted.replace_disk(Copy::empty());
        accepted.start(Acceptance::Empty).unwrap();
        until("it is rebuilt", || {
            world.hosts[0].order_repair(RepairKind::Full);
            is_value(accepted) && gc_threshold(accepted) >= bound
        })
        .await;
        sleep(2 * GC_GRACE).await;
        let repairs = accepted.full_repairs();
        // Neither does it have itself compared again and again, nor are its old versions
        // unreadable.
        sleep(5 * LONG).await;
        assert_eq!(accepted.full_repairs(), repairs);
        assert!(has_value(&read(&world, 1).await));
        // It takes part when F rises.
        let bound = gc_threshold(&world.hosts[0]);
        raise_gc_threshold_above(&world, bound).await;
    });
}

#[test]
fn the_last_copy_of_what_a_damaged_block_held_is_kept_for_the_operator() {
    for past in [Past::Calm, Past::PowerCut, Past::Accepted] {
        last_copy_of_what_a_damaged_block_held(past);
    }
}

/// What else has become of a store with damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    Calm,
    /// It may lack more than what the damage has taken.
    PowerCut,
    /// It was lost, an operator has accepted it, and it was rebuilt. Its peers hear that it was
    /// accepted until its next start.
    Accepted,
}

fn last_copy_of_what_a_damaged_block_held(past: Past) {
    let scenario = Scenario {
        durability: match past {
            Past::PowerCut => Durability::Os,
            Past::Calm | Past::Accepted => Durability::Sync,
        },
        ..three()
    };
    run(scenario, async |world| {
        let places = places(&world);
        let [damaged, restored] = [0, 1].map(|place| &world.hosts[places[place]]);
        for host in [damaged, restored] {
            store(host, &old_value(2)).await;
        }
        restored.crash(Crash::Kill);
        let copy = restored.copy_disk();
        world.start(places[1]);
        raise_gc_threshold_above(&world, old_value(2).timestamp()).await;
        if past == Past::Accepted {
            let bound = gc_threshold(damaged);
            damaged.crash(Crash::Kill);
            damaged.replace_disk(Copy::empty());
            damaged.start(Acceptance::Empty).unwrap();
            until("it is rebuilt", || {
                world.hosts[places[2]].order_repair(RepairKind::Full);
                is_value(damaged) && gc_threshold(damaged) >= bound
            })
            .await;
        }
        damaged.compact();
        assert!(is_value(damaged), "it was never deleted");
        assert!(damaged.rot_at(20));
        if past == Past::PowerCut {
            // A start meets the damage without a cached block.
            damaged.crash(Crash::Kill);
            world.start(places[0]);
            until("the damage is noted", || {
                let _error = damaged.held(KEY).is_err();
                damaged.has_damage() == Some(true)
            })
            .await;
            damaged.crash(Crash::PowerCut);
            world.start(places[0]);
        }
        restored.crash(Crash::Kill);
        restored.replace_disk(copy);
        world.start(places[1]);
        until("all stores count", || {
            world.hosts[places[2]].order_repair(RepairKind::Full);
            world.hosts.iter().all(is_voter) && is_readable(damaged)
        })
        .await;
        repair_for_long(&world, || {}).await;
        // Nobody knows whether it was deleted.
        assert_eq!(restored.set_aside(KEY), Some(old_value(2)), "{past:?}");
        for node in 0..3 {
            assert!(!has_value(&read(&world, node).await), "{past:?}");
        }
    });
}

/// Whether the store has no damage that was not compared.
fn is_readable(host: &Host) -> bool {
    host.held(KEY).is_ok() && host.has_damage() == Some(false)
}

/// What is below the GC threshold was durable in both when it rose, and nothing that they
/// lacked comes to them below it but from stores that count. So they can tell a third one.
#[test]
fn stores_that_a_power_cut_made_learners_tell_a_third_one_what_was_deleted() {
    let scenario = Scenario {
        durability: Durability::Os,
        ..three()
    };
    for remembering in [[0, 1], [1, 2], [2, 0]] {
        run(scenario.clone(), async |world| {
            let restored = 3 - remembering[0] - remembering[1];
            for host in &world.hosts {
                store(host, &old_value(3)).await;
                host.store(living()).unwrap();
            }
            sleep(GC_GRACE).await;
            world.hosts[restored].crash(Crash::Kill);
            let copy = world.hosts[restored].copy_disk();
            world.start(restored);
            dropped_everywhere(&world).await;
            // What they wrote last was not synced.
            for host in &world.hosts {
                host.crash(Crash::PowerCut);
            }
            world.hosts[restored].replace_disk(copy);
            (0..3).for_each(|number| world.start(number));
            until("all stores count", || {
                world.hosts[0].order_repair(RepairKind::Full);
                world.hosts.iter().all(is_voter)
            })
            .await;
            for host in &world.hosts {
                assert!(!is_value(host), "it came back");
                let is_kept = host.held(LIVING).unwrap() == Some(living());
                assert!(is_kept, "what was never deleted is gone");
            }
            for node in 0..3 {
                assert!(!has_value(&read(&world, node).await));
            }
        });
    }
}

/// A key that nobody deletes.
const LIVING: u64 = KEY + 1;

fn living() -> Entry {
    let value = value::of(OperationId(0), 30);
    let timestamp = old_value(3).timestamp();
    Entry::value(&key_bytes(LIVING), timestamp, &value, Expiry::NEVER, 3)
}
