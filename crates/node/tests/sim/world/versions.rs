//! Checks that all copies and answers with one version have the same content.

use crate::host::key_of;
use crate::network::HostNumber;
use crate::value;
use base::{Entry, Kind, Timestamp};
use checker::{Action, Content, History, OperationId, Outcome};
use std::collections::BTreeMap;
use std::fmt;
use tokio::time::Instant;

/// The contents that were seen under each version.
#[derive(Default)]
pub(super) struct Versions {
    seen: BTreeMap<Timestamp, Vec<Sighting>>,
}

/// A content that was seen under a version, and where it was seen first.
struct Sighting {
    key: u64,
    what: What,
    origin: String,
    /// When it was last seen in which stores; `None` if a client saw it.
    stores: Option<BTreeMap<HostNumber, Instant>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Tombstone,
    Value(Content),
}

impl Versions {
    /// Records a copy of a version on a node.
    pub(super) fn note(&mut self, entry: &Entry, node: HostNumber, origin: fmt::Arguments<'_>) {
        let what = match entry.kind() {
            Kind::Tombstone => What::Tombstone,
            Kind::Value => What::Value(value::read(entry.value_bytes())),
        };
        let sighting = self.sighting(entry.timestamp(), key_of(entry.key()), what, origin);
        if let Some(stores) = &mut sighting.stores {
            stores.insert(node, Instant::now());
        }
    }

    /// Records what a client saw.
    fn note_what(&mut self, version: Timestamp, key: u64, what: What, origin: fmt::Arguments<'_>) {
        self.sighting(version, key, what, origin).stores = None;
    }

    fn sighting(
        &mut self,
        version: Timestamp,
        key: u64,
        what: What,
        origin: fmt::Arguments<'_>,
    ) -> &mut Sighting {
        let seen = self.seen.entry(version).or_default();
        let is_this = |sight: &Sighting| (sight.key, sight.what) == (key, what);
        let index = seen.iter().position(is_this).unwrap_or(seen.len());
        if index == seen.len() {
            seen.push(Sighting {
                key,
                what,
                origin: origin.to_string(),
                stores: Some(BTreeMap::new()),
            });
        }
        &mut seen[index]
    }

    /// Adds what clients saw, and returns the versions that have several contents or that
    /// several writes were given the timestamp. An operation of which all trace is gone does not
    /// count, nor does a copy on a disk that was lost since: such versions may be issued
    /// again.
    pub(super) fn judge(
        &mut self,
        history: &History,
        is_gone: impl Fn(OperationId) -> bool,
        is_lost: impl Fn(HostNumber, Instant) -> bool,
    ) -> Vec<String> {
        for seen in self.seen.values_mut() {
            seen.retain(|sight| {
                let mut stores = sight.stores.iter().flatten();
                sight.stores.is_none() || stores.any(|(node, seen)| !is_lost(*node, *seen))
            });
        }
        let mut broken = Vec::new();
        let mut owners: BTreeMap<Timestamp, OperationId> = BTreeMap::new();
        for (id, operation) in (0..).map(OperationId).zip(history.operations()) {
            if is_gone(id) {
                continue;
            }
            let key = operation.request.key;
            let what = if operation.request.action.is_put() {
                What::Value(Content::Value(id))
            } else {
                What::Tombstone
            };
            match operation.outcome() {
                Some(
                    Outcome::Written { version, .. }
                    | Outcome::NotEnough {
                        timestamp: Some(version),
                    },
                ) => {
                    self.note_what(version, key, what, format_args!("#{} {operation}", id.0));
                    if let Some(other) = owners.insert(version, id) {
                        broken.push(format!(
                            "{version} was issued to #{} and #{}",
                            other.0, id.0
                        ));
                    }
                }
                Some(Outcome::Found {
                    version: Some(version),
                    content: content @ (Content::Value(_) | Content::Garbage),
                    ..
                }) => self.note_what(
                    version,
                    key,
                    What::Value(content),
                    format_args!("#{} {operation}", id.0),
                ),
                _ => {}
            }
        }
        for (version, seen) in &self.seen {
            let [first, others @ ..] = &seen[..] else {
                continue;
            };
            if others
                .iter()
                .any(|other| !may_be_one(first, other, history))
            {
                let lines = seen.iter().map(|sight| {
                    let Sighting {
                        key, what, origin, ..
                    } = sight;
                    format!("\n  key {key}, {what:?}: {origin}")
                });
                broken.push(format!(
                    "{version} has several contents:{}",
                    lines.collect::<String>()
                ));
            }
        }
        broken
    }
}

