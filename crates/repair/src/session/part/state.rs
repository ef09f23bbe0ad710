//! What a node keeps of one session.

use super::kept::Kept;
use super::prepared::PreparedRun;
use super::stream_ingest::{StreamIngest, Streamed};
use crate::RepairSizes;
use crate::session::progress::StoreRead;
use base::{Entry, EntryRef, Kind, Timestamp};
use bytes::Bytes;
use cluster::comparison::{
    Comparison, Digest, Incarnation, KeyBounds, RangeItems, RangeSummary, RepairKind,
};
use cluster::repair::is_absent;
use cluster::{Layout, NodeId};
use lsm::{DamageMark, Engine, Error, Scan, ScanAhead};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How often a session looks how far it has come in the bytes of the store.
const READ_SEEN_EVERY: Duration = Duration::from_millis(500);

pub(in crate::session) struct SessionPart {
    pub(super) kind: RepairKind,
    /// The layout that it began with.
    pub(super) layout: Arc<Layout>,
    /// The store that takes part.
    pub(super) incarnation: Incarnation,
    /// Versions above it are left out.
    pub(super) cut: Timestamp,
    /// What is dead below it is left out.
    gc_threshold: Timestamp,
    /// What expired before has expired by the clocks of all nodes, in milliseconds since 1970.
    expired_before_unix_ms: u64,
    /// What the store was when the session began at the first key; [`None`] if this node was
    /// restarted since, so that it cannot say what has come since.
    pub(super) origin: Option<Origin>,
    /// What may be passed over with each node, by node ID.
    pub(super) bounds: Vec<KeyBounds>,
    /// The reach of each node, by node ID.
    reaches: Vec<u8>,
    /// The reach of this node as far as the session has come.
    pub(super) reach: u8,
    /// The scan ends before this key; [`None`] if it goes on to the last one.
    pub(super) scan_end: Option<Bytes>,
    /// The items from the next range on, as far as the scan has come.
    ahead: RangeItems,
    /// The bytes of keys and values that `ahead` stands for.
    pub(super) ahead_bytes: usize,
    /// Where the scan goes on.
    pub(super) position: Position,
    /// What the scan has read ahead.
    pub(super) scanned_ahead: ScanAhead,
    /// The same of the scans for those to whom it streams.
    pub(super) sent_ahead: ScanAhead,
    /// What is kept of what was scanned, for those to whom it streams.
    pub(super) kept: Kept,
    /// Where the next range begins.
    next_start: Bytes,
    /// The range that is compared. The one before is over: who asks for it is too late.
    range: Option<Range>,
    /// The run that a node asks for next, about.
    pub(super) prepared: Option<PreparedRun>,
    /// Where what other nodes have streamed goes.
    pub(super) ingest: Arc<StreamIngest>,
    /// How far it has come, and when that was seen, on the monotonic clock.
    read: Option<(Duration, StoreRead)>,
    /// When the coordinator or a peer last asked for something, on the monotonic clock.
    pub(super) last_asked: Duration,
}

/// What a store was when a session began at the first key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// Its last record.
    pub(super) sequence: u64,
    /// Its damage.
    pub(super) damage: DamageMark,
    /// Whether the session shows this node its whole store.
    shows_all: bool,
}

impl Origin {
    /// A store that has this record and this damage now.
    pub(super) fn new(sequence: u64, damage: DamageMark) -> Self {
        Self {
            sequence,
            damage,
            shows_all: true,
        }
    }
}

/// What all nodes of a session agree on.
#[derive(Clone, Debug)]
pub(in crate::session) struct Agreed {
    /// Versions above it are left out of an incremental session.
    pub(in crate::session) cut: Timestamp,
    /// What is dead below it is left out: other nodes may have dropped it.
    pub(in crate::session) gc_threshold: Timestamp,
    /// The reach of each node, by node ID.
    pub(in crate::session) reaches: Vec<u8>,
    /// What may be passed over with each node, by node ID.
    pub(in crate::session) bounds: Vec<KeyBounds>,
}

