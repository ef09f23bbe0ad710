//! What sweeps have brought, as mends or in bulk.
//!
//! The keys of mends are noted. Before a range is compared with the next node, what those
//! mends have brought is taken in, so that no node sends what another one has sent.
//!
//! **Behind a scan.** A full pass that is to raise the forget bound must meet all that is below
//! its fence. It does not meet a live version that comes in behind its scan by another pass, or
//! by a mend of its own that was on its way for so long that its range is over: the sender may
//! have got a tombstone of fewer copies meanwhile. That is rare, so such versions are taken,
//! and the pass does not raise the bound ([`MendedKeys::unexpected`]). That they came is noted
//! durably before they do ([`Forgetting::disturb`]), because a pass may go on behind its last
//! checkpoint after this node was restarted, and does not meet them either. Once the pass has asked
//! for them for the last time, nobody would hear of one more; so what comes from then on is compared
//! with all other nodes first ([`Forgetting::seal`]).
//!
//! A mend of the pass itself that comes late and into a range that is not over is expected. That is
//! no harm as long as the driver waits for its sender: if that gets no answer the two are not equal.
//! But a pass that goes back to a checkpoint compares them anew, and waits for no mend from before. So
//! from then on it compares what its mends bring with all other nodes
//! ([`MendRules::admit`](crate::forgetting::MendRules::admit)).
//!
//! [`Forgetting::disturb`]: crate::forgetting::Forgetting::disturb
//! [`Forgetting::seal`]: crate::forgetting::Forgetting::seal

use bytes::Bytes;
use cluster::sweep::PassId;
use profile::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The keys that are remembered, and their bytes: more than mends bring of a range. What a
/// node lacks most of comes in bulk.
const KEYS_MAX: usize = 16 << 10;
const KEYS_BYTES_MAX: usize = 8 << 20;

/// The keys that mends of passes have come for. Runtimes note them, and jobs of the
/// background class take them.
#[derive(Default)]
pub(super) struct MendedKeys(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    keys: Vec<(PassId, Bytes)>,
    bytes: usize,
    /// The passes of which a key was not noted.
    overflowed: Vec<PassId>,
    /// How many live versions between the forget bound and the fence have come by any pass
    /// since the start.
    old: u64,
    /// What each full pass may bring now.
    expected: BTreeMap<PassId, Expected>,
}

/// What a full pass may bring.
#[derive(Default)]
struct Expected {
    /// The keys that it compares: from the first one to the one where they end.
    range: Option<(Bytes, Option<Bytes>)>,
    /// How many old versions of these it has brought.
    old: u64,
}

impl Expected {
    fn includes(&self, key: &[u8]) -> bool {
        let range = self.range.as_ref();
        range
            .is_some_and(|(start, end)| **start <= *key && end.as_ref().is_none_or(|end| key < end))
    }
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

    /// A full pass compares these keys now, and may bring versions of them.
    pub(super) fn expect(&self, pass: PassId, start: Bytes, end: Option<Bytes>) {
        let mut noted = lock(&self.0);
        noted.expected.entry(pass).or_default().range = Some((start, end));
    }

    /// Whether a full pass compares this key now.
    pub(super) fn is_expected(&self, pass: PassId, key: &[u8]) -> bool {
        let noted = lock(&self.0);
        let expected = noted.expected.get(&pass);
        expected.is_some_and(|expected| expected.includes(key))
    }

    /// A pass has brought a live version between the forget bound and the fence.
    pub(super) fn old_version_came(&self, pass: PassId, key: &[u8]) {
        let mut noted = lock(&self.0);
        noted.old += 1;
        if let Some(expected) = noted.expected.get_mut(&pass)
            && expected.includes(key)
        {
            expected.old += 1;
        }
    }

    /// How many such versions have come that a pass does not expect, if it began now.
    pub(super) fn unexpected(&self, pass: PassId) -> u64 {
        let noted = lock(&self.0);
        let expected = noted.expected.get(&pass);
        noted.old - expected.map_or(0, |expected| expected.old)
    }

    /// Forgets the keys of passes that are not known any more.
    pub(super) fn retain(&self, is_known: impl Fn(PassId) -> bool) {
        let mut noted = lock(&self.0);
        noted.expected.retain(|pass, _| is_known(*pass));
        noted.keys.retain(|(pass, _)| is_known(*pass));
        noted.bytes = noted.keys.iter().map(|(_, key)| key.len()).sum();
        noted.overflowed.retain(|pass| is_known(*pass));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_count_that_a_pass_does_not_expect() {
        let (mended, pass, other) = (MendedKeys::default(), PassId(1), PassId(2));
        mended.old_version_came(other, b"m");
        let before = mended.unexpected(pass);
        mended.expect(
            pass,
            Bytes::from_static(b"f"),
            Some(Bytes::from_static(b"p")),
        );
        for key in [b"f", b"m", b"o"] {
            mended.old_version_came(pass, key);
        }
        assert_eq!(mended.unexpected(pass), before);
        // Its range is over, or another pass has brought it.
        assert!(mended.is_expected(pass, b"f") && !mended.is_expected(other, b"f"));
        assert!(!mended.is_expected(pass, b"p"));
        for (count, (by, key)) in [(pass, b"e"), (pass, b"p"), (other, b"m")]
            .iter()
            .enumerate()
        {
            mended.old_version_came(*by, *key);
            assert_eq!(mended.unexpected(pass), before + 1 + count as u64);
        }
        mended.expect(pass, Bytes::from_static(b"p"), None);
        mended.old_version_came(pass, b"z");
        assert_eq!(mended.unexpected(pass), before + 3);
    }

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
