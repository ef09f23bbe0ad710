//! Makes two nodes equal in a range.

mod announcing;
mod streaming;

use super::calls::{RETRIES, TRIES_MAX};
use super::part::{Plan, RangeId, Selected, UnknownRange, report_unreadable};
use super::worker::RepairWorker;
use base::{Entry, Kind, Timestamp};
use bytes::Bytes;
use cluster::comparison::symbols::Decoder;
use cluster::comparison::{Digest, Item};
use cluster::repair::{SessionId, is_absent};
use cluster::{Miss, NodeId};
use peer::{KEY_HASHES_MAX, PeerRequest, RepairAnswer, RepairRequest};
use replica::background::WorkKind;
use std::collections::BTreeSet;
use std::time::Duration;
use streaming::StreamEnd;

/// The most symbols that one exchange asks for. A range has some 16,000 keys, so
/// they are enough for two nodes that share none.
pub(in crate::session) const SYMBOLS_TOTAL_MAX: u32 = 96 << 10;
/// Repair writes that are on their way at a time.
const WRITES_IN_FLIGHT: usize = 64;
/// About how many bytes of keys and values they have, unless one of them is longer.
const WRITES_BYTES: usize = 1 << 20;
/// The longest rest after so many writes: those of a whole range come within the time that
/// a request of a session may take.
const WRITES_REST_MAX: Duration = Duration::from_millis(100);

impl RepairWorker {
    /// Makes this node and another equal in a range.
    pub(in crate::session) async fn reconcile(&self, range: RangeId, with: NodeId) -> RepairAnswer {
        // Since the coordinator compared the digests, a third node may have made the two equal.
        let request = RepairRequest::Recount {
            session: range.0,
            range: range.1,
            asker: self.peers.own(),
        };
        let Ok(RepairAnswer::Recounted(theirs)) = self.ask_peer(with, request).await else {
            return self.refusal();
        };
        let streamed = match self.stream(range, with, theirs).await {
            Some(StreamEnd::Equal(streamed)) => {
                return Self::reconciled((true, true), 0, streamed, streamed);
            }
            Some(StreamEnd::Rest(streamed)) => streamed,
            Some(StreamEnd::Refused) => return Self::reconciled((false, false), 0, 0, 0),
            None => return self.refusal(),
        };
        let Some(plan) = self.plan(range, with, theirs).await else {
            return self.refusal();
        };
        let sent = self.send_newest(range, with, plan.send).await;
        let other_has_all = plan.makes_equal && sent.all;
        let mut asker_has_all = plan.makes_equal;
        let mut received = streamed;
        // What is streamed counts as not above the cut: a node that lacks most of a range has lost it.
        let mut below_cut = streamed + u64::from(sent.below_cut);
        // A newer version may have fewer copies, and no item that the two compare.
        let fetch = [plan.fetch, sent.may_be_newer_there].concat();
        for key_hashes in fetch.chunks(KEY_HASHES_MAX) {
            let request = RepairRequest::Send {
                session: range.0,
                range: range.1,
                asker: self.peers.own(),
                key_hashes: key_hashes.to_vec(),
            };
            match self.ask_peer(with, request).await {
                Ok(RepairAnswer::Sent {
                    all,
                    sent,
                    below_cut: old,
                }) => {
                    asker_has_all &= all;
                    received += u64::from(sent);
                    below_cut += u64::from(old);
                }
                _ => asker_has_all = false,
            }
        }
        Self::reconciled(
            (asker_has_all, other_has_all),
            sent.stored,
            received,
            below_cut,
        )
    }

    fn reconciled(
        (asker_has_all, other_has_all): (bool, bool),
        sent: u32,
        received: u64,
        below_cut: u64,
    ) -> RepairAnswer {
        RepairAnswer::Reconciled {
            asker_has_all,
            other_has_all,
            sent,
            received: u32::try_from(received).unwrap_or(u32::MAX),
            below_cut: u32::try_from(below_cut).unwrap_or(u32::MAX),
        }
    }