/// A range that was scanned.
pub(super) struct Range {
    /// Its number.
    number: u32,
    /// Its first key, or one before.
    pub(super) start: Bytes,
    /// Where it ends; [`None`] for the end of the key space.
    pub(super) end: Option<Bytes>,
    /// What this node keeps of it, and what it has streamed.
    items: RangeItems,
    /// By node ID: the digests of the items that are shared with each node, as long as no other item
    /// is taken in.
    digests: Vec<Option<Digest>>,
    /// What other nodes have streamed of it, in the order of the keys: no version
    /// of it is in the store yet.
    pub(super) streamed: Vec<Entry>,
    /// The bytes of it.
    pub(super) streamed_bytes: usize,
    /// The nodes from which this one has differed in it.
    pub(super) differing: BTreeSet<NodeId>,
}

/// How far a session has scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Up to this key, without it.
    At(Bytes),
    /// To the end of the key space.
    End,
}

impl SessionPart {
    /// A session that compares nothing yet.
    pub(super) fn new(
        kind: RepairKind,
        layout: Arc<Layout>,
        incarnation: Incarnation,
        ingest: Arc<StreamIngest>,
        now: Duration,
    ) -> Self {
        Self {
            kind,
            layout,
            incarnation,
            cut: Timestamp::ZERO,
            gc_threshold: Timestamp::ZERO,
            expired_before_unix_ms: 0,
            origin: None,
            bounds: Vec::new(),
            reaches: Vec::new(),
            reach: 0,
            scan_end: None,
            ahead: RangeItems::default(),
            ahead_bytes: 0,
            position: Position::At(Bytes::new()),
            scanned_ahead: ScanAhead::default(),
            sent_ahead: ScanAhead::default(),
            kept: Kept::default(),
            next_start: Bytes::new(),
            range: None,
            prepared: None,
            ingest,
            read: None,
            last_asked: now,
        }
    }

    /// Whether what all nodes agree on is of the nodes of this session.
    pub(super) fn is_of_all_places(&self, agreed: &Agreed) -> bool {
        let places = self.layout.members().places().len();
        agreed.bounds.len() == places && agreed.reaches.len() == places
    }

    /// Takes note of what all nodes agree on.
    pub(super) fn agree(&mut self, agreed: Agreed, expired_before_unix_ms: u64) {
        let Agreed {
            cut,
            gc_threshold,
            reaches,
            bounds,
        } = agreed;
        if let Some(origin) = &mut self.origin {
            // What any pair compares is read.
            origin.shows_all &= bounds.contains(&KeyBounds::everything());
        }
        self.cut = cut;
        self.gc_threshold = gc_threshold;
        self.expired_before_unix_ms = expired_before_unix_ms;
        self.reaches = reaches;
        self.bounds = bounds;
    }

