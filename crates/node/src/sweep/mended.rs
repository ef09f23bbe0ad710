//! The keys that mends have come for. Before a range is compared with the next node, what
//! those mends have brought is taken in, so that no node sends what another one has sent.

use bytes::Bytes;
use cluster::sweep::PassId;
use profile::lock;
use std::sync::Mutex;

/// The keys that are remembered. The versions of any more are sent a second time.
const KEYS_MAX: usize = 16 << 10;

/// The keys that mends of passes have come for. Runtimes note them, and jobs of the
/// background lane take them.
#[derive(Default)]
pub(super) struct MendedKeys(Mutex<Vec<(PassId, Bytes)>>);

impl MendedKeys {
    /// A mend of a pass has come for a key. The store may not have it yet, or may refuse
    /// it.
    pub(super) fn note(&self, pass: PassId, key: &[u8]) {
        let mut keys = lock(&self.0);
        if keys.len() < KEYS_MAX {
            keys.push((pass, Bytes::copy_from_slice(key)));
        }
    }

    /// Takes the keys of a pass, in order and each once.
    pub(super) fn take(&self, pass: PassId) -> Vec<Bytes> {
        let of_pass = |(of, _): &mut (PassId, Bytes)| *of == pass;
        let taken: Vec<_> = lock(&self.0).extract_if(.., of_pass).collect();
        let mut keys: Vec<Bytes> = taken.into_iter().map(|(_, key)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Forgets the keys of passes that are not known any more.
    pub(super) fn retain(&self, is_known: impl Fn(PassId) -> bool) {
        lock(&self.0).retain(|(pass, _)| is_known(*pass));
    }
}
