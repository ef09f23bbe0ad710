//! Repairs that arrive long after the answers that they rest on.

use super::{
    GC_GRACE, LONG, delete, gc_threshold, is_value, its_tombstone, old_value, places, run, store,
    three, until,
};
use crate::scenario::Scenario;
use checker::{Action, Request};
use cluster::comparison::RepairKind;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

#[test]
fn a_late_repair_does_not_outlive_a_tombstone_of_fewer_copies() {
    let scenario = Scenario {
        timeout: Duration::from_secs(3),
        ..three()
    };
    // When the repair arrives decides what it slips behind.
    for after_ms in 0..20 {
        run(scenario.clone(), async |world| {
            let [holder, other, lacking] = places(&world)[..] else {
                panic!("there are three places");
            };
            let hosts = [holder, other, lacking].map(|number| Rc::clone(&world.hosts[number]));
            world.network.set_delay(holder, lacking, &(200..=200));
            sleep(GC_GRACE).await;
            store(&hosts[0], &old_value(3)).await;
            let get = Request {
                action: Action::Get,
                ..delete(holder, 3, 3)
            };
            let asking = spawn_local({
                let world = Rc::clone(&world);
                async move { world.ask(get, LONG).await }
            });
            until("the read repairs what is near", || is_value(&hosts[1])).await;
            assert!(!is_value(&hosts[2]), "its repair is on its way");
            world.network.cut(holder, lacking);
            world.network.set_delay(holder, lacking, &(0..=1));
            // A delete for the first two of the preference list.
            for host in &hosts[..2] {
                host.store(its_tombstone(2)).unwrap();
            }
            // The repair stalls.
            sleep(Duration::from_millis(250)).await;
            hosts[1].order_repair(RepairKind::Full);
            sleep(Duration::from_millis(after_ms)).await;
            world.network.heal(holder, lacking);
            let _outcome = asking.await.unwrap();
            until("the threshold is above the tombstone", || {
                hosts[1].order_repair(RepairKind::Full);
                let timestamp = its_tombstone(2).timestamp();
                hosts.iter().all(|host| gc_threshold(host) > timestamp)
            })
            .await;
            hosts.iter().for_each(|host| host.compact());
            for _ in 0..4 {
                hosts[1].order_repair(RepairKind::Full);
                sleep(GC_GRACE).await;
                for host in &hosts {
                    assert!(
                        !is_value(host),
                        "it came back, {after_ms} ms after the repair"
                    );
                }
            }
        });
    }
}
