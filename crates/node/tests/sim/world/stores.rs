//! Checks of the stores: whether hints have reached all replicas, whether there are
//! copies that no request asked for, and whether replicas agree.

use super::World;
use crate::host::key_bytes;
use crate::network::HostNumber;
use crate::scenario::{FaultKind, Loss};
use crate::value;
use base::Entry;
use checker::{Action, Operation, OperationId, Outcome};
use lsm::Durability;
use std::time::Duration;
use tokio::time::Instant;

/// How long after the deadline of a write its hints may take to be written.
const HINTED: Duration = Duration::from_millis(500);

/// How much longer that may take with a slow disk or a frozen process.
const HINTED_SLOWLY: Duration = Duration::from_secs(10);

/// What all nodes hold for a key.
pub(super) struct KeyCopies {
    key: u64,
    /// The nodes in the order of the key's preference list, each with its copy.
    places: Vec<(HostNumber, Option<Entry>)>,
}

impl World {
    /// The copies of all keys on all members. Where a lost folder cannot be read, the node
    /// counts as having no copy.
    pub(super) fn copies_of_all_keys(&self) -> Result<Vec<KeyCopies>, String> {
        let keys = 0..self.scenario.keys;
        keys.map(|key| {
            let preference_list = self.members.borrow().preference_list(&key_bytes(key));
            let mut places = Vec::new();
            for node in preference_list {
                let held = match self.hosts[node].held(key) {
                    Ok(held) => held,
                    Err(_) if self.lost.get() == Some(node) => None,
                    Err(error) => {
                        return Err(format!("node {node} cannot read key {key}: {error}"));
                    }
                };
                places.push((node, held));
            }
            Ok(KeyCopies { key, places })
        })
        .collect()
    }

    /// What each host holds, and what it knows of tombstone GC: for the text of a
    /// failure.
    pub(super) fn describe_stores(&self) -> String {
        let mut lines = Vec::new();
        for (number, host) in self.hosts.iter().enumerate() {
            let (gc, promises) = (host.gc_status(), host.all_promises_kept());
            lines.push(format!("host {number}: {gc:?}, promises {promises:?}"));
            lines.extend(host.all_held().iter().map(|held| {
                format!(
                    "  {}: {:?} at {}, {} copies",
                    held.key().escape_ascii(),
                    held.kind(),
                    held.timestamp().as_u64(),
                    held.copies()
                )
            }));
        }
        lines.join("\n")
    }

