//! The order of operations on one key: each begins when the one before it has ended.

use std::collections::{BTreeMap, VecDeque};
use xxhash_rust::xxh3::xxh3_64;

/// The operations that have not ended, by key. Keys are known by their hashes: that two of
/// them share one makes an operation wait in vain, and nothing else.
#[derive(Default)]
pub(super) struct KeyOrder {
    /// For each key whose operation may run: those that wait for its end.
    waiting: BTreeMap<u64, VecDeque<u64>>,
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
        if let Some(waiting) = self.waiting.get_mut(&key.0) {
            waiting.push_back(operation);
            return false;
        }
        self.waiting.insert(key.0, VecDeque::new());
        true
    }

    /// Notes the end of the operation on a key that could run. Returns the next one, which
    /// may run now.
    pub(super) fn leave(&mut self, key: KeyHash) -> Option<u64> {
        let next = self.waiting.get_mut(&key.0)?.pop_front();
        if next.is_none() {
            self.waiting.remove(&key.0);
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
    }
}
