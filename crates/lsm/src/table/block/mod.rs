//! Sorted blocks: keys with a body each, for records as for the index.
//!
//! ```text
//! block:  entry* | restart offset u32 * | number of restarts u32
//! entry:  shared varint | unshared varint | the key's last `unshared` bytes | body
//! ```
//!
//! `shared` is the length of the prefix that the key has in common with the
//! previous key. Every sixteenth entry is a restart: it shares nothing, and the
//! block lists its offset. A search bisects the restarts and then walks at most
//! sixteen entries. Keys ascend and may repeat.
//!
//! A search assembles no key. It tracks how many bytes the previous key shares with
//! the target. Together with `shared` of the next entry, that tells which bytes are
//! left to compare.

pub(super) mod frame;
pub(super) mod index;
pub(super) mod malformed;
pub(super) mod writer;

use super::BUFFER_BYTES_KEPT;
use crate::cache::Block;
use base::{ByteReader, KEY_BYTES_MAX, put_varint};
use malformed::Malformed;
use std::cmp::Ordering;
use std::ops::Range;

/// The number of entries from one restart to the next. Fewer would store more
/// keys in full; more would let a search walk more entries.
const RESTART_INTERVAL: usize = 16;

/// The room for a key with which a cursor begins, in bytes.
const KEY_BYTES: usize = 64;

const U32_BYTES: usize = size_of::<u32>();

/// What follows the entry of a block that has only one: the restart, and their number.
pub(super) const SINGLE_ENTRY_END_BYTES: usize = 2 * U32_BYTES;

/// What follows a key in a block.
pub(super) trait Body<'a>: Sized {
    /// The body at the front of `input`.
    fn decode(input: &mut ByteReader<'a>) -> Option<Self>;
}

/// Builds the payload of a sorted block, perhaps behind other bytes.
#[derive(Default)]
pub(super) struct BlockBuilder {
    buffer: Vec<u8>,
    /// Where the block begins in the buffer.
    start: usize,
    restarts: Vec<u32>,
    entries_since_restart: usize,
    /// The key added last, perhaps to the block before.
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Has the next block follow the bytes of a buffer, so that nobody needs to copy it there.
    /// Only an empty builder can begin.
    pub(super) fn begin_in(&mut self, buffer: Vec<u8>) {
        debug_assert!(self.is_empty());
        self.start = buffer.len();
        self.buffer = buffer;
    }

    /// Adds an entry whose key is at or above the previous key; `body` appends the
    /// entry's body. Returns whether the key is the previous one, which may be that of the
    /// block before.
    pub(super) fn add(&mut self, key: &[u8], body: impl FnOnce(&mut Vec<u8>)) -> bool {
        debug_assert!(*self.last_key <= *key);
        let common = shared_prefix(&self.last_key, key);
        let is_repeated = common == key.len() && common == self.last_key.len();
        let shared = if self.is_empty() || self.entries_since_restart == RESTART_INTERVAL {
            // The offset fits: the writer bounds both the target size of a block
            // and the size of one entry, far below 4 GiB.
            self.restarts.push((self.buffer.len() - self.start) as u32);
            self.entries_since_restart = 0;
            0
        } else {
            common
        };
        self.entries_since_restart += 1;
        put_varint(&mut self.buffer, shared as u64);
        put_varint(&mut self.buffer, (key.len() - shared) as u64);
        self.buffer.extend_from_slice(&key[shared..]);
        body(&mut self.buffer);
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(&key[common..]);
        is_repeated
    }

    /// Whether the block has no entry yet.
    pub(super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// The length of the payload so far, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.buffer.len() - self.start + (self.restarts.len() + 1) * U32_BYTES
    }

    /// The key added last, perhaps to the block before; empty before the first.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Completes the payload. Call [`BlockBuilder::clear`] before the next block.
    pub(super) fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.buffer.extend_from_slice(&restart.to_le_bytes());
        }
        let count = self.restarts.len() as u32;
        self.buffer.extend_from_slice(&count.to_le_bytes());
        &self.buffer[self.start..]
    }

    /// Completes the payload and empties the builder. Returns the buffer that it began in, and
    /// where the payload begins there.
    pub(super) fn finish_in_place(&mut self) -> (Vec<u8>, usize) {
        self.finish();
        let finished = (std::mem::take(&mut self.buffer), self.start);
        self.start = 0;
        self.clear();
        finished
    }

    /// Empties the builder, and frees the memory of a huge block.
    pub(super) fn clear(&mut self) {
        self.buffer.truncate(self.start);
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        self.restarts.clear();
        self.entries_since_restart = 0;
    }
}

/// A view of a sorted block's payload.
#[derive(Clone, Copy)]
pub(super) struct SortedBlock<'a> {
    entries: &'a [u8],
    restarts: &'a [[u8; U32_BYTES]],
}