    /// Checks that each acknowledged write that hints cover, or something newer, is on all
    /// its replicas.
    pub(super) fn hints_have_arrived(&self, all: &[KeyCopies]) -> Result<(), String> {
        let history = self.history.borrow();
        for (id, operation) in (0..).map(OperationId).zip(history.operations()) {
            let Some(Outcome::Written { version, .. }) = operation.outcome() else {
                continue;
            };
            if !self.is_hinted(id, operation) {
                continue;
            }
            let asked = self.timeline.borrow().invoked_at(id);
            let Some(key_copies) = all
                .iter()
                .find(|key_copies| key_copies.key == operation.request.key)
            else {
                continue;
            };
            if version < self.gc_threshold() {
                // It may have been dead, or the tombstone that replaced it is gone. What
                // must be there is checked at the end.
                continue;
            }
            let places = key_copies
                .places
                .iter()
                .take(usize::from(operation.request.from));
            for (node, entry) in places {
                let is_there = entry.as_ref().map(Entry::timestamp) >= Some(version);
                // RepairSessions bring back what the other replicas keep now.
                let was_lost_there =
                    self.lost.get() == Some(*node) || self.hosts[*node].was_replaced_since(asked);
                if !is_there && !was_lost_there {
                    return Err(format!(
                        "before anything was read, node {node} lacks #{} {operation}:\n{}",
                        id.0,
                        key_copies.describe()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that a store that was lost, and counts again, has each write to all nodes
    /// that was acknowledged before it was lost, or something newer, unless power cuts may have
    /// lost it on all that had it. A newer version of
    /// fewer copies may have replaced it elsewhere, so such keys do not count.
    pub(crate) fn check_rebuilt(&self, number: HostNumber, lost: Instant) {
        // A node whose clock is far off refuses versions of the others.
        let far = [FaultKind::FarSkew, FaultKind::FarSkewAtStart];
        if far.iter().any(|kind| self.scenario.faults.contains(kind)) {
            return;
        }
        let history = self.history.borrow();
        let is_to_all = |operation: &Operation| {
            operation.request.action == Action::Get
                || usize::from(operation.request.from) == self.scenario.nodes
        };
        for key in 0..self.scenario.keys {
            let mut all = history.of_key(key);
            if !all.all(|(_, operation)| is_to_all(operation)) {
                continue;
            }
            for (id, operation) in history.of_key(key) {
                let Some(Outcome::Written { version, .. }) = operation.outcome() else {
                    continue;
                };
                let told = self.timeline.borrow().completed_at(id);
                if told.is_some_and(|told| told < lost)
                    && version >= self.gc_threshold()
                    && !self.may_be_cut(id, operation)
                    && let Ok(held) = self.hosts[number].held(key)
                    && held.as_ref().map(Entry::timestamp) < Some(version)
                {
                    return self.fail(format!(
                        "the store of node {number} counts, and lacks #{} {operation}",
                        id.0
                    ));
                }
            }
        }
    }

    /// Whether hints must have brought an acknowledged write to all its replicas. They must
    /// if its coordinator dropped no hint, did not crash until they were written, and had
    /// no power cut since, and if replicas keep what they have acknowledged.
    fn is_hinted(&self, id: OperationId, operation: &Operation) -> bool {
        let timeline = self.timeline.borrow();
        let asked = timeline.invoked_at(id);
        let Some(told) = timeline.completed_at(id) else {
            return false;
        };
        let faults = &self.scenario.faults;
        let is_slow = [FaultKind::Freeze, FaultKind::SlowDisk]
            .iter()
            .any(|kind| faults.contains(kind));
        let hinted = told
            + self.scenario.timeout
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
        let replicas_keep = self.scenario.durability == Durability::Sync
            || !self.hosts.iter().any(|host| lost_power(host));
        let is_of_lost = self.lost.get() == Some(operation.request.node);
        replicas_keep
            && !is_of_lost
            && !crashed_meanwhile
            && !lost_power(coordinator)
            && coordinator.hints_dropped() == 0
    }

    /// Checks that no node outside the replicas of a version has a copy, unless a read of
    /// more replicas may have put it there, or a repair: a store with a damaged block takes what is
    /// offered of the keys that the block may have held.
    pub(super) fn no_non_owned(&self, all: &[KeyCopies]) -> Result<(), String> {
        let history = self.history.borrow();
        for key_copies in all {
            let reads = history
                .of_key(key_copies.key)
                .map(|(_, operation)| operation);
            // A repair takes the newest version to wherever an older one has been.
            let repairs = self.scenario.can_repair();
            let reads =
                reads.filter(|operation| repairs || operation.request.action == Action::Get);
            let read_max = reads.map(|operation| operation.request.from).max();
            for (replica, (node, entry)) in (0..).zip(&key_copies.places) {
                let was_damaged =
                    self.scenario.loss == Some(Loss::Rot) && self.lost.get() == Some(*node);
                if let Some(entry) = entry
                    && !was_damaged
                    && replica >= entry.copies()
                    && read_max.is_none_or(|from| replica >= from)
                {
                    return Err(format!(
                        "node {node} has a copy that no request asked for:\n{}",
                        key_copies.describe()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the replicas of each key agree.
    pub(super) fn agree(&self, all: &[KeyCopies]) -> Result<(), String> {
        for key_copies in all {
            let entries = key_copies
                .places
                .iter()
                .filter_map(|(_, entry)| self.not_collected(entry));
            let Some(newest) = entries.max_by(|one, other| one.rank().cmp(&other.rank())) else {
                continue;
            };
            let copies = usize::from(newest.copies());
            let is_equal = |entry: &Option<Entry>| {
                let entry = self.not_collected(entry);
                entry.is_some_and(|entry| self.is_the_same(entry, newest))
            };
            let mut places = key_copies.places.iter().take(copies);
            if places.any(|(_, entry)| !is_equal(entry)) {
                return Err(format!(
                    "the replicas of key {} differ, {copies} of which must agree:\n{}",
                    key_copies.key,
                    key_copies.describe()
                ));
            }
        }
        Ok(())
    }
}

impl KeyCopies {
    /// The number of the key.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// All copies.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.places.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    /// The copies on nodes that are no replicas of their version.
    pub(super) fn non_owned(&self) -> impl Iterator<Item = &Entry> {
        let copies = (0..).zip(&self.places);
        copies.filter_map(|(place, (_, entry))| {
            let entry = entry.as_ref()?;
            (place >= entry.copies()).then_some(entry)
        })
    }

    /// What each node has, a line each.
    pub(super) fn describe(&self) -> String {
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
