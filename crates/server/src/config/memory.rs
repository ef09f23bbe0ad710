//! How a server's memory is divided.

use super::ServerConfig;
use super::bounds::{
    BATCH_BODY_BYTES_MAX, BATCH_STREAM_BYTES, HANDSHAKE_BYTES_MAX, HISTORY_BYTES_MAX,
    line_bytes_max,
};
use base::LONG_VALUE_BYTES;
use node::{BATCH_BYTES_MAX, MemoryParts};
use std::ops::RangeInclusive;

/// How the one number [`ServerConfig::memory_bytes`] is divided. About half of a
/// sixteenth remains for connections and stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySplit {
    /// The parts of the node behind the listeners.
    pub node: MemoryParts,
    /// Bodies of requests of which up to 64 KiB were received.
    pub uploads_short_bytes: usize,
    /// Longer bodies of requests that are being received.
    pub uploads_long_bytes: usize,
    /// Heads of requests, beyond 8 KiB of each.
    pub heads_bytes: usize,
    /// Short answers whose clients do not read.
    pub unsent_bytes: usize,
    /// Values of up to 64 KiB that batches have read and not sent.
    pub batch_answers_bytes: usize,
    /// Operations that batches have read and not answered, beyond a few of each batch.
    pub batch_windows_bytes: usize,
    /// How many chunked batches run at a time, each of which may hold
    /// [`BATCH_STREAM_BYTES`] beside what else counts.
    pub batch_streams_max: usize,
    /// Long values on their way through the store, which no quota counts.
    pub store_values_bytes: usize,
    /// How many scans are streamed at a time.
    pub scans_max: usize,
    /// The groups of aggregates.
    pub groups_bytes: usize,
    /// TLS; all 0 without it.
    pub tls: TlsSplit,
}

/// What TLS may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsSplit {
    /// What connections hold while they are idle.
    pub connections_bytes: usize,
    /// Records that are not complete, beyond 4 KiB of each.
    pub records_bytes: usize,
    /// How many handshakes of clients may be under way, each of which may hold 64 KiB.
    pub handshakes_max: usize,
    /// How many handshakes of peers may be under way.
    pub peer_handshakes_max: usize,
}

impl TlsSplit {
    /// What rustls holds for an idle connection, in bytes.
    const CONNECTION_BYTES: usize = 10 << 10;

    /// How many handshakes of clients each runtime may have under way, and how many of peers:
    /// at least so many of clients, because those that come back at once must not cut each
    /// other. Half of those of peers are for addresses of peers, half for connections for
    /// which clients have no slots left. Many runtimes with little memory have fewer.
    const HANDSHAKES_A_RUNTIME: RangeInclusive<usize> = 2..=8;

    /// What each runtime has for incomplete records at least: a few of them.
    const RECORD_BYTES_A_RUNTIME_MIN: usize = 64 << 10;

    /// The parts for `config` if `rest` bytes are left for TLS and the cache. Handshakes may
    /// take from what is not planned, too: up to `room` beside the least cache.
    fn of(config: &ServerConfig, sixteenth: usize, rest: usize, room: usize) -> Self {
        if config.tls.is_none() {
            return Self::default();
        }
        let room = room.saturating_sub(Self::cache_bytes_least(sixteenth));
        let (least, most) = Self::HANDSHAKES_A_RUNTIME.into_inner();
        let mut splits = (least..=most)
            .rev()
            .map(|a_runtime| Self::without_connections(config, sixteenth / 8, a_runtime));
        let fitting = splits.find(|split| split.planned_bytes() <= room);
        let mut split =
            fitting.unwrap_or_else(|| Self::without_connections(config, sixteenth / 8, least));
        let wanted = config
            .connections_max
            .saturating_mul(Self::CONNECTION_BYTES);
        let left = rest.saturating_sub(sixteenth).max(sixteenth / 2);
        split.connections_bytes = wanted.min(left.saturating_sub(split.planned_bytes()));
        split
    }

