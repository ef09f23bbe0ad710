//! The keys of the repair writes that have come.
//!
//! Before a range is compared with the next node, this node counts what those writes have brought
//! as kept, so that the next node does not send it once more.

use bytes::Bytes;
use cluster::repair::SessionId;
use profile::lock;
use std::sync::Mutex;

/// The keys that are remembered, and their bytes: more than repair writes bring of a range. What a
/// node lacks most of is streamed.
const KEYS_MAX: usize = 16 << 10;
const KEYS_BYTES_MAX: usize = 8 << 20;

/// The keys that repair writes have come for. Runtimes note them, and jobs of the
/// background class take them.
#[derive(Default)]
pub(in crate::session) struct WrittenKeys(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    keys: Vec<(SessionId, Bytes)>,
    bytes: usize,
    /// The sessions of which a key was not noted.
    overflowed: Vec<SessionId>,
}

/// More repair writes of a session have come than are noted: what a range holds is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflowed;

impl WrittenKeys {
    /// A repair write of a session has come for a key. The store may not have it yet, or may refuse
    /// it.
    pub(in crate::session) fn note(&self, session: SessionId, key: &[u8]) {
        let mut noted = lock(&self.0);
        if noted.keys.len() < KEYS_MAX && noted.bytes + key.len() <= KEYS_BYTES_MAX {
            noted.bytes += key.len();
            noted.keys.push((session, Bytes::copy_from_slice(key)));
        } else if !noted.overflowed.contains(&session) {
            noted.overflowed.push(session);
        }
    }

    /// Takes the keys of a session, in order and each once.
    ///
    /// # Errors
    /// [`Overflowed`]; the next call gives what came since.
    pub(super) fn take(&self, session: SessionId) -> Result<Vec<Bytes>, Overflowed> {
        let of_session = |(of, _): &mut (SessionId, Bytes)| *of == session;
        let mut noted = lock(&self.0);
        let taken: Vec<_> = noted.keys.extract_if(.., of_session).collect();
        noted.bytes -= taken.iter().map(|(_, key)| key.len()).sum::<usize>();
        let has_overflowed = noted.overflowed.contains(&session);
        noted.overflowed.retain(|of| *of != session);
        drop(noted);
        if has_overflowed {
            return Err(Overflowed);
        }
        let mut keys: Vec<Bytes> = taken.into_iter().map(|(_, key)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Forgets the keys of sessions that are not known any more.
    pub(super) fn retain(&self, is_known: impl Fn(SessionId) -> bool) {
        let mut noted = lock(&self.0);
        noted.keys.retain(|(session, _)| is_known(*session));
        noted.bytes = noted.keys.iter().map(|(_, key)| key.len()).sum();
        noted.overflowed.retain(|session| is_known(*session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_not_noted_are_missed_once() {
        let (written, one, other) = (
            WrittenKeys::default(),
            SessionId::Incremental(1),
            SessionId::Incremental(2),
        );
        for key in [b"b", b"a", b"b"] {
            written.note(one, key);
        }
        assert_eq!(written.take(one).unwrap(), [&b"a"[..], &b"b"[..]]);
        for number in 0..KEYS_MAX {
            written.note(one, &number.to_le_bytes());
        }
        written.note(other, b"k");
        assert_eq!(written.take(one).unwrap().len(), KEYS_MAX);
        assert_eq!(written.take(other), Err(Overflowed));
        assert_eq!(written.take(other), Ok(Vec::new()));
        // Long keys are bounded by their bytes.
        let long = vec![7; KEYS_BYTES_MAX / 2];
        for _ in 0..2 {
            written.note(one, &long);
            written.note(one, &long);
            written.note(other, b"k");
            written.retain(|session| session == other);
            assert_eq!(written.take(other), Err(Overflowed));
        }
        written.note(other, b"k");
        assert_eq!(written.take(other).unwrap(), [&b"k"[..]]);
    }
}