    /// Finds the versions that each of the two nodes lacks.
    async fn plan(&self, range: RangeId, with: NodeId, theirs: Digest) -> Option<Plan> {
        let mut decoder = Decoder::new();
        while decoder.symbols() < SYMBOLS_TOTAL_MAX {
            let count = decoder.symbols_to_ask().min(peer::SYMBOLS_MAX as u32);
            let request = RepairRequest::Symbols {
                session: range.0,
                range: range.1,
                asker: self.peers.own(),
                first: decoder.symbols(),
                count,
            };
            let Ok(RepairAnswer::Symbols(symbols)) = self.ask_peer(with, request).await else {
                return None;
            };
            if symbols.is_empty() {
                return None;
            }
            let plan;
            (decoder, plan) = self
                .in_background(move |own| {
                    let mut decoder = decoder;
                    let plan = own.plan(range, with, &mut decoder, &symbols, theirs);
                    (decoder, plan)
                })
                .await?;
            match plan {
                Ok(Some(plan)) => return Some(plan),
                Ok(None) => {}
                Err(UnknownRange) => return None,
            }
        }
        None
    }

    /// Sends the newest versions of some keys to the node that asks for them.
    pub(in crate::session) async fn send(
        &self,
        range: RangeId,
        asker: NodeId,
        key_hashes: Vec<u64>,
    ) -> RepairAnswer {
        let keys = self.in_background(move |own| own.keys_of(range, key_hashes));
        match keys.await {
            Some(Ok(keys)) => {
                let sent = self.send_newest(range, asker, keys).await;
                RepairAnswer::Sent {
                    all: sent.all,
                    sent: sent.stored,
                    below_cut: sent.below_cut,
                }
            }
            Some(Err(UnknownRange)) | None => self.refusal(),
        }
    }

    /// Sends the newest versions of some keys as repair writes. They are read as they are sent, so
    /// that few of them are in memory at a time.
    pub(super) async fn send_newest(&self, range: RangeId, to: NodeId, keys: Vec<Bytes>) -> Sent {
        let mut sent = Sent {
            all: true,
            stops: false,
            stored: 0,
            below_cut: 0,
            may_be_newer_there: Vec::new(),
        };
        let mut open: BTreeSet<u64> = keys.iter().map(|key| Item::key_hash_of(key)).collect();
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            let next = rest[..rest.len().min(WRITES_IN_FLIGHT)].to_vec();
            let read = self.in_background(move |own| own.newest(range, &next, WRITES_BYTES));
            let Selected {
                entries: batch,
                read,
                is_all,
                cut,
            } = match read.await {
                Some(Ok(Ok(selected))) => selected,
                unread => {
                    if let Some(Ok(Err(error))) = unread {
                        report_unreadable(&error);
                    }
                    sent.all = false;
                    break;
                }
            };
            rest = rest.get(read..).unwrap_or_default();
            sent.all &= is_all;
            let began = self.sessions.environment.clock.monotonic();
            self.send_batch((range.0, cut), to, batch, &mut sent, &mut open)
                .await;
            if sent.stops {
                // The peer is full, or has too much to do: the next session goes on.
                break;
            }
            self.rest_since(began).await;
        }
        let record = &self.sessions.record;
        record.count(|counts| counts.repair_writes_sent += u64::from(sent.stored));
        sent.may_be_newer_there = open.into_iter().collect();
        sent
    }

    /// Rests after repair writes that were begun at a time of the monotonic clock.
    async fn rest_since(&self, began: Duration) {
        let environment = &self.sessions.environment;
        let took = environment.clock.monotonic().saturating_sub(began);
        let rest = environment.background.rest_after(WorkKind::Repair, took);
        if !rest.is_zero() {
            tokio::time::sleep(rest.min(WRITES_REST_MAX)).await;
        }
    }

    /// As [`is_gone`], at this moment.
    fn is_gone(&self, entry: &Entry) -> bool {
        let environment = &self.sessions.environment;
        let expired_before = environment.expiry.expired_before_unix_ms();
        is_gone(
            entry,
            expired_before,
            environment.store_side.greatest_known(),
        )
    }

    /// Sends versions at the same time; again those that were too much for the peer. Takes the hashes
    /// of the keys out of `open` of which the peer has nothing newer.
    async fn send_batch(
        &self,
        (session, cut): (SessionId, Timestamp),
        to: NodeId,
        batch: Vec<Entry>,
        sent: &mut Sent,
        open: &mut BTreeSet<u64>,
    ) {
        let mut batch = batch;
        let is_old = |entry: &&Entry| entry.timestamp() <= cut;
        sent.below_cut += batch.iter().filter(is_old).count() as u32;
        let mut backoff = RETRIES;
        for _try in 1..=TRIES_MAX {
            let start = |entry: Entry| {
                let write = PeerRequest::RepairWrite {
                    session,
                    entry: entry.clone(),
                };
                (entry, self.start_call(to, write))
            };
            let calls: Vec<_> = batch.drain(..).map(start).collect();
            for (entry, call) in calls {
                match call.stored().await {
                    Ok(is_newer_there) => {
                        sent.stored += 1;
                        if !is_newer_there {
                            open.remove(&Item::key_hash_of(entry.key()));
                        }
                    }
                    Err(Miss::Overloaded) => batch.push(entry),
                    // It has died on all nodes, and the peer has freed and dropped it already,
                    // as any store has or will: there is nothing to make equal.
                    Err(Miss::Obsolete { .. }) if self.is_gone(&entry) => {
                        sent.below_cut -= u32::from(is_old(&&entry));
                    }
                    // The peer will never take this version: the others have to come nevertheless.
                    Err(Miss::Obsolete { .. }) => sent.all = false,
                    Err(Miss::Refused) if !self.peers.is_down(to) => sent.all = false,
                    Err(_) => (sent.all, sent.stops) = (false, true),
                }
            }
            if batch.is_empty() || sent.stops {
                break;
            }
            backoff.fail();
            tokio::time::sleep(backoff.wait()).await;
        }
        sent.stops |= !batch.is_empty();
        sent.all &= batch.is_empty();
    }
}