    /// What this node compares.
    pub(super) fn comparison(&self) -> Comparison<'_> {
        Comparison {
            layout: &self.layout,
            own: self.layout.members().own(),
            kind: self.kind,
            bounds: &self.bounds,
            reaches: &self.reaches,
        }
    }

    /// What the coordinator hears about a range, if it is the one that is compared.
    pub(super) fn summary(&mut self, number: u32) -> Option<RangeSummary> {
        let comparison = self.comparison();
        let summary = self.range(number)?.items.summary(&comparison);
        self.reach = self.reach.max(summary.reach);
        self.range_mut(number)?.digests = summary.digests.iter().copied().map(Some).collect();
        Some(summary)
    }

    /// The digest of what is shared with another node in a range.
    pub(super) fn digest_with(&mut self, number: u32, node: NodeId) -> Option<Digest> {
        let range = self.range(number)?;
        if let Some(Some(known)) = range.digests.get(node.index()) {
            return Some(*known);
        }
        let comparison = self.comparison();
        let digest = range.items.shared_with(&comparison, node).collect();
        let digests = &mut self.range_mut(number)?.digests;
        if let Some(known) = digests.get_mut(node.index()) {
            *known = Some(digest);
        }
        Some(digest)
    }

    /// Whether the session has shown this node its whole store.
    pub(super) fn has_seen_all(&self) -> bool {
        let is_at_end = self.position == Position::End && self.ahead.is_empty();
        is_at_end && self.origin.is_some_and(|origin| origin.shows_all)
    }

    /// The keys that are ahead of the scan: from the first one to the one before which it ends, if
    /// there is such a key; [`None`] if there are none.
    pub(super) fn keys_ahead(&self) -> Option<(Bytes, Option<Bytes>)> {
        match &self.position {
            Position::At(key) => Some((key.clone(), self.scan_end.clone())),
            Position::End => None,
        }
    }

    /// Whether enough is scanned for the next range.
    pub(super) fn is_enough(&self, sizes: RepairSizes) -> bool {
        self.ahead_bytes >= sizes.range_bytes / 2 || self.ahead.len() >= sizes.range_keys / 2
    }

    /// Goes on no earlier than at `start`: a session that goes on begins there.
    pub(super) fn skip_to(&mut self, start: &[u8]) {
        if let Position::At(position) = &self.position
            && position.as_ref() < start
        {
            let _passed_over = self.ahead.take_below(None);
            self.kept.give_up();
            self.ahead_bytes = 0;
            self.position = Position::At(Bytes::copy_from_slice(start));
            self.next_start = Bytes::copy_from_slice(start);
        }
    }

    /// Scans on until `bytes_max` bytes of keys and values are ahead, or enough for a range.
    ///
    /// # Errors
    /// See [`Scan::advance`]. The session goes on behind what was read.
    pub(super) fn scan_ahead(
        &mut self,
        scan: &mut Scan,
        bytes_max: usize,
        sizes: RepairSizes,
    ) -> Result<(), Error> {
        let scanned = loop {
            match scan.advance() {
                Ok(true) => self.take(scan.entry(), sizes),
                end => break end,
            }
            if self.ahead_bytes >= bytes_max || self.is_enough(sizes) {
                break Ok(true);
            }
        };
        if let Ok(false) = scanned {
            self.position = Position::End;
        } else if let Some(last) = scan.last_key() {
            // No key lies between a key and the same key with a zero byte.
            self.position = Position::At([last, &[0]].concat().into());
        }
        scanned.map(|_| ())
    }

    /// Takes the next entry of the scan.
    fn take(&mut self, entry: EntryRef<'_>, sizes: RepairSizes) {
        // A version above the cut may still be on its way to the others, and the
        // next incremental session compares it. A full one takes all: it may rebuild a
        // store, and below a version that reached a single node there may be one
        // that the lost store has acknowledged.
        let is_compared = self.kind == RepairKind::Full || entry.timestamp() <= self.cut;
        if is_compared && !self.is_left_out(entry) {
            self.ahead.push(entry, self.cut);
            self.kept.scanned(entry, sizes.range_bytes);
        }
        self.ahead_bytes += entry.data_bytes();
    }

    /// Whether other nodes may have dropped a version. The cut alone does not say that a
    /// value has expired: the coordinator's clock may be years ahead, and a store that the
    /// session rebuilds would never get a value that lives.
    pub(super) fn is_left_out(&self, entry: EntryRef<'_>) -> bool {
        let is_dead = entry.kind() == Kind::Tombstone
            || entry.expiry().has_passed(self.expired_before_unix_ms);
        is_absent(entry.timestamp(), is_dead, self.gc_threshold)
    }

    /// Ends the next range, unless the scan has not come so far. Gives what was streamed of the range
    /// before, which is over.
    pub(super) fn end_range(&mut self, number: u32, end: Option<&[u8]>) -> Option<Streamed> {
        // The coordinator ends a range where the node that has come least far is.
        let is_scanned = match (&self.position, end) {
            (Position::End, _) => true,
            (Position::At(_), None) => false,
            (Position::At(reached), Some(end)) => end <= reached,
        };
        if !is_scanned {
            return None;
        }
        let streamed = self.take_streamed();
        let before = self.ahead.len();
        let items = self.ahead.take_below(end);
        self.kept.end_range(end);
        let rest = self.ahead.len();
        self.ahead_bytes = self.ahead_bytes * rest / before.max(1);
        let end = end.map(Bytes::copy_from_slice);
        let next_start = end.clone().unwrap_or_default();
        let start = std::mem::replace(&mut self.next_start, next_start);
        self.range = Some(Range {
            number,
            start,
            end,
            items,
            digests: Vec::new(),
            streamed: Vec::new(),
            streamed_bytes: 0,
            differing: BTreeSet::new(),
        });
        Some(streamed)
    }

    /// The range of this number, if it is the one that is compared.
    pub(super) fn range(&self, number: u32) -> Option<&Range> {
        let range = self.range.as_ref();
        range.filter(|range| range.number == number)
    }

    /// As [`SessionPart::range`], to take something in.
    pub(super) fn range_mut(&mut self, number: u32) -> Option<&mut Range> {
        let range = self.range.as_mut();
        range.filter(|range| range.number == number)
    }

    /// Takes what other nodes have streamed of the range, which is over.
    pub(super) fn take_streamed(&mut self) -> Streamed {
        self.prepared = None;
        let range = self.range.take();
        Streamed {
            entries: range.map_or_else(Vec::new, |range| range.streamed),
            ingest: Arc::clone(&self.ingest),
        }
    }

    /// How far the session has come in the bytes of the store. It is looked at now and then, because
    /// that looks at each table.
    pub(super) fn read(&mut self, engine: &Engine, now: Duration) -> StoreRead {
        if let Some((seen, read)) = self.read
            && now.saturating_sub(seen) < READ_SEEN_EVERY
        {
            return read;
        }
        let (bytes, of_bytes) = engine.table_bytes_below(&self.next_start);
        let read = StoreRead { bytes, of_bytes };
        self.read = Some((now, read));
        read
    }

    /// How far the session has come, about, in thousandths.
    pub(super) fn position_permille(&self) -> u16 {
        match &self.position {
            Position::End => 1000,
            Position::At(_) => self.read.map_or(0, |(_, read)| read.permille()),
        }
    }
}

