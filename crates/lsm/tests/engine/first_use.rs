//! The smallest use of an engine: in memory, and step by step.

use base::{Entry, Expiry, Timestamp};
use lsm::{Engine, Options, Outbox, Outcome};
use lsm_testing::MemoryDisk;
use std::sync::{Arc, Mutex};

/// Where the engine delivers the outcomes of the writes.
#[derive(Default)]
struct Outcomes(Mutex<Vec<Outcome>>);

impl Outbox for Outcomes {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        self.0.lock().unwrap().extend(outcomes);
    }
}

#[test]
fn the_greatest_timestamp_wins_in_any_order_of_arrival() {
    let (environment, executor) = lsm_testing::environment(Arc::new(MemoryDisk::new()));
    let (engine, _) = Engine::open(environment, Options::default()).unwrap();

    let outcomes = Arc::new(Outcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&outcomes) as _;
    for (ticket, (timestamp, value)) in [(2, b"newer"), (1, b"older")].into_iter().enumerate() {
        let timestamp = Timestamp::from_u64(timestamp);
        let entry = Entry::value(b"key", timestamp, value, Expiry::NEVER, 1);
        engine.submit(entry, &outbox, ticket as u64).unwrap();
    }
    executor.run_all_due();

    let outcomes = outcomes.0.lock().unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    let found = engine
        .get(b"key")
        .unwrap()
        .map(|entry| entry.value_handle());
    assert_eq!(found.as_deref(), Some(&b"newer"[..]));
}
