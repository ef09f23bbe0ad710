//! Keeps operations on one key in order: each begins when the previous one has ended.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::xxh3_64;

/// For how many keys the table keeps its memory while there are none.
const KEYS_KEPT: usize = 100;

/// The operations that have not ended, by key. Keys are known by their hashes: that two of
/// them share one makes an operation wait in vain, and nothing else.
#[derive(Default)]
pub(super) struct KeyOrder {
    /// For each key whose operation may run: those that wait for its end.
    waiting: ByHash<VecDeque<u64>>,
}

/// A table by hashes, which is never iterated over. Every operation comes in and leaves, and
/// an ordered map takes several times as long for that.
#[expect(clippy::disallowed_types, reason = "its hasher is fixed")]
type ByHash<T> = std::collections::HashMap<u64, T, BuildHasherDefault<HashItself>>;

/// The hash of a hash: itself.
#[derive(Default)]
struct HashItself(u64);

impl Hasher for HashItself {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The hash of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    /// The hash of this key.
    pub(super) fn of(key: &[u8]) -> Self {
        Self(xxh3_64(key))
    }
}

impl KeyOrder {
    /// Adds an operation. Returns whether it may run now.
    pub(super) fn enter(&mut self, key: KeyHash, operation: u64) -> bool {
        match self.waiting.entry(key.0) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(operation);
                false
            }
            Entry::Vacant(vacant) => {
                vacant.insert(VecDeque::new());
                true
            }
        }
    }

    /// Notes the end of the operation on a key that could run. Returns the next one, which
    /// may run now.
    pub(super) fn leave(&mut self, key: KeyHash) -> Option<u64> {
        let Entry::Occupied(mut waiting) = self.waiting.entry(key.0) else {
            return None;
        };
        let next = waiting.get_mut().pop_front();
        if next.is_none() {
            waiting.remove();
            if self.waiting.is_empty() {
                self.waiting.shrink_to(KEYS_KEPT);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_one_key_run_one_after_another_in_their_order() {
        let (a, b) = (KeyHash::of(b"a"), KeyHash::of(b"b"));
        let mut order = KeyOrder::default();
        assert!(order.enter(a, 1));
        assert!(!order.enter(a, 2));
        assert!(order.enter(b, 3));
        assert!(!order.enter(a, 4));
        assert_eq!(order.leave(b), None);
        assert_eq!(order.leave(a), Some(2));
        assert!(!order.enter(a, 5));
        assert_eq!(order.leave(a), Some(4));
        assert_eq!(order.leave(a), Some(5));
        assert_eq!(order.leave(a), None);
        assert!(order.waiting.is_empty());
        assert!(order.enter(a, 6));
        assert_eq!(order.leave(a), None);
        for number in 0_u64..5000 {
            assert!(order.enter(KeyHash::of(&number.to_le_bytes()), number));
        }
        assert!(order.waiting.capacity() >= 5000);
        for number in 0_u64..5000 {
            assert_eq!(order.leave(KeyHash::of(&number.to_le_bytes())), None);
        }
        assert!(order.waiting.capacity() < 2 * KEYS_KEPT);
    }
}