/// Whether one version may have both contents: an expired value becomes a tombstone.
fn may_be_one(one: &Sighting, other: &Sighting, history: &History) -> bool {
    let expires = |what| match what {
        What::Value(Content::Value(put)) => history.get(put).is_some_and(|put| {
            let action = put.request.action;
            matches!(action, Action::Put { ttl_seconds } if ttl_seconds.is_some())
        }),
        _ => false,
    };
    let expired = match (one.what, other.what) {
        (What::Tombstone, value) | (value, What::Tombstone) => expires(value),
        _ => false,
    };
    one.key == other.key && expired
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::key_bytes;
    use base::Expiry;
    use checker::Request;

    const KEY: u64 = 3;

    /// A history of writes of one key, each acknowledged under its version.
    fn history(writes: &[(Action, u64)]) -> History {
        let mut history = History::default();
        for (action, version) in writes {
            let request = Request {
                client: 0,
                node: 0,
                key: KEY,
                action: *action,
                ack: 2,
                from: 3,
            };
            let id = history.invoke(request, 0);
            let version = Timestamp::from_u64(*version);
            history.complete(id, Outcome::Written { version, acks: 2 }, 0);
        }
        history
    }

    fn put(ttl_seconds: Option<u64>) -> Action {
        Action::Put { ttl_seconds }
    }

    fn value_of(put: usize, version: u64, key: u64) -> Entry {
        let value = value::of(OperationId(put), 20);
        let version = Timestamp::from_u64(version);
        Entry::value(&key_bytes(key), version, &value, Expiry::NEVER, 3)
    }

    fn tombstone(version: u64) -> Entry {
        Entry::tombstone(&key_bytes(KEY), Timestamp::from_u64(version), 3)
    }

    #[track_caller]
    fn check(writes: &[(Action, u64)], stored: &[Entry], is_one_thing: bool) {
        let mut versions = Versions::default();
        for entry in stored {
            versions.note(entry, 1, format_args!("node 1"));
        }
        let broken = versions.judge(&history(writes), |_| false, |_, _| false);
        assert_eq!(broken.is_empty(), is_one_thing, "{broken:?}");
    }

    #[test]
    fn a_version_has_one_content_on_one_key() {
        let writes = [(put(None), 10), (Action::Delete, 20)];
        check(&writes, &[value_of(0, 10, KEY), tombstone(20)], true);
        check(&writes, &[value_of(0, 10, KEY), value_of(0, 10, KEY)], true);
        check(&writes, &[value_of(0, 20, KEY)], false);
        check(&writes, &[tombstone(10)], false);
        check(&writes, &[value_of(1, 10, KEY)], false);
        check(&writes, &[value_of(0, 10, KEY + 1)], false);
        // Also without an answer to a client two nodes must hold the same.
        check(&[], &[value_of(7, 30, KEY)], true);
        check(&[], &[value_of(7, 30, KEY), tombstone(30)], false);
    }

    #[test]
    fn a_version_is_issued_to_one_write() {
        check(&[(put(None), 10), (put(None), 11)], &[], true);
        check(&[(put(None), 10), (put(None), 10)], &[], false);
        check(&[(Action::Delete, 10), (Action::Delete, 10)], &[], false);
    }

    #[test]
    fn what_only_a_lost_disk_had_may_be_issued_again() {
        const LOST: HostNumber = 1;
        let judge = |holder| {
            let mut versions = Versions::default();
            versions.note(&value_of(7, 10, KEY), holder, format_args!("a disk"));
            let history = history(&[(Action::Delete, 10)]);
            versions.judge(&history, |_| false, |node, _| node == LOST)
        };
        assert_eq!(judge(LOST), Vec::<String>::new());
        assert_eq!(judge(LOST + 1).len(), 1);
    }

    #[test]
    fn only_a_value_that_expires_becomes_a_tombstone() {
        check(
            &[(put(Some(1)), 10)],
            &[value_of(0, 10, KEY), tombstone(10)],
            true,
        );
        check(
            &[(put(None), 10)],
            &[value_of(0, 10, KEY), tombstone(10)],
            false,
        );
    }
}
