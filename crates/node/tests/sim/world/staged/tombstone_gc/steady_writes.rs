//! Copies on nodes beyond the replicas of their versions do not keep the forget bound down,
//! however many writes come meanwhile.

use crate::host::Host;
use crate::scenario::Forgetting;
use crate::world::staged::expiry::{NODES, started};
use base::Timestamp;
use checker::{Action, Request};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::sleep;

const GRACE: Duration = Duration::from_secs(1);
const FULL_REPAIR_INTERVAL: Duration = Duration::from_secs(1);

const SURPLUS_KEY: u64 = 9;

#[tokio::test(start_paused = true)]
async fn the_forget_bound_rises_beside_surplus_and_constant_writes() {
    let set = LocalSet::new();
    set.run_until(async {
        let hosts = started(Some(Forgetting {
            grace: GRACE,
            full_repair_interval: FULL_REPAIR_INTERVAL,
        }))
        .await;
        // The other two replicas of the first value keep the second one as surplus.
        for from in [3, 1] {
            put(&hosts[0], SURPLUS_KEY, from).await;
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
        // Some of the first passes find what came before the first fences.
        sleep(4 * FULL_REPAIR_INTERVAL + GRACE).await;
        let mut forgotten = Timestamp::ZERO;
        for _ in 0..3 {
            sleep(4 * FULL_REPAIR_INTERVAL).await;
            let known = hosts.iter().map(|host| host.gc_status().unwrap());
            let least = known.clone().map(|known| known.gc_threshold).min().unwrap();
            assert!(least > forgotten, "{:?}", known.collect::<Vec<_>>());
            forgotten = least;
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
