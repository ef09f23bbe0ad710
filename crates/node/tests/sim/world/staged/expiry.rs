//! An idle cluster frees values that have expired by every clock that a node may have.

use crate::clock::SimClock;
use crate::dice::Dice;
use crate::host::{Acceptance, CLOCK_DRIFT_MAX, Host};
use crate::network::Network;
use crate::scenario::{Scenario, TombstoneGc};
use crate::trace::Trace;
use base::{Random, SeededRandom};
use checker::{Action, Outcome, Request};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

pub(crate) const NODES: usize = 3;

/// Enough values of this length to fill some memtables.
const VALUES: u64 = 60;
const VALUE_BYTES: usize = 4 << 10;

/// The bytes of the values in tables, without the last memtable.
const FLUSHED_BYTES: u64 = (VALUES - 32) * VALUE_BYTES as u64;

/// What may be left of them: their keys, and what each table costs.
const LEFT_BYTES_MAX: u64 = 8 << 10;

/// Longer than the margin for running reads and the time until compaction looks for
/// expired values again.
const QUIET: Duration = Duration::from_secs(150);
const PAST_THE_BOUND_MS: i64 = 2 * CLOCK_DRIFT_MAX.as_millis() as i64 + 1_000;

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_frees_what_has_expired_once_its_clocks_are_proven() {
    let set = LocalSet::new();
    set.run_until(async {
        let hosts = started(None).await;
        for key in 0..VALUES {
            let node = key as usize % NODES;
            put(&hosts[node], node, key).await;
        }
        sleep(QUIET).await;
        for host in &hosts {
            let bytes = host.table_bytes();
            assert!(bytes >= FLUSHED_BYTES, "the bound keeps it: {bytes}");
        }

        // By its own clock all values expired long ago, but no peer proves that
        // clock, and each of the others has only one near peer left.
        hosts[0].clock.set_skew_ms(10 * PAST_THE_BOUND_MS);
        sleep(QUIET).await;
        for host in &hosts {
            let bytes = host.table_bytes();
            assert!(bytes >= FLUSHED_BYTES, "a clock may be wrong: {bytes}");
        }

        for host in &hosts {
            host.clock.set_skew_ms(PAST_THE_BOUND_MS);
        }
        sleep(QUIET).await;
        for host in &hosts {
            let bytes = host.table_bytes();
            assert!(bytes <= LEFT_BYTES_MAX, "it is not freed: {bytes}");
        }
        // The remaining bytes are not compacted again and again.
        let compactions = || hosts.iter().map(|host| host.compactions()).sum::<u64>();
        let before = compactions();
        sleep(QUIET).await;
        assert_eq!(compactions(), before);
    })
    .await;
}

/// Three hosts whose nodes have met.
pub(crate) async fn started(tombstone_gc: Option<TombstoneGc>) -> Vec<Rc<Host>> {
    let dice = Dice::new(8);
    let scenario = Scenario {
        nodes: NODES,
        runtimes: 1,
        delay_ms: 1..=2,
        losses_per_million: 0,
        work_ms_max: 1,
        tombstone_gc,
        clock_drift_max: CLOCK_DRIFT_MAX,
        joiners: 0,
        changing: None,
        ..Scenario::new(&dice)
    };
    let trace = Trace::new();
    let network = Network::new(NODES, &scenario.delay_ms, 0, dice.fork(), trace.clone());
    tokio::task::spawn_local(network.clone().run());
    let began = Instant::now();
    let hosts: Vec<_> = (0..NODES)
        .map(|number| {
            let (clock, trace) = (SimClock::new(began), trace.clone());
            Host::new(
                number,
                &scenario,
                clock,
                network.clone(),
                trace,
                dice.fork(),
            )
        })
        .collect();
    for host in &hosts {
        tokio::task::spawn_local(Rc::clone(host).drive());
        host.start(Acceptance::Nothing).unwrap();
    }
    sleep(Duration::from_secs(3)).await;
    hosts
}

/// Puts a value that lives for a second on all nodes.
async fn put(host: &Host, node: usize, key: u64) {
    let request = Request {
        client: 0,
        node,
        key,
        action: Action::Put {
            ttl_seconds: Some(1),
        },
        ack: NODES as u8,
        from: NODES as u8,
    };
    // All values differ, and none can be compressed.
    let random = SeededRandom::new(key);
    let words = (0..VALUE_BYTES / 8).map(|_| random.next_u64().to_le_bytes());
    let value: Vec<u8> = words.flatten().collect();
    let asked = host.ask(request, Some(value.into())).unwrap();
    let outcome = asked.answer.await.unwrap();
    assert!(matches!(outcome, Outcome::Written { .. }), "{outcome:?}");
}
