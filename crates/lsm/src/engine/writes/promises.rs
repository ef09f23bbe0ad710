//! Promises: for a key, that nothing below a ballot is stored until the promise is gone.
//!
//! An owner that replaces a version only if it is the one that a client has named needs two steps
//! at each of several stores: a promise of a ballot, which is a timestamp, and the version with
//! this timestamp. In between no older version may come in, or the new one would be built on a
//! version that was no longer the newest. (It is Paxos: the owner's documents tell why it is
//! right. The store only keeps its promises.)
//!
//! # The rules
//!
//! All of them are applied under the commit lock, when a write's group is committed.
//!
//! - A **promise** ([`Admission::Promise`]) is refused while the store keeps another one of the
//!   key, or if it has ever made one of as great a ballot. A forced promise replaces one of a lower
//!   ballot, and its outcome says that it has.
//! - Promises have an **epoch**, a number of the owner's that only grows. Once the store has made one
//!   of an epoch, it makes none of an earlier one. The outcome of a forced promise names the epoch of
//!   the one that it has replaced.
//! - A version below the ballot **waits** in the queue until the promise is gone, and is then
//!   committed like any other. What waits is bounded in bytes, and refused beyond.
//! - An **accepted** version ([`Admission::Accept`]) is stored only while the store keeps the
//!   promise of its ballot. The promise is gone then.
//! - A promise is also gone when it is **released** ([`Admission::Release`]), and when a version at
//!   or above its ballot is stored. So nothing newer is there when a version is accepted.
//! - An ingest is refused if the store keeps a promise of one of its keys, and no promise is made
//!   between its first and its last key from that check until it is visible.
//!
//! The owner reads the key after the promise is made: what the read finds is the newest version
//! below the ballot, and stays so.
//!
//! # Durability
//!
//! Promises are in the log, like versions, and as durable before their outcome is delivered. A
//! replay brings back those for which it finds no version at or above the ballot. So a promise that
//! was released may come back. That keeps older versions out for a while, until the owner settles
//! the key; nothing else. Before the file of a segment is freed, the promises that the store keeps
//! are logged again ([`Log::keep_promises`]).
//!
//! # Ballots of the past
//!
//! Ballots that were promised are remembered for as long as a request may ask
//! ([`RecentBallots`]). By them a promise of a lower ballot is refused, and a version that comes
//! below one and finds something newer is [`NewerVersion::Overtaken`]. If too many are
//! remembered, the oldest are replaced by their greatest, which then holds for all keys: this may
//! refuse a promise or call a write overtaken in vain, and its owner tries again above.
//!
//! So that a restart forgets none of them, the greatest is logged again with the promises: as one
//! for no copies, whose key means nothing. After a restart it holds for all keys.
//!
//! [`Log::keep_promises`]: crate::engine::core::log::Log::keep_promises
//! [`NewerVersion::Overtaken`]: base::NewerVersion::Overtaken

use super::admission::Admission;
use super::queue::{Group, PendingWrite};
use crate::error::Error;
use crate::table::KeyHash;
use base::{Entry, Timestamp};
use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How many promises the store keeps at most. A replay may bring back more.
const PROMISES_MAX: usize = 65_536;

/// How long a conditional write usually takes at most: two round trips and two syncs, ten times
/// over. Whoever meets a promise that is older settles it, and the write needs another ballot if it
/// is still under way. So where requests are given more time, because the network is slow, a promise
/// stays fresh for longer: for this share of the time for which ballots are remembered.
const FRESH_MIN: Duration = Duration::from_millis(100);
const FRESH_SHARE: u32 = 100;

/// The key of the greatest ballot of the past in the log.
const GREATEST_KEY: &[u8] = b"\0";

/// How many ballots are remembered by key before they are replaced by their greatest.
const RECENT_MAX: usize = 16 << 10;

/// How many promised keys an ingest looks for in its tables at most.
const INGEST_PROMISES_MAX: usize = 64;

/// A first and a last key.
type KeyRange = (Box<[u8]>, Box<[u8]>);