/// The first entry of a block whose key is at or above a target.
pub(super) struct FoundEntry<B> {
    /// Whether the entry's key is the target.
    pub(super) is_target: bool,
    /// What follows the key.
    pub(super) body: B,
    /// Where the entry begins in the block.
    at: usize,
    /// How many bytes the key shares with the previous key, and so with the target.
    shared: usize,
}

impl<'a> SortedBlock<'a> {
    /// Splits a payload into its parts.
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let parts = || {
            let (rest, count) = payload.split_last_chunk()?;
            let restart_bytes = (u32::from_le_bytes(*count) as usize).checked_mul(U32_BYTES)?;
            let (entries, restarts) =
                rest.split_at_checked(rest.len().checked_sub(restart_bytes)?)?;
            Some((entries, restarts.as_chunks().0))
        };
        match parts() {
            Some((entries, restarts)) if !restarts.is_empty() => Ok(Self { entries, restarts }),
            _ => Err(Malformed("the block's restarts are malformed")),
        }
    }

    /// The entry of a block that has only one: where its key lies in the payload,
    /// and its body. `None` if there are more.
    pub(super) fn single_entry<B: Body<'a>>(&self) -> Result<Option<(Range<usize>, B)>, Malformed> {
        let mut input = ByteReader::new(self.entries);
        let (shared, key) = key_parts(&mut input)?;
        let key_end = self.entries.len() - input.rest().len();
        let body = B::decode(&mut input).ok_or(MALFORMED_ENTRY)?;
        let is_single = shared == 0 && input.rest().is_empty();
        Ok(is_single.then_some((key_end - key.len()..key_end, body)))
    }

    /// Where the entries end in the payload.
    pub(super) fn entries_end(&self) -> usize {
        self.entries.len()
    }

    /// The first entry whose key is at or above `target`.
    pub(super) fn seek<B: Body<'a>>(
        &self,
        target: &[u8],
    ) -> Result<Option<FoundEntry<B>>, Malformed> {
        let mut at = self.restart_before(target)?;
        // The length of the prefix that the previous key shares with the target.
        // The previous key is below the target, by its next byte or by its end.
        let mut matched = 0;
        while at < self.entries.len() {
            let mut input = ByteReader::new(&self.entries[at..]);
            let (shared, suffix) = key_parts(&mut input)?;
            let body = B::decode(&mut input).ok_or(MALFORMED_ENTRY)?;
            // A key that shares more than `matched` bytes with the previous one also
            // has the byte that makes the previous one less than the target.
            if shared <= matched {
                let rest = &target[shared..];
                let order = suffix.cmp(rest);
                if order != Ordering::Less {
                    return Ok(Some(FoundEntry {
                        is_target: order == Ordering::Equal,
                        body,
                        at,
                        shared,
                    }));
                }
                matched = shared + shared_prefix(suffix, rest);
            }
            at = self.entries.len() - input.rest().len();
        }
        Ok(None)
    }

    /// Where the last restart whose key is below `target` begins; if there is none,
    /// the first restart. A restart whose key equals the target is too late, because
    /// the versions of a key may begin before a restart.
    fn restart_before(&self, target: &[u8]) -> Result<usize, Malformed> {
        let (mut low, mut high) = (0, self.restarts.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let mut input = ByteReader::new(self.at(self.restart(middle))?);
            if key_parts(&mut input)?.1 < target {
                low = middle;
            } else {
                high = middle;
            }
        }
        let at = self.restart(low);
        self.at(at).map(|_| at)
    }

    fn restart(&self, index: usize) -> usize {
        u32::from_le_bytes(self.restarts[index]) as usize
    }

    fn at(&self, offset: usize) -> Result<&'a [u8], Malformed> {
        self.entries
            .get(offset..)
            .ok_or(Malformed("a restart lies outside the block"))
    }
}

const MALFORMED_ENTRY: Malformed = Malformed("an entry of the block is malformed");

/// The length of the shared prefix of an entry's key, and the rest of the key.
#[inline]
fn key_parts<'a>(input: &mut ByteReader<'a>) -> Result<(usize, &'a [u8]), Malformed> {
    let parts = |input: &mut ByteReader<'a>| {
        let shared = input.length()?;
        let unshared = input.length()?;
        let suffix = input.bytes(unshared)?;
        (shared.checked_add(unshared)? <= KEY_BYTES_MAX).then_some((shared, suffix))
    };
    parts(input).ok_or(MALFORMED_ENTRY)
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_chunks().0, b.as_chunks().0);
    let mut shared = 0;
    for (a, b) in std::iter::zip(a_words, b_words) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return shared + (differing.trailing_zeros() / u8::BITS) as usize;
        }
        shared += size_of::<u64>();
    }
    let rest = std::iter::zip(&a[shared..], &b[shared..]);
    shared + rest.take_while(|(a, b)| a == b).count()
}

