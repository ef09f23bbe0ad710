//! The rules of the closed timestamp and of the GC threshold.

use super::{
    GC_GRACE, KEY, LONG, World, YEAR_MS, delete, dropped_everywhere, gc_threshold, held, is_value,
    its_tombstone, old_value, places, raise_gc_threshold_above, repair_for_long, run, store, three,
    until,
};
use crate::host::{Copy, Crash, Host, key_bytes};
use crate::scenario::Scenario;
use crate::value;
use base::{Clock, Entry, Expiry, Timestamp};
use checker::{Action, Content, OperationId, Outcome, Request};
use cluster::comparison::RepairKind;
use lsm::Durability;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Asks each node for the key in turn, while full repairs run that `coordinator(node)` coordinates:
/// no read finds a value.
async fn stays_deleted(world: &World, span: Duration, coordinator: impl Fn(usize) -> usize) {
    let began = Instant::now();
    while began.elapsed() < span {
        for node in 0..3 {
            world.hosts[coordinator(node)].order_repair(RepairKind::Full);
            let get = Request {
                action: Action::Get,
                ..delete(node, 2, 3)
            };
            let outcome = world.ask(get, LONG).await;
            let is_back = matches!(
                outcome,
                Some(Outcome::Found {
                    content: Content::Value(_),
                    ..
                })
            );
            assert!(!is_back, "{outcome:?}");
            sleep(Duration::from_millis(500)).await;
        }
    }
}

#[test]
fn what_comes_late_is_refused_even_after_all_nodes_were_restarted() {
    for is_restarted in [false, true] {
        run(three(), async |world| {
            dropped_everywhere(&world).await;
            if is_restarted {
                world
                    .hosts
                    .iter()
                    .for_each(|host| host.crash(Crash::PowerCut));
                (0..3).for_each(|number| world.start(number));
            }
            for host in &world.hosts {
                // The store itself refuses it, or the queue before it does.
                let _refused = host.store(old_value(3));
            }
            sleep(GC_GRACE).await;
            for host in &world.hosts {
                assert_eq!(held(host), None, "a late write came back, {is_restarted}");
            }
        });
    }
}

#[test]
fn the_bound_does_not_rise_while_two_nodes_cannot_be_compared() {
    run(three(), async |world| {
        let places = places(&world);
        let (holder, other) = (&world.hosts[places[0]], &world.hosts[places[1]]);
        store(holder, &old_value(2)).await;
        store(other, &old_value(2)).await;
        // An earlier session finds all pairs equal, and so does the one that was ordered last.
        raise_gc_threshold_above(&world, old_value(2).timestamp()).await;
        sleep(GC_GRACE).await;
        for (one, two) in [(places[0], places[1]), (places[1], places[0])] {
            world.network.cut(one, two);
        }
        let request = delete(places[0], 1, 2);
        let Some(Outcome::Written { version, .. }) = world.ask(request, LONG).await else {
            panic!("the delete was not acknowledged");
        };
        // The first session that comes now would be enough, with what the one before has found.
        sleep(2 * GC_GRACE).await;
        repair_for_long(&world, || {
            world.hosts.iter().for_each(|host| {
                assert!(
                    gc_threshold(host) <= version,
                    "one node still has the value"
                );
            });
        })
        .await;
        for (one, two) in [(places[0], places[1]), (places[1], places[0])] {
            world.network.heal(one, two);
        }
        raise_gc_threshold_above(&world, version).await;
        world.hosts.iter().for_each(|host| host.compact());
        assert!(!world.hosts.iter().any(|host| is_value(host)));
    });
}

#[test]
fn the_threshold_does_not_rise_while_a_node_is_away() {
    run(three(), async |world| {
        world.hosts[2].freeze();
        let before = gc_threshold(&world.hosts[0]);
        repair_for_long(&world, || {
            assert_eq!(gc_threshold(&world.hosts[0]), before);
            assert_eq!(gc_threshold(&world.hosts[1]), before);
        })
        .await;
        world.hosts[2].thaw();
        raise_gc_threshold_above(&world, its_tombstone(3).timestamp()).await;
    });
}