    /// The parts but for idle connections, if each runtime may have so many handshakes of
    /// clients and of peers under way; `part` is what records and handshakes have at least.
    fn without_connections(config: &ServerConfig, part: usize, a_runtime: usize) -> Self {
        let threads = config.threads;
        let of_peers = if config.node.is_alone() { 0 } else { a_runtime };
        Self {
            connections_bytes: 0,
            records_bytes: part.max(threads * Self::RECORD_BYTES_A_RUNTIME_MIN),
            handshakes_max: (part / HANDSHAKE_BYTES_MAX).max(threads * a_runtime),
            peer_handshakes_max: threads * of_peers,
        }
    }

    /// What the cache has at least beside TLS.
    fn cache_bytes_least(sixteenth: usize) -> usize {
        sixteenth / 4
    }

    fn planned_bytes(&self) -> usize {
        let handshakes = self.handshakes_max + self.peer_handshakes_max;
        self.connections_bytes + self.records_bytes + handshakes * HANDSHAKE_BYTES_MAX
    }
}

impl MemorySplit {
    /// What one scan holds: a batch as it was read, and the same batch encoded.
    const SCAN_BYTES: usize = 2 * BATCH_BYTES_MAX;

    /// What a request of a peer takes in addition to its value: the key and the frame.
    const PEER_REQUEST_BYTES: usize = 64 << 10;

    /// The default of the longest value, where there is enough memory.
    const VALUE_BYTES_DEFAULT: u64 = 16 << 20;

    /// What the memory must have for longer values than none, and how much of what it has beyond
    /// that the longest value takes at most: as many are in memory at a time when everything
    /// that may hold one does.
    const VALUES_BEYOND_BYTES: u64 = 64 << 20;
    const VALUES_HELD: u64 = 12;

    /// What all reads of long blocks of the store share, in bytes; a longer one is alone.
    const LONG_READS_BYTES: usize = 8 << 20;

    /// The default of the longest value for this much memory, in whole MiB.
    pub(super) fn value_bytes_default(memory_bytes: u64) -> usize {
        let most = memory_bytes.saturating_sub(Self::VALUES_BEYOND_BYTES) / Self::VALUES_HELD;
        let whole = most >> 20 << 20;
        whole.clamp(1 << 20, Self::VALUE_BYTES_DEFAULT) as usize
    }

    /// What long values take in the store: each memtable may have one on top of its size, and a
    /// block with one is in memory twice while it is read.
    fn store_values_bytes(value_bytes_max: usize) -> usize {
        if value_bytes_max <= LONG_VALUE_BYTES {
            return 0;
        }
        let memtables = 1 + MemoryParts::MEMTABLES_FROZEN_MAX;
        let in_memtables = value_bytes_max.saturating_mul(memtables);
        let read = value_bytes_max
            .saturating_mul(2)
            .max(Self::LONG_READS_BYTES);
        in_memtables.saturating_add(read)
    }

    /// The size of a memtable: a sixteenth, less where values are longer than half of that,
    /// because each memtable may have one on top.
    fn memtable_bytes(sixteenth: usize, value_bytes_max: usize) -> usize {
        let less = value_bytes_max.saturating_sub(sixteenth / 2);
        let bytes = sixteenth.saturating_sub(less).max(sixteenth / 2);
        bytes.clamp(1 << 20, 64 << 20)
    }