/// Whether a version has died by all clocks, below the greatest GC threshold. A value that
/// expires is made a tombstone, maybe after it was scanned and before it is sent.
fn is_gone(entry: &Entry, expired_before_unix_ms: u64, greatest: Timestamp) -> bool {
    let has_expired = entry.expiry().has_passed(expired_before_unix_ms);
    let is_dead = entry.kind() == Kind::Tombstone || has_expired;
    is_absent(entry.timestamp(), is_dead, greatest)
}

/// The result of sending repair writes.
pub(super) struct Sent {
    /// Whether all were stored.
    pub(super) all: bool,
    /// Whether the peer takes no more of them now.
    stops: bool,
    /// How many were stored.
    pub(super) stored: u32,
    /// How many of those that were sent, stored or not, were not above the cut, which is no lower
    /// than what a session is to raise the GC threshold to.
    pub(super) below_cut: u32,
    /// The hashes of the keys for which the other node may hold a newer version: it has said so, or
    /// it has not taken what was sent, and so has said nothing.
    may_be_newer_there: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Expiry;

    #[test]
    fn what_has_died_below_the_gc_threshold_is_nothing_to_make_equal() {
        const NOW_UNIX_MS: u64 = 1_800_000_000_000;
        let at = Timestamp::from_u64;
        let value = |timestamp, expiry| Entry::value(b"k", at(timestamp), b"v", expiry, 3);
        let expired = Expiry::at_unix_ms(NOW_UNIX_MS - 1);
        for (entry, expected) in [
            (value(9, Expiry::NEVER), false),
            (value(9, Expiry::at_unix_ms(NOW_UNIX_MS + 1)), false),
            (value(9, expired), true),
            // What this node has made of such a value since the scan.
            (Entry::tombstone(b"k", at(9), 3), true),
            (value(10, expired), false),
            (Entry::tombstone(b"k", at(10), 3), false),
        ] {
            assert_eq!(is_gone(&entry, NOW_UNIX_MS, at(10)), expected, "{entry:?}");
        }
    }
}