#[test]
fn a_coordinator_whose_clock_is_years_ahead_closes_nothing() {
    run(three(), async |world| {
        let right = world.hosts[1].clock.unix_ms();
        world.hosts[0].clock.set_skew_ms(5 * YEAR_MS);
        let bound = Timestamp::from_unix_ms(right + 2 * LONG.as_millis() as u64);
        repair_for_long(&world, || {
            for host in &world.hosts {
                let known = host.gc_status().unwrap();
                assert!(known.closed.max(known.greatest) < bound, "{known:?}");
            }
        })
        .await;
        world.hosts[0].clock.set_skew_ms(0);
        raise_gc_threshold_above(&world, its_tombstone(3).timestamp()).await;
    });
}

#[test]
fn a_copy_where_it_does_not_belong_does_not_outlive_the_tombstone_that_hides_it() {
    // The value and the tombstone are for the first node of the preference list alone; a read has
    // put the value on another one.
    for place in [1, 2] {
        run(three(), async |world| {
            let places = places(&world);
            let (own, stray) = (&world.hosts[places[0]], &world.hosts[places[place]]);
            store(stray, &old_value(1)).await;
            store(own, &its_tombstone(1)).await;
            raise_gc_threshold_above(&world, its_tombstone(1).timestamp()).await;
            own.compact();
            repair_for_long(&world, || assert!(!is_value(own), "it came back")).await;
            assert!(!is_value(stray), "it is still there");
        });
    }
}

#[test]
fn a_value_that_a_pass_moves_does_not_outlive_a_tombstone_of_fewer_copies() {
    // The tombstone is for the first node of the preference list alone, or for the first two, so only
    // the value is compared with the node that lacks both.
    for (copies, [own, holder, lacking]) in [
        (1, [0, 1, 2]),
        (1, [0, 2, 1]),
        (2, [0, 1, 2]),
        (2, [1, 0, 2]),
    ] {
        run(three(), async |world| {
            let places = places(&world);
            let [own, holder, lacking] =
                [own, holder, lacking].map(|place| &world.hosts[places[place]]);
            store(holder, &old_value(3)).await;
            store(own, &its_tombstone(copies)).await;
            assert_eq!(held(lacking), None);
            raise_gc_threshold_above(&world, its_tombstone(copies).timestamp()).await;
            world.hosts.iter().for_each(|host| host.compact());
            repair_for_long(&world, || {
                assert!(!is_value(own) && !is_value(holder), "it came back");
            })
            .await;
            assert!(!is_value(lacking), "it is still there");
        });
    }
}

#[test]
fn a_value_that_a_damaged_tombstone_hid_does_not_come_back_below_the_bound() {
    run(three(), async |world| {
        for host in &world.hosts {
            store(host, &old_value(3)).await;
            host.compact();
        }
        for host in &world.hosts {
            store(host, &its_tombstone(3)).await;
            // A table that is mostly dead would go as soon as the bound has risen.
            for other in KEY + 1..KEY + 20 {
                let timestamp = its_tombstone(3).timestamp();
                let value = value::of(OperationId(0), 30);
                let living = Entry::value(&key_bytes(other), timestamp, &value, Expiry::NEVER, 3);
                host.store(living).unwrap();
            }
        }
        raise_gc_threshold_above(&world, its_tombstone(3).timestamp()).await;
        let [damaged, others @ ..] = &world.hosts[..] else {
            panic!("there are three hosts");
        };
        for host in others {
            host.compact();
            assert_eq!(held(host), None, "the tombstone is dropped");
        }
        // The tombstone is in another table than the value, and no other node knows of it any
        // more.
        damaged.stop().await;
        assert!(damaged.rot_last_at(0), "there is a table");
        world.start(0);
        let bounds: Vec<Timestamp> = world.hosts.iter().map(|host| gc_threshold(host)).collect();
        stays_deleted(&world, LONG, |node| node).await;
        assert_eq!(damaged.has_damage(), Some(false), "it was compared");
        assert!(!world.hosts.iter().any(|host| is_value(host)));
        // A session that finds damage does not raise the bound, and later ones do.
        for (host, before) in world.hosts.iter().zip(bounds) {
            assert!(gc_threshold(host) > before);
        }
    });
}

