//! What clients saw, and whether it is what they may rely on.

use std::collections::{BTreeMap, BTreeSet};

/// A version: its timestamp, whose low bits are the request that has allocated it. 0 is the value
/// that was there before the first write.
pub(crate) type Version = u64;

/// How many bits of a version are the request.
pub(crate) const REQUEST_BITS: u32 = 16;

#[derive(Clone, Debug)]
struct Event {
    kind: Kind,
    begun: u64,
    /// `u64::MAX` if its client heard of no success.
    ended: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Write {
        write: u64,
        acknowledged: Version,
    },
    /// A conditional write has replaced the content of a write.
    Swap {
        of: u64,
        by: u64,
        acknowledged: Version,
    },
    Read(Version),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    events: Vec<Event>,
    /// The write of which a version has the content, where it is not the one that has allocated it.
    pub(crate) contents: BTreeMap<Version, u64>,
    /// The versions on which conditional versions and those written anew were built.
    pub(crate) bases: BTreeMap<Version, Version>,
}

impl History {
    /// The write that a version comes from.
    pub(crate) fn write_of(&self, version: Version) -> u64 {
        let own = version & ((1 << REQUEST_BITS) - 1);
        self.contents.get(&version).copied().unwrap_or(own)
    }

    /// A conditional write has replaced the content of the write `of`; without `acknowledged` it may
    /// take effect at any time.
    pub(crate) fn swapped(
        &mut self,
        of: u64,
        by: u64,
        acknowledged: Option<Version>,
        begun: u64,
        ended: u64,
    ) {
        let ended = acknowledged.map_or(u64::MAX, |_| ended);
        let acknowledged = acknowledged.unwrap_or(0);
        let kind = Kind::Swap {
            of,
            by,
            acknowledged,
        };
        self.events.push(Event { kind, begun, ended });
    }

    /// A write was acknowledged with this version.
    pub(crate) fn written(&mut self, version: Version, begun: u64, ended: u64) {
        let write = self.write_of(version);
        let acknowledged = version;
        self.events.push(Event {
            kind: Kind::Write {
                write,
                acknowledged,
            },
            begun,
            ended,
        });
    }

    /// A write failed, and may take effect at any time.
    pub(crate) fn failed(&mut self, write: u64, begun: u64) {
        let kind = Kind::Write {
            write,
            acknowledged: 0,
        };
        let ended = u64::MAX;
        self.events.push(Event { kind, begun, ended });
    }

    /// A read returned this version.
    pub(crate) fn read(&mut self, version: Version, begun: u64, ended: u64) {
        let kind = Kind::Read(version);
        self.events.push(Event { kind, begun, ended });
    }

    fn acks(&self) -> impl Iterator<Item = (Version, &Event)> {
        self.events.iter().filter_map(|event| match event.kind {
            Kind::Write { acknowledged, .. } | Kind::Swap { acknowledged, .. }
                if event.ended < u64::MAX =>
            {
                Some((acknowledged, event))
            }
            _ => None,
        })
    }

    fn answers(&self) -> impl Iterator<Item = (Version, &Event)> {
        self.events.iter().filter_map(|event| match event.kind {
            Kind::Read(version) => Some((version, event)),
            Kind::Write { .. } | Kind::Swap { .. } => None,
        })
    }

    pub(crate) fn writes(&self) -> usize {
        self.acks().count()
    }

    pub(crate) fn swaps(&self) -> usize {
        let is_swap =
            |event: &&Event| matches!(event.kind, Kind::Swap { .. }) && event.ended < u64::MAX;
        self.events.iter().filter(is_swap).count()
    }

    pub(crate) fn reads(&self) -> usize {
        self.answers().count()
    }

    /// What breaks a promise that holds under faults, too.
    pub(crate) fn violation(&self) -> Option<String> {
        let is_before = |one: &Event, other: &Event| one.ended <= other.begun;
        for (version, write) in self.acks() {
            if let Some((earlier, _)) = self
                .acks()
                .find(|(other, event)| *other > version && is_before(event, write))
            {
                return Some(format!(
                    "a later write lost: {version:#x} after {earlier:#x}"
                ));
            }
        }
        for (version, read) in self.answers() {
            if let Some((missed, _)) = self
                .acks()
                .find(|(other, event)| *other > version && is_before(event, read))
            {
                return Some(format!(
                    "a read missed {missed:#x}, and returned {version:#x}"
                ));
            }
            if let Some((later, _)) = self
                .answers()
                .find(|(other, event)| *other > version && is_before(event, read))
            {
                return Some(format!("a read went back from {later:#x} to {version:#x}"));
            }
        }
        for (version, _) in self.acks().chain(self.answers()) {
            let Some(base) = self.bases.get(&version) else {
                continue;
            };
            if let Some((skipped, _)) =
                (self.acks()).find(|(other, _)| *base < *other && *other < version)
            {
                return Some(format!(
                    "{version:#x} on {base:#x} has skipped {skipped:#x}"
                ));
            }
        }
        None
    }

    /// Why the history is not linearizable.
    pub(crate) fn linearizability(&self) -> Option<String> {
        assert!(self.events.len() < 64);
        let mut seen = BTreeSet::new();
        if self.has_order(0, 0, &mut seen) {
            return None;
        }
        Some("the operations have no order".to_owned())
    }

    /// Whether the operations that are not in `done` can follow when the value is that of `write`.
    fn has_order(&self, done: u64, write: u64, seen: &mut BTreeSet<(u64, u64)>) -> bool {
        let open = || {
            let events = self.events.iter().enumerate();
            events.filter(move |(index, _)| done >> index & 1 == 0)
        };
        if open().all(|(_, event)| event.ended == u64::MAX) {
            return true;
        }
        if !seen.insert((done, write)) {
            return false;
        }
        let first_end = open().map(|(_, event)| event.ended).min().unwrap_or(0);
        open().any(|(index, event)| {
            let done = done | 1 << index;
            event.begun <= first_end
                && match event.kind {
                    Kind::Write { write, .. } => self.has_order(done, write, seen),
                    Kind::Swap { of, by, .. } => of == write && self.has_order(done, by, seen),
                    Kind::Read(version) => {
                        self.write_of(version) == write && self.has_order(done, write, seen)
                    }
                }
        })
    }
}