/// The promises that the store keeps.
pub(in crate::engine) struct Promises {
    kept: BTreeMap<Box<[u8]>, Promise>,
    /// The greatest epoch of a promise that was made since the opening.
    epoch: u64,
    /// How many there are, for those who do not hold the commit lock.
    count: Arc<AtomicUsize>,
    recent: RecentBallots,
    /// The first and last keys of the ingests that are being made visible.
    ingested: Vec<KeyRange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Promise {
    ballot: Timestamp,
    /// How many copies the version is to have.
    copies: u8,
    /// The owner's number; 0 if the promise is older than the opening of the store.
    epoch: u64,
    /// When it was made, by the monotonic clock; [`None`] before the store was opened.
    at: Option<Duration>,
}

/// A promise that a store keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPromise {
    /// The key.
    pub key: Box<[u8]>,
    /// The ballot.
    pub ballot: Timestamp,
    /// How many copies the version is to have.
    pub copies: u8,
    /// For how long it is kept; [`None`] if it is older than the opening of the store.
    pub kept_for: Option<Duration>,
}

/// What the promises say about a group.
#[derive(Default)]
pub(in crate::engine) struct Sifted {
    /// What waits for a promise.
    pub(in crate::engine) waiting: Group,
    /// What is refused, and why.
    pub(in crate::engine) refused: Vec<(PendingWrite, Error)>,
    /// The releases, which are done.
    pub(in crate::engine) released: Group,
}

impl Promises {
    /// Those of a store that is being opened, from its log. `newest` gives the timestamp of the
    /// newest version of a key that the log has. Ballots of the past are remembered for `kept_for`.
    pub(in crate::engine) fn recovered(
        logged: impl IntoIterator<Item = Entry>,
        newest: impl Fn(&[u8]) -> Option<Timestamp>,
        kept_for: Duration,
        now: Duration,
    ) -> Self {
        let mut promises = Self {
            kept: BTreeMap::new(),
            epoch: 0,
            count: Arc::default(),
            recent: RecentBallots::new(kept_for),
            ingested: Vec::new(),
        };
        for logged in logged {
            let (key, ballot) = (logged.key(), logged.timestamp());
            promises.recent.remember(ballot, now);
            if logged.copies() == 0 {
                continue;
            }
            let is_over = newest(key).is_some_and(|newest| newest >= ballot);
            let is_replaced = (promises.kept.get(key)).is_some_and(|kept| kept.ballot >= ballot);
            if !is_over && !is_replaced {
                let promise = Promise {
                    ballot,
                    copies: logged.copies(),
                    epoch: 0,
                    at: None,
                };
                promises.kept.insert(key.into(), promise);
            }
        }
        promises.note_count();
        promises
    }

    /// The promises as they are logged, and the greatest ballot of the past.
    pub(in crate::engine) fn logged(&mut self, now: Duration) -> Vec<Entry> {
        self.recent.forget_old(now);
        let greatest = (!self.recent.is_empty())
            .then(|| Entry::tombstone(GREATEST_KEY, self.recent.greatest, 0));
        let kept = self.kept.iter();
        kept.map(|(key, promise)| Entry::tombstone(key, promise.ballot, promise.copies))
            .chain(greatest)
            .collect()
    }

    /// Whether a group has nothing to do with promises. The caller holds the commit lock.
    pub(in crate::engine) fn concern_none_of(&self, group: &Group) -> bool {
        let is_plain = |pending: &PendingWrite| !pending.admission.is_conditional();
        self.kept.is_empty() && group.iter().all(is_plain)
    }

    /// Takes out of a group what waits for a promise or is refused because of one, and releases
    /// what is to be released. The caller holds the commit lock.
    pub(in crate::engine) fn sift(&mut self, group: &mut Group, now: Duration) -> Sifted {
        self.recent.forget_old(now);
        let mut sifted = Sifted::default();
        let mut taken = Group::with_capacity(group.len());
        for pending in mem::take(group) {
            let (key, timestamp) = (pending.entry.key(), pending.entry.timestamp());
            match pending.admission {
                Admission::Promise { is_forced, epoch } => {
                    let check = match made_of(&taken, key) {
                        Some(index) => Err(Error::Promised {
                            with: taken[index].entry.timestamp(),
                            is_stale: false,
                        }),
                        None => self.check(key, timestamp, is_forced, epoch, now),
                    };
                    match check {
                        Ok(()) => taken.push_back(pending),
                        Err(error) => sifted.refused.push((pending, error)),
                    }
                }
                Admission::Accept { ballot } if self.ballot(key) == Some(ballot) => {
                    taken.push_back(pending);
                }
                Admission::Accept { .. } => sifted.refused.push((pending, Error::NotPromised)),
                Admission::Release => {
                    if self.ballot(key) == Some(timestamp) {
                        self.kept.remove(key);
                        self.note_count();
                    }
                    // It may come with its promise, which then is not made at all.
                    let made = made_of(&taken, key)
                        .filter(|made| taken[*made].entry.timestamp() == timestamp);
                    if let Some(made) = made.and_then(|made| taken.remove(made)) {
                        sifted.refused.push((made, Error::NotPromised));
                    }
                    sifted.released.push_back(pending);
                }
                Admission::Ordinary | Admission::Late { .. } => {
                    if self.ballot(key).is_some_and(|ballot| timestamp < ballot) {
                        sifted.waiting.push_back(pending);
                    } else {
                        taken.push_back(pending);
                    }
                }
            }
        }
        *group = taken;
        sifted
    }