#[test]
fn a_folder_from_before_the_bound_brings_nothing_back() {
    run(three(), async |world| {
        for host in &world.hosts {
            store(host, &old_value(3)).await;
        }
        let host = &world.hosts[2];
        host.crash(Crash::Kill);
        let copy = host.copy_disk();
        world.start(2);
        dropped_everywhere(&world).await;
        host.crash(Crash::Kill);
        host.replace_disk(copy);
        world.start(2);
        stays_deleted(&world, 5 * LONG, |_| 1).await;
        let is_voter = |host: &Rc<Host>| host.is_voter() == Some(true);
        assert!(world.hosts.iter().all(is_voter));
        assert!(!world.hosts.iter().any(|host| is_value(host)));
    });
}

#[test]
fn an_empty_folder_below_the_threshold_is_rebuilt_and_drops_what_the_others_drop() {
    run(three(), async |world| {
        dropped_everywhere(&world).await;
        world.hosts[0].crash(Crash::PowerCut);
        world.hosts[0].replace_disk(Copy::empty());
        world.start(0);
        let bound = gc_threshold(&world.hosts[1]);
        assert!(bound > Timestamp::ZERO);
        until("the store is rebuilt, and has the bound", || {
            world.hosts[1].order_repair(RepairKind::Full);
            world.hosts[0].is_voter() == Some(true) && gc_threshold(&world.hosts[0]) >= bound
        })
        .await;
        let _refused = world.hosts[0].store(old_value(3));
        sleep(GC_GRACE).await;
        assert_eq!(held(&world.hosts[0]), None);
    });
}

#[test]
fn a_read_waits_for_the_only_store_that_has_the_version_to_hear_of_the_bound() {
    let scenario = Scenario {
        timeout: Duration::from_secs(3),
        ..three()
    };
    run(scenario, async |world| {
        let places = places(&world);
        let (holder, coordinator) = (&world.hosts[places[0]], places[1]);
        store(holder, &old_value(1)).await;
        // It stores the bound before it names it, and that takes long.
        holder.set_work_ms_max(400);
        let have_others_heard = || {
            let heard =
                |place: &&usize| gc_threshold(&world.hosts[**place]) > old_value(1).timestamp();
            places[1..].iter().filter(heard).count() == 2
        };
        let began = Instant::now();
        for look in 0.. {
            if have_others_heard() {
                break;
            }
            assert!(began.elapsed() < LONG, "the GC threshold does not rise");
            if look % 500 == 0 {
                world.hosts[coordinator].order_repair(RepairKind::Full);
            }
            sleep(Duration::from_millis(1)).await;
        }
        assert!(
            gc_threshold(holder) < old_value(1).timestamp(),
            "it has heard"
        );
        let get = Request {
            action: Action::Get,
            ..delete(coordinator, 3, 3)
        };
        let outcome = world.ask(get, LONG).await;
        assert!(
            matches!(
                outcome,
                Some(Outcome::Found {
                    version: Some(_),
                    ..
                })
            ),
            "{outcome:?}"
        );
        assert!(gc_threshold(holder) > old_value(1).timestamp());
    });
}

#[test]
fn what_the_bound_rests_on_outlives_a_power_cut_of_all_nodes() {
    let scenario = Scenario {
        // Only what a session makes durable is durable at once.
        durability: Durability::Interval(LONG / 2),
        survival_percent: 0,
        ..three()
    };
    run(scenario, async |world| {
        let (first, others) = world.hosts.split_at(1);
        store(&first[0], &its_tombstone(3)).await;
        for host in others {
            store(host, &old_value(3)).await;
        }
        sleep(LONG).await;
        raise_gc_threshold_above(&world, its_tombstone(3).timestamp()).await;
        first[0].compact();
        assert_eq!(held(&first[0]), None, "the tombstone is dropped");
        for host in &world.hosts {
            host.crash(Crash::PowerCut);
        }
        (0..3).for_each(|number| world.start(number));
        repair_for_long(&world, || {
            // The other two have the tombstone, or nothing any more.
            assert!(
                !world.hosts.iter().any(|host| is_value(host)),
                "it came back"
            );
        })
        .await;
    });
}