    /// Divides the memory of a node, in sixteenths:
    ///
    /// | part | sixteenths |
    /// |---|---|
    /// | memtables: one active, two frozen | 3, less where values are long |
    /// | long values in the store | one on top of each memtable, two that are read |
    /// | writes that wait for their commit | 1 7/8 |
    /// | requests that are being received | 1 1/2 |
    /// | long answers | 1 |
    /// | scans | 1 |
    /// | groups of aggregates | 1/8 |
    /// | operations of batches | 1/8 |
    /// | answers of batches | 1/8 |
    /// | chunked batches, 192 KiB each | 1/4 |
    /// | long heads | 1/8 |
    /// | short answers whose clients do not read | 1/4 |
    /// | with TLS: incomplete records | 1/8, at least 64 KiB for each runtime |
    /// | with TLS: handshakes of clients | 1/8, at least 8 of 64 KiB for each runtime if there is room, or else 2 |
    /// | with TLS: handshakes of peers | as many for each runtime |
    /// | with TLS: idle connections | 10 KiB for each that may be open, if the cache keeps 1 |
    /// | connections and stacks, not planned | 1/2 |
    /// | cache | the rest, at least 3/4, with TLS at least 1/4 |
    ///
    /// The history of the last hour, and what the other nodes say of themselves, take
    /// [`HISTORY_BYTES_MAX`] of the cache's part.
    ///
    /// Of the requests that are being received, a node that is alone gives a third to
    /// short uploads and the rest to long ones. In a cluster the requests of peers get
    /// one half, because a write arrives from a peer more often than from a client.
    /// They have a part of their own, so that two busy nodes never wait for each
    /// other's clients.
    ///
    /// Long uploads, requests of peers, long answers and the batch that a scan reads
    /// each have room for the longest value, and long uploads for the longest batch and for the
    /// longest line of one. The cache makes up for that, for long values in the store, and for
    /// memtables whose size was configured. Where values may be longer than by default, the sum
    /// can be more than the memory.
    pub(super) fn of(config: &ServerConfig) -> Self {
        let value_bytes_max = config.node.value_bytes_max;
        let sixteenth = usize::try_from(config.memory_bytes / 16).unwrap_or(usize::MAX / 16);
        let (short_bytes, long_bytes, peer_bytes) = if config.node.is_alone() {
            (sixteenth / 2, sixteenth, 0)
        } else {
            let request_bytes_max = value_bytes_max.saturating_add(Self::PEER_REQUEST_BYTES);
            let peer_bytes = (sixteenth / 4 * 3).max(request_bytes_max);
            (sixteenth / 4, sixteenth / 2, peer_bytes)
        };
        let mut split = Self {
            node: MemoryParts {
                memtable_bytes: Self::memtable_bytes(sixteenth, value_bytes_max),
                write_queue_bytes: sixteenth * 2 - sixteenth / 8,
                cache_bytes: 0,
                peer_bytes,
                answers_bytes: sixteenth.max(value_bytes_max),
                scans_bytes: sixteenth.saturating_add(config.node.scan_batch_bytes()),
            },
            uploads_short_bytes: short_bytes,
            uploads_long_bytes: long_bytes
                .max(line_bytes_max(value_bytes_max))
                .max(BATCH_BODY_BYTES_MAX),
            heads_bytes: sixteenth / 8,
            unsent_bytes: sixteenth / 4,
            batch_answers_bytes: sixteenth / 8,
            batch_windows_bytes: sixteenth / 8,
            batch_streams_max: (sixteenth / 4 / BATCH_STREAM_BYTES).clamp(4, 1024),
            store_values_bytes: Self::store_values_bytes(value_bytes_max),
            groups_bytes: sixteenth / 8,
            scans_max: (sixteenth / Self::SCAN_BYTES).clamp(4, 1024),
            tls: TlsSplit::default(),
        };
        let planned_bytes = split.planned_bytes();
        let rest = (sixteenth / 2 * 31).saturating_sub(planned_bytes);
        let room = (sixteenth * 16).saturating_sub(planned_bytes);
        split.tls = TlsSplit::of(config, sixteenth, rest, room);
        let cache_least = match config.tls {
            None => sixteenth / 4 * 3,
            Some(_) => TlsSplit::cache_bytes_least(sixteenth),
        };
        let rest = rest.saturating_sub(split.tls.planned_bytes());
        split.node.cache_bytes = rest.max(cache_least);

        if let Some(memtable_bytes) = config.memtable_bytes {
            // The cache makes up for larger memtables, down to its least size.
            let node = &mut split.node;
            let before_bytes = node.memtables_bytes();
            node.memtable_bytes = memtable_bytes;
            node.cache_bytes = (node.cache_bytes + before_bytes)
                .saturating_sub(node.memtables_bytes())
                .max(cache_least);
        }
        if let Some(scans_max) = config.scans_max {
            split.scans_max = scans_max;
        }
        split
    }

    /// The sum of all parts.
    pub(super) fn planned_bytes(&self) -> usize {
        [
            self.node.planned_bytes(),
            self.uploads_short_bytes,
            self.uploads_long_bytes,
            self.heads_bytes,
            self.unsent_bytes,
            self.groups_bytes,
            self.batch_answers_bytes,
            self.batch_windows_bytes,
            self.batch_streams_max * BATCH_STREAM_BYTES,
            self.store_values_bytes,
            self.tls.planned_bytes(),
            HISTORY_BYTES_MAX,
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}