    fn note_count(&self) {
        self.count.store(self.kept.len(), Relaxed);
    }

    /// How many promises are kept, as anybody may see it.
    pub(in crate::engine) fn count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.count)
    }

    /// The promises that are kept for at least so long, up to `max` of them, in the order of the keys
    /// behind `after`.
    pub(in crate::engine) fn kept_for(
        &self,
        age: Duration,
        after: &[u8],
        max: usize,
        now: Duration,
    ) -> Vec<KeptPromise> {
        let keys = (Bound::Excluded(after), Bound::Unbounded);
        let kept = self
            .kept
            .range::<[u8], _>(keys)
            .filter_map(|(key, promise)| {
                let kept_for = promise.at.map(|at| now.saturating_sub(at));
                let is_old = kept_for.is_none_or(|kept_for| kept_for >= age);
                is_old.then(|| KeptPromise {
                    key: key.clone(),
                    ballot: promise.ballot,
                    copies: promise.copies,
                    kept_for,
                })
            });
        kept.take(max).collect()
    }

    /// Checks that a ballot may be promised.
    fn check(
        &self,
        key: &[u8],
        ballot: Timestamp,
        is_forced: bool,
        epoch: u64,
        now: Duration,
    ) -> Result<(), Error> {
        let is_within = |(first, last): &KeyRange| **first <= *key && *key <= **last;
        if self.ingested.iter().any(is_within) {
            return Err(Error::Overloaded);
        }
        if epoch < self.epoch {
            return Err(Error::Promised {
                with: self.recent.greatest,
                is_stale: false,
            });
        }
        if let Some(promise) = self.kept.get(key) {
            if !is_forced || promise.ballot >= ballot {
                let fresh = FRESH_MIN.max(self.recent.kept_for / FRESH_SHARE);
                let is_fresh = |at| now.saturating_sub(at) < fresh;
                return Err(Error::Promised {
                    with: promise.ballot,
                    is_stale: !promise.at.is_some_and(is_fresh),
                });
            }
        } else if self.kept.len() >= PROMISES_MAX {
            return Err(Error::Overloaded);
        }
        let with = self.recent.greatest_of(KeyHash::of(key));
        if ballot <= with {
            let is_stale = false;
            return Err(Error::Promised { with, is_stale });
        }
        Ok(())
    }

    /// The ballot that is promised for a key.
    fn ballot(&self, key: &[u8]) -> Option<Timestamp> {
        self.kept.get(key).map(|promise| promise.ballot)
    }

    /// Notes a promise that is in the log. Returns the epoch of the one that it has replaced, if any;
    /// 0 if that is not known.
    pub(in crate::engine) fn make(
        &mut self,
        promise: &Entry,
        epoch: u64,
        now: Duration,
    ) -> Option<u64> {
        let (key, ballot) = (promise.key(), promise.timestamp());
        self.recent.note(KeyHash::of(key), ballot, now);
        let at = Some(now);
        let promise_kept = Promise {
            ballot,
            copies: promise.copies(),
            epoch,
            at,
        };
        self.epoch = self.epoch.max(epoch);
        let before = self.kept.insert(key.into(), promise_kept);
        self.note_count();
        before.map(|before| before.epoch)
    }

    /// Notes a version that is in the log. Returns whether a promise is gone by it, so that what
    /// waits for it may go on.
    pub(in crate::engine) fn stored(&mut self, entry: &Entry, admission: Admission) -> bool {
        if self.kept.is_empty() {
            return false;
        }
        let is_over =
            |ballot| matches!(admission, Admission::Accept { .. }) || ballot <= entry.timestamp();
        let is_over = self.ballot(entry.key()).is_some_and(is_over);
        if is_over {
            self.kept.remove(entry.key());
            self.note_count();
        }
        is_over
    }

    /// Whether the store has promised a ballot above this version of late.
    pub(in crate::engine) fn has_overtaken(&self, entry: &Entry) -> bool {
        self.recent.greatest > entry.timestamp()
            && self.recent.greatest_of(KeyHash::of(entry.key())) > entry.timestamp()
    }

    /// Begins to make an ingest between these keys visible; [`Promises::ingested`] is to follow.
    /// Returns the keys in between of which a promise is kept: the ingest must have none of them.
    ///
    /// # Errors
    /// [`Error::Overloaded`]: there are too many of them.
    pub(in crate::engine) fn ingest(
        &mut self,
        first: &[u8],
        last: &[u8],
    ) -> Result<Vec<Box<[u8]>>, Error> {
        let keys = (Bound::Included(first), Bound::Included(last));
        let promised = self.kept.range::<[u8], _>(keys).map(|(key, _)| key.clone());
        let promised: Vec<_> = promised.take(INGEST_PROMISES_MAX + 1).collect();
        if promised.len() > INGEST_PROMISES_MAX {
            return Err(Error::Overloaded);
        }
        self.ingested.push((first.into(), last.into()));
        Ok(promised)
    }

    /// An ingest of these keys is visible, or has failed.
    pub(in crate::engine) fn ingested(&mut self, first: &[u8], last: &[u8]) {
        let is_it = |keys: &KeyRange| *keys.0 == *first && *keys.1 == *last;
        if let Some(index) = self.ingested.iter().position(is_it) {
            self.ingested.swap_remove(index);
        }
    }
}