/// Walks over the entries of a block, in order. Keeps the block in memory.
pub(super) struct BlockCursor {
    block: Block,
    /// Where the restarts begin in the block's memory.
    end: usize,
    /// Where the next entry begins there.
    at: usize,
    /// The previous key, or the prefix of it that the next key may share.
    key: Vec<u8>,
}

impl BlockCursor {
    /// A walk from the first entry whose key is at or above `from`.
    pub(super) fn new<'a, B: Body<'a>>(block: &'a Block, from: &[u8]) -> Result<Self, Malformed> {
        let sorted = SortedBlock::parse(block.payload())?;
        let end = sorted.entries.len();
        let (at, shared) = if from.is_empty() {
            (0, 0)
        } else {
            match sorted.seek::<B>(from)? {
                Some(found) => (found.at, found.shared),
                None => (end, 0),
            }
        };
        let start = block.payload_range().start;
        let mut key = Vec::with_capacity(KEY_BYTES);
        key.extend_from_slice(&from[..shared]);
        Ok(Self {
            block: block.clone(),
            end: start + end,
            at: start + at,
            key,
        })
    }

    /// The next entry; `None` after the last.
    pub(super) fn next<'a, B: Body<'a>>(&'a mut self) -> Result<Option<(&'a [u8], B)>, Malformed> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut input = ByteReader::new(&self.block.memory()[self.at..self.end]);
        let (shared, suffix) = key_parts(&mut input)?;
        if shared > self.key.len() {
            return Err(MALFORMED_ENTRY);
        }
        let body = B::decode(&mut input).ok_or(MALFORMED_ENTRY)?;
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.at = self.end - input.rest().len();
        Ok(Some((&self.key, body)))
    }

    /// The key of the last entry.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The last `bytes` bytes of the last entry, which must have as many.
    #[inline]
    pub(super) fn last_bytes(&self, bytes: usize) -> &[u8] {
        &self.block.memory()[self.at - bytes..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::frame::Handle;
    use super::index::IndexEntry;
    use super::*;
    use base::Timestamp;

    fn block(keys: &[&[u8]]) -> Block {
        let mut builder = BlockBuilder::default();
        for (index, key) in keys.iter().enumerate() {
            let entry = IndexEntry {
                handle: Handle {
                    offset: index as u64,
                    bytes: 1,
                },
                greatest_timestamp: Timestamp::MAX,
            };
            builder.add(key, |buffer| entry.encode(buffer));
        }
        Block::from(builder.finish())
    }

    /// Seeks and cursors answer as a search of the list does.
    fn check(keys: &[&[u8]], targets: &[&[u8]]) {
        let block = block(keys);
        let sorted = SortedBlock::parse(block.payload()).unwrap();
        for target in targets {
            let expected = keys.partition_point(|key| key < target);
            let found = sorted.seek::<IndexEntry>(target).unwrap();
            assert_eq!(
                found.map(|found| (found.body.handle.offset as usize, found.is_target)),
                keys.get(expected).map(|key| (expected, key == target)),
                "{target:?}"
            );
            let mut cursor = BlockCursor::new::<IndexEntry>(&block, target).unwrap();
            for (index, key) in keys.iter().enumerate().skip(expected) {
                let (found, entry) = cursor.next::<IndexEntry>().unwrap().unwrap();
                assert_eq!(
                    (found, entry.handle.offset),
                    (*key, index as u64),
                    "{target:?}"
                );
            }
            assert!(cursor.next::<IndexEntry>().unwrap().is_none());
        }
    }

    #[test]
    fn a_seek_finds_the_first_key_at_or_above_the_target() {
        let keys: [&[u8]; 8] = [b"", b"a", b"aa", b"ab", b"ab", b"abc", b"b", b"\xff\xff"];
        let targets: [&[u8]; 12] = [
            b"",
            b"\0",
            b"a",
            b"a\0",
            b"aaa",
            b"ab",
            b"abb",
            b"abcd",
            b"b",
            b"c",
            b"\xff",
            b"\xff\xff\0",
        ];
        check(&keys, &targets);
        check(&keys[..1], &targets);
    }

    #[test]
    fn seeks_agree_with_a_plain_search() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..300 {
            // With few letters many keys share prefixes or repeat.
            let mut word = |longest: usize| -> Vec<u8> {
                let length = random.usize(0..=longest);
                (0..length).map(|_| random.u8(b'a'..=b'c')).collect()
            };
            let mut keys: Vec<_> = (0..1 + round).map(|_| word(8)).collect();
            keys.sort();
            let targets: Vec<_> = (0..50).map(|_| word(9)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let targets: Vec<&[u8]> = targets.iter().map(Vec::as_slice).collect();
            check(&keys, &targets);
        }
    }

    #[test]
    fn a_seek_finds_the_first_version_of_a_key_that_spans_restarts() {
        let keys = [vec![&b"a"[..]; 3], vec![b"k"; 100], vec![b"z"; 2]].concat();
        check(&keys, &[b"a", b"b", b"k", b"l", b"z"]);
    }
}
