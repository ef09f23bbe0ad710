//! The promises to a client: which write of each key was acknowledged with
//! which version, and so what a read of the key may return.

use crate::support::HttpConnection;
use std::io;

/// An acknowledged write: its version, and the client's number for it.
#[derive(Clone, Copy)]
struct Acknowledged {
    version: u64,
    number: u64,
}

/// What a client knows about a key.
#[derive(Clone, Copy, Default)]
struct KeyRecord {
    acknowledged: Option<Acknowledged>,
    /// The number of the last write, acknowledged or not.
    tried: Option<u64>,
}

/// A client's record of its writes. No other client writes its keys, so it
/// knows what they may hold.
pub(crate) struct Ledger {
    name: usize,
    keys: Vec<KeyRecord>,
    value_bytes: usize,
    next: u64,
}

/// A write that the client is about to send.
pub(crate) struct PendingWrite {
    pub(crate) key: String,
    pub(crate) value: String,
    number: u64,
}

impl Ledger {
    /// The ledger of a client that has not written yet.
    pub(crate) fn new(name: usize, keys: usize, value_bytes: usize) -> Self {
        Self {
            name,
            keys: vec![KeyRecord::default(); keys],
            value_bytes,
            next: 0,
        }
    }

    /// The next write; the keys take turns.
    pub(crate) fn next_write(&mut self) -> PendingWrite {
        let number = self.next;
        self.next += 1;
        let index = self.index_of(number);
        self.keys[index].tried = Some(number);
        PendingWrite {
            key: self.key(index),
            value: self.value(number),
            number,
        }
    }

    /// Records that a write was acknowledged with this version.
    pub(crate) fn acknowledge(&mut self, write: &PendingWrite, version: u64) {
        let index = self.index_of(write.number);
        let number = write.number;
        self.keys[index].acknowledged = Some(Acknowledged { version, number });
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key at an index.
    pub(crate) fn key(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    /// Checks whether a key may hold this version and value, or nothing: it
    /// must have the acknowledged version, or that of a later write without an
    /// acknowledgement.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(crate) fn check(&self, index: usize, held: Option<(u64, &[u8])>) -> Result<(), String> {
        let KeyRecord {
            acknowledged,
            tried,
        } = self.keys[index];
        let key = self.key(index);
        let Some((version, value)) = held else {
            return match acknowledged {
                None => Ok(()),
                Some(Acknowledged { version, number }) => Err(format!(
                    "{key} is missing, but write {number} was acknowledged with version {version}"
                )),
            };
        };
        let number = std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.trim_start().parse().ok())
            .filter(|number| self.index_of(*number) == index && Some(*number) <= tried)
            .filter(|number| self.value(*number).as_bytes() == value)
            .ok_or_else(|| format!("{key} holds a value that was never written to it"))?;
        match acknowledged {
            Some(least)
                if !((version == least.version && number == least.number)
                    || (version > least.version && number > least.number)) =>
            {
                Err(format!(
                    "{key} holds write {number} as version {version}, but write {} was \
                     acknowledged as {}",
                    least.number, least.version
                ))
            }
            _ => Ok(()),
        }
    }

    /// Reads the key at an index with these parameters, and checks it. Returns
    /// the status if it is neither 200 nor 404.
    ///
    /// # Errors
    /// The connection breaks.
    ///
    /// # Panics
    /// The key holds what it must not hold.
    pub(crate) fn read(
        &self,
        connection: &mut HttpConnection,
        index: usize,
        parameters: &str,
    ) -> io::Result<Option<u16>> {
        let target = format!("/v0/entity?id={}{parameters}", self.key(index));
        let answer = connection.exchange("GET", &target, b"")?;
        let held = match answer.status {
            200 => Some((answer.version.unwrap(), &answer.body[..])),
            404 => None,
            status => return Ok(Some(status)),
        };
        if let Err(wrong) = self.check(index, held) {
            panic!("a read with {parameters:?} is wrong: {wrong}");
        }
        Ok(None)
    }

    fn index_of(&self, number: u64) -> usize {
        (number % self.keys.len() as u64) as usize
    }

    fn value(&self, number: u64) -> String {
        let value_bytes = self.value_bytes;
        format!("{number:>value_bytes$}")
    }
}