/// Where a group makes a promise of this key.
fn made_of(group: &Group, key: &[u8]) -> Option<usize> {
    group.iter().position(|pending| {
        matches!(pending.admission, Admission::Promise { .. }) && pending.entry.key() == key
    })
}

/// The greatest ballots that were promised of late, in two generations.
struct RecentBallots {
    kept_for: Duration,
    young: BTreeMap<KeyHash, Timestamp>,
    old: BTreeMap<KeyHash, Timestamp>,
    /// Nothing above this was promised for any other key.
    floor: Timestamp,
    /// The greatest of all; zero if none is remembered.
    greatest: Timestamp,
    /// When the young ones began.
    began: Duration,
    /// When the last one was noted.
    noted: Duration,
}

impl RecentBallots {
    fn new(kept_for: Duration) -> Self {
        Self {
            kept_for,
            young: BTreeMap::new(),
            old: BTreeMap::new(),
            floor: Timestamp::ZERO,
            greatest: Timestamp::ZERO,
            began: Duration::ZERO,
            noted: Duration::ZERO,
        }
    }

    fn is_empty(&self) -> bool {
        self.greatest == Timestamp::ZERO
    }

    /// Forgets all once no request asks for any. So a store that makes no promises any more has no
    /// cost of those that it has made.
    fn forget_old(&mut self, now: Duration) {
        if !self.is_empty() && now.saturating_sub(self.noted) >= self.kept_for {
            *self = Self::new(self.kept_for);
        }
    }

    /// Notes a ballot of a key that is not known any more.
    fn remember(&mut self, ballot: Timestamp, now: Duration) {
        self.floor = self.floor.max(ballot);
        self.greatest = self.greatest.max(ballot);
        self.noted = now;
    }

    fn note(&mut self, key: KeyHash, ballot: Timestamp, now: Duration) {
        let is_over = now.saturating_sub(self.began) >= self.kept_for;
        if is_over || self.young.len() >= RECENT_MAX {
            if !is_over {
                let greatest = self.old.values().max();
                self.floor = self.floor.max(greatest.copied().unwrap_or(Timestamp::ZERO));
            }
            self.old = mem::take(&mut self.young);
            self.began = now;
        }
        let greatest = self.young.entry(key).or_insert(ballot);
        *greatest = ballot.max(*greatest);
        self.greatest = self.greatest.max(ballot);
        self.noted = now;
    }

    /// The greatest ballot that may have been promised for a key, or zero.
    fn greatest_of(&self, key: KeyHash) -> Timestamp {
        let of = |ballots: &BTreeMap<KeyHash, Timestamp>| ballots.get(&key).copied();
        let known = of(&self.young).max(of(&self.old));
        known.map_or(self.floor, |known| known.max(self.floor))
    }
}
