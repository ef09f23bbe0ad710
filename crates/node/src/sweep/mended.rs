//! The keys that mends have come for. Before a range is compared with the next node, what
//! those mends have brought is taken in, so that no node sends what another one has sent.

use bytes::Bytes;
use cluster::sweep::PassId;
use profile::lock;
use std::sync::Mutex;

/// The keys that are remembered, and their bytes: more than mends bring of a range. What a
/// node lacks most of comes in bulk.
const KEYS_MAX: usize = 16 << 10;
const KEYS_BYTES_MAX: usize = 8 << 20;

/// The keys that mends of passes have come for. Runtimes note them, and jobs of the
/// background lane take them.
#[derive(Default)]
pub(super) struct MendedKeys(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    keys: Vec<(PassId, Bytes)>,
    bytes: usize,
    /// The passes of which a key was not noted.
    overflowed: Vec<PassId>,
}

/// More mends of a pass have come than are noted: what a range holds is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflowed;

impl MendedKeys {
    /// A mend of a pass has come for a key. The store may not have it yet, or may refuse
    /// it.
    pub(super) fn note(&self, pass: PassId, key: &[u8]) {
        let mut noted = lock(&self.0);
        if noted.keys.len() < KEYS_MAX && noted.bytes + key.len() <= KEYS_BYTES_MAX {
            noted.bytes += key.len();
            noted.keys.push((pass, Bytes::copy_from_slice(key)));
        } else if !noted.overflowed.contains(&pass) {
            noted.overflowed.push(pass);
        }
    }

    /// Takes the keys of a pass, in order and each once.
    ///
    /// # Errors
    /// [`Overflowed`]; the next call gives what came since.
    pub(super) fn take(&self, pass: PassId) -> Result<Vec<Bytes>, Overflowed> {
        let of_pass = |(of, _): &mut (PassId, Bytes)| *of == pass;
        let mut noted = lock(&self.0);
        let taken: Vec<_> = noted.keys.extract_if(.., of_pass).collect();
        noted.bytes -= taken.iter().map(|(_, key)| key.len()).sum::<usize>();
        let has_overflowed = noted.overflowed.contains(&pass);
        noted.overflowed.retain(|of| *of != pass);
        drop(noted);
        if has_overflowed {
            return Err(Overflowed);
        }
        let mut keys: Vec<Bytes> = taken.into_iter().map(|(_, key)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Forgets the keys of passes that are not known any more.
    pub(super) fn retain(&self, is_known: impl Fn(PassId) -> bool) {
        let mut noted = lock(&self.0);
        noted.keys.retain(|(pass, _)| is_known(*pass));
        noted.bytes = noted.keys.iter().map(|(_, key)| key.len()).sum();
        noted.overflowed.retain(|pass| is_known(*pass));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_not_noted_are_missed_once() {
        let (mended, one, other) = (MendedKeys::default(), PassId(1), PassId(2));
        for key in [b"b", b"a", b"b"] {
            mended.note(one, key);
        }
        assert_eq!(mended.take(one).unwrap(), [&b"a"[..], &b"b"[..]]);
        for number in 0..KEYS_MAX {
            mended.note(one, &number.to_le_bytes());
        }
        mended.note(other, b"k");
        assert_eq!(mended.take(one).unwrap().len(), KEYS_MAX);
        assert_eq!(mended.take(other), Err(Overflowed));
        assert_eq!(mended.take(other), Ok(Vec::new()));
        // Long keys are bounded by their bytes.
        let long = vec![7; KEYS_BYTES_MAX / 2];
        for _ in 0..2 {
            mended.note(one, &long);
            mended.note(one, &long);
            mended.note(other, b"k");
            mended.retain(|pass| pass == other);
            assert_eq!(mended.take(other), Err(Overflowed));
        }
        mended.note(other, b"k");
        assert_eq!(mended.take(other).unwrap(), [&b"k"[..]]);
    }
}
