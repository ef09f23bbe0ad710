//! What a client was promised: which write of each key was acknowledged as
//! which version, and so what a read of the key may give.

use crate::support::HttpConnection;
use std::io;

/// A write that was acknowledged: the version, and the client's number for it.
#[derive(Clone, Copy)]
struct Acknowledged {
    version: u64,
    number: u64,
}

/// What is known of a key.
#[derive(Clone, Copy, Default)]
struct KeyRecord {
    acknowledged: Option<Acknowledged>,
    /// The number of the last write, acknowledged or not.
    tried: Option<u64>,
}

/// A client's account of its writes. The keys are its own, so that it knows
/// what they hold.
pub(crate) struct Ledger {
    name: usize,
    keys: Vec<KeyRecord>,
    value_bytes: usize,
    next: u64,
}

/// A write that is to be done.
pub(crate) struct PendingWrite {
    pub(crate) key: String,
    pub(crate) value: String,
    number: u64,
}

impl Ledger {
    /// That of a client that has written nothing yet.
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

    /// A write was acknowledged as this version.
    pub(crate) fn acknowledge(&mut self, write: &PendingWrite, version: u64) {
        let index = self.index_of(write.number);
        let number = write.number;
        self.keys[index].acknowledged = Some(Acknowledged { version, number });
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key at a place.
    pub(crate) fn key(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    /// Whether a key may hold this version and value, or nothing: it has the
    /// acknowledged version, or one of a later write that nobody acknowledged.
    ///
    /// # Errors
    /// What is wrong with it.
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
                    "{key} is gone, and write {number} was acknowledged as {version}"
                )),
            };
        };
        let number = std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.trim_start().parse().ok())
            .filter(|number| self.index_of(*number) == index && Some(*number) <= tried)
            .filter(|number| self.value(*number).as_bytes() == value)
            .ok_or_else(|| format!("{key} holds what was never written to it"))?;
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

    /// Reads the key at a place with these parameters, and checks it. `Ok`
    /// holds the status if that is neither 200 nor 404.
    ///
    /// # Errors
    /// A connection that breaks.
    ///
    /// # Panics
    /// When the key holds what it must not.
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
