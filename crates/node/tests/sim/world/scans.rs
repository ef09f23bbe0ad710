//! Scans of the whole cluster that clients ask for: what they tell of each key goes into the
//! history, and their order is checked at once.

use super::{PATIENCE, World};
use crate::dice::Dice;
use crate::host::{ScanTold, SentRequest, key_bytes};
use crate::workload;
use base::{Clock, Timestamp};
use checker::{Action, Content, OperationId, Outcome, Request};
use cluster::Replicas;
use std::time::Duration;
use tokio::time::{sleep, timeout};

impl World {
    /// Asks a node for a scan, and records what it tells of each key.
    pub(super) async fn ask_scan(&self, client: usize, dice: &Dice) {
        let any = workload::request(client, &self.scenario, dice);
        let host = &self.hosts[any.node];
        let replicas = Replicas {
            ack: any.ack,
            from: any.from,
        };
        let Some(SentRequest { answer, leave }) = host.ask_scan(any.key, replicas, Duration::ZERO)
        else {
            return sleep(super::REFUSED_PAUSE).await;
        };
        let start = key_bytes(any.key);
        let mut keys: Vec<u64> = (0..self.scenario.keys)
            .filter(|key| key_bytes(*key) >= start)
            .collect();
        keys.sort_by_key(|key| key_bytes(*key));
        let invoke = |key: &u64| {
            let request = Request {
                key: *key,
                action: Action::Scan,
                ..any
            };
            self.timeline.borrow_mut().invoked();
            let unix_ms = host.clock.unix_ms();
            (*key, self.history.borrow_mut().invoke(request, unix_ms))
        };
        let asked: Vec<(u64, OperationId)> = keys.iter().map(invoke).collect();
        self.trace.note(format_args!(
            "ask  scan of node {} from key {} {}/{}",
            any.node, any.key, any.ack, any.from
        ));
        let answer = timeout(PATIENCE, answer).await;
        if answer.is_err() {
            leave.abort();
        }
        let told = answer.ok().and_then(Result::ok);
        match &told {
            Some(told) => self.trace.note(format_args!(
                "tell scan of node {}: whole {}, {:?}",
                any.node, told.is_whole, told.entities
            )),
            None => self
                .trace
                .note(format_args!("tell scan of node {}: lost", any.node)),
        }
        if let Some(told) = &told {
            self.check_order(told, &start);
        }
        for (key, id) in asked {
            self.complete(id, any.node, outcome_of(key, told.as_ref(), any.ack));
        }
        sleep(Duration::from_millis(1)).await;
    }

    /// The keys ascend, so each comes once.
    fn check_order(&self, told: &ScanTold, start: &[u8]) {
        let keys: Vec<Vec<u8>> = told
            .entities
            .iter()
            .map(|(key, ..)| key_bytes(*key))
            .collect();
        let is_ascending = keys.is_sorted_by(|one, other| one < other);
        if !is_ascending || keys.iter().any(|key| key.as_slice() < start) {
            self.fail(format!("a scan is out of order: {:?}", told.entities));
        }
    }
}

/// What a scan says of a key. What it left out before its last key is as certain as what it
/// told.
fn outcome_of(key: u64, told: Option<&ScanTold>, acks: u8) -> Outcome {
    let Some(told) = told else {
        return Outcome::Lost;
    };
    let found = told.entities.iter().find(|(told, ..)| *told == key);
    let last = told.entities.last().map(|(last, ..)| key_bytes(*last));
    let (version, content): (Option<Timestamp>, Content) = match found {
        Some((_, version, content)) => (Some(*version), *content),
        None if told.is_whole || last.is_some_and(|last| key_bytes(key) < last) => {
            (None, Content::Absent)
        }
        None => return Outcome::NotEnough { timestamp: None },
    };
    Outcome::Found {
        version,
        content,
        acks,
    }
}
