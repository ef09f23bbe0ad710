//! Copies on nodes beyond the replicas of their versions do not keep the GC threshold down,
//! however many writes come meanwhile.

use crate::host::Host;
use crate::scenario::TombstoneGc;
use crate::world::staged::expiry::{NODES, started};
use base::Timestamp;
use checker::{Action, Request};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::sleep;

const GC_GRACE: Duration = Duration::from_secs(1);
const FULL_REPAIR_INTERVAL: Duration = Duration::from_secs(1);

const NON_OWNED_KEY: u64 = 9;

#[tokio::test(start_paused = true)]
async fn the_gc_threshold_rises_beside_non_owned_copies_and_constant_writes() {
    let set = LocalSet::new();
    set.run_until(async {
        let hosts = started(Some(TombstoneGc {
            gc_grace: GC_GRACE,
            full_repair_interval: FULL_REPAIR_INTERVAL,
        }))
        .await;
        // The other two replicas of the first value keep the second one as a non-owned copy.
        for from in [3, 1] {
            put(&hosts[0], NON_OWNED_KEY, from).await;
        }
        let writers: Vec<_> = (0..4)
            .map(|key| {
                let host = Rc::clone(&hosts[key as usize % NODES]);
                tokio::task::spawn_local(async move {
                    loop {
                        put(&host, key, 3).await;
                    }
                })
            })
            .collect();
        // Some of the first sessions find what came before the first closed timestamps.
        sleep(4 * FULL_REPAIR_INTERVAL + GC_GRACE).await;
        let mut gc_threshold = Timestamp::ZERO;
        for _ in 0..3 {
            sleep(4 * FULL_REPAIR_INTERVAL).await;
            let known = hosts.iter().map(|host| host.gc_status().unwrap());
            let least = known.clone().map(|known| known.gc_threshold).min().unwrap();
            assert!(least > gc_threshold, "{:?}", known.collect::<Vec<_>>());
            gc_threshold = least;
        }
        for writer in writers {
            writer.abort();
        }
    })
    .await;
}

async fn put(host: &Host, key: u64, from: u8) {
    let request = Request {
        client: 0,
        node: host.number(),
        key,
        action: Action::Put { ttl_seconds: None },
        ack: 1,
        from,
    };
    let asked = host.ask(request, Some(vec![7; 8].into())).unwrap();
    // Some may fail.
    let _outcome = asked.answer.await;
    sleep(Duration::from_millis(1)).await;
}