impl Range {
    /// What was streamed of a key.
    fn streamed(&self, key: &[u8]) -> Option<&Entry> {
        let found = self.streamed.binary_search_by(|entry| entry.key().cmp(key));
        found.ok().and_then(|index| self.streamed.get(index))
    }

    /// What was streamed of a key, if it is newer than what the store holds of it. What was
    /// streamed of the range is in no store yet.
    pub(super) fn newer_streamed(
        &self,
        key: &[u8],
        stored: Option<EntryRef<'_>>,
    ) -> Option<&Entry> {
        let streamed = self.streamed(key);
        // Of two equal ones the stored one counts.
        streamed.filter(|streamed| stored.is_none_or(|stored| stored.rank() < streamed.rank()))
    }

    /// Takes in versions that another node has streamed, in the order of their
    /// keys. Gives the number of those that this node lacked, and their bytes.
    pub(super) fn take_in(&mut self, entries: Vec<Entry>, cut: Timestamp) -> (u64, u64) {
        let taken = self.take_in_items(entries, cut);
        let keys = taken.len() as u64;
        let bytes: usize = taken.iter().map(Entry::data_bytes).sum();
        self.streamed_bytes += bytes;
        let is_behind = match (self.streamed.last(), taken.first()) {
            (Some(last), Some(first)) => last.key() < first.key(),
            _ => true,
        };
        self.streamed.extend(taken);
        if !is_behind {
            self.sort_streamed();
        }
        (keys, bytes as u64)
    }

    /// What this node keeps of it, and what it has streamed.
    pub(super) fn items(&self) -> &RangeItems {
        &self.items
    }

    /// Takes the items in of versions, in the order of their keys. Gives those that are newer than
    /// what was known.
    pub(super) fn take_in_items(&mut self, entries: Vec<Entry>, cut: Timestamp) -> Vec<Entry> {
        let taken = self.items.take_in(entries, cut);
        if !taken.is_empty() {
            self.digests.fill(None);
        }
        taken
    }

    /// Another node has sent some of the range before. Of two versions of a key the one
    /// that was taken last is newer: the sort keeps their order.
    fn sort_streamed(&mut self) {
        self.streamed
            .sort_by(|one, other| one.key().cmp(other.key()));
        self.streamed.reverse();
        self.streamed
            .dedup_by(|one, other| one.key() == other.key());
        self.streamed.reverse();
    }

    /// Whether a key is one of the range.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        *self.start <= *key && self.end.as_deref().is_none_or(|end| key < end)
    }
}

/// The newest version of a key of a range, in the store or streamed.
///
/// # Errors
/// See [`Engine::get`].
pub(super) fn newest_of(
    engine: &Engine,
    range: &Range,
    key: &[u8],
) -> Result<Option<Entry>, Error> {
    let stored = engine.get_skipping_damage(key)?;
    let streamed = range.newer_streamed(key, stored.as_ref().map(Entry::lend));
    Ok(streamed.cloned().or(stored))
}
