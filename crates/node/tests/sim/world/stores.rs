//! What the stores hold: whether hints have reached all, whether copies lie
//! where nobody asked for them, and whether replicas agree.

use super::World;
use crate::host::key_bytes;
use crate::network::HostNumber;
use crate::value;
use crate::weather::FaultKind;
use base::Entry;
use checker::{Action, Operation, OperationId, Outcome};
use lsm::Durability;
use std::time::Duration;

/// How long after its deadline a write may take until its hints are written,
/// where nothing is slow.
const HINTED: Duration = Duration::from_millis(500);

/// By how much longer that may take where a disk is slow, or a process frozen.
const HINTED_SLOWLY: Duration = Duration::from_secs(10);

/// What all nodes hold under a key.
pub(super) struct Held {
    key: u64,
    /// The nodes in the order of the key's ranking, each with what it holds.
    places: Vec<(HostNumber, Option<Entry>)>,
}

impl World {
    /// What all nodes hold. What the one whose folder was lost, if there is one,
    /// cannot read, it does not hold.
    pub(super) fn held(&self) -> Result<Vec<Held>, String> {
        let keys = 0..self.weather.keys;
        keys.map(|key| {
            let ranking = self
                .placement
                .ranking(&key_bytes(key), self.weather.nodes as u8);
            let mut places = Vec::new();
            for node in ranking.iter().map(|node| node.index()) {
                let held = match self.hosts[node].held(key) {
                    Ok(held) => held,
                    Err(_) if self.lost.get() == Some(node) => None,
                    Err(error) => {
                        return Err(format!("node {node} cannot read key {key}: {error}"));
                    }
                };
                places.push((node, held));
            }
            Ok(Held { key, places })
        })
        .collect()
    }

    /// Demands that each write that was acknowledged, or something newer, lies
    /// on all its places, where hints must have brought it there.
    pub(super) fn hints_have_arrived(&self, held: &[Held]) -> Result<(), String> {
        let history = self.history.borrow();
        for (place, operation) in history.operations().iter().enumerate() {
            let Some(Outcome::Written { version, .. }) = operation.outcome() else {
                continue;
            };
            if !self.is_hinted(OperationId(place), operation) {
                continue;
            }
            let Some(held) = held.iter().find(|held| held.key == operation.request.key) else {
                continue;
            };
            let places = held.places.iter().take(usize::from(operation.request.from));
            for (node, entry) in places {
                let is_there = entry.as_ref().map(Entry::timestamp) >= Some(version);
                if !is_there && self.lost.get() != Some(*node) {
                    return Err(format!(
                        "before anything was read, node {node} lacks #{place} {operation}:\n{}",
                        held.describe()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether hints must have brought a write that was acknowledged to all of
    /// its replicas: nobody dropped any, and its coordinator lived until they
    /// were written, and kept its power since. A replica that has said it is stored
    /// must have kept it.
    fn is_hinted(&self, id: OperationId, operation: &Operation) -> bool {
        let timeline = self.timeline.borrow();
        let asked = timeline.invoked_at(id);
        let Some(told) = timeline.completed_at(id) else {
            return false;
        };
        let faults = &self.weather.faults;
        let is_slow = [FaultKind::Freeze, FaultKind::SlowDisk]
            .iter()
            .any(|kind| faults.contains(kind));
        let hinted = told
            + self.weather.timeout
            + HINTED
            + if is_slow {
                HINTED_SLOWLY
            } else {
                Duration::ZERO
            };
        let coordinator = &self.hosts[operation.request.node];
        let crashed_meanwhile = coordinator
            .crashes()
            .iter()
            .any(|crash| (asked..=hinted).contains(crash));
        let lost_power = |host: &crate::host::Host| {
            let cuts = host.power_cuts();
            cuts.iter().any(|cut| *cut >= asked)
        };
        let replicas_keep = self.weather.durability == Durability::Sync
            || !self.hosts.iter().any(|host| lost_power(host));
        let is_of_lost = self.lost.get() == Some(operation.request.node);
        replicas_keep
            && !is_of_lost
            && !crashed_meanwhile
            && !lost_power(coordinator)
            && coordinator.hints_dropped() == 0
    }

    /// Demands that no copy lies beyond its places unless a read of so many
    /// replicas may have put it there.
    pub(super) fn no_surplus(&self, held: &[Held]) -> Result<(), String> {
        let history = self.history.borrow();
        for held in held {
            let reads = history.of_key(held.key).map(|(_, operation)| operation);
            let reads = reads.filter(|operation| operation.request.action == Action::Get);
            let read_max = reads.map(|operation| operation.request.from).max();
            for (place, (node, entry)) in (0..).zip(&held.places) {
                if let Some(entry) = entry
                    && place >= entry.copies()
                    && read_max.is_none_or(|from| place >= from)
                {
                    return Err(format!(
                        "node {node} has a copy that nobody asked for:\n{}",
                        held.describe()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Says where replicas differ that must not.
    pub(super) fn agree(&self, held: &[Held]) -> Result<(), String> {
        for held in held {
            let entries = held.places.iter().filter_map(|(_, entry)| entry.as_ref());
            let Some(newest) = entries.max_by(|one, other| one.rank().cmp(&other.rank())) else {
                continue;
            };
            let copies = usize::from(newest.copies());
            let mut places = held.places.iter().take(copies);
            if places.any(|(_, entry)| entry.as_ref() != Some(newest)) {
                return Err(format!(
                    "the replicas of key {} differ, {copies} of which must agree:\n{}",
                    held.key,
                    held.describe()
                ));
            }
        }
        Ok(())
    }
}

impl Held {
    fn describe(&self) -> String {
        let lines = self.places.iter().map(|(node, entry)| match entry {
            None => format!("  node {node}: nothing"),
            Some(entry) => format!(
                "  node {node}: {:?} at {}, {} copies, {:?}",
                entry.kind(),
                entry.timestamp(),
                entry.copies(),
                value::read(entry.value_bytes())
            ),
        });
        let lines: Vec<String> = lines.collect();
        lines.join("\n")
    }
}
