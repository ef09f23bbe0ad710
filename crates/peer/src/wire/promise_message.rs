//! What coordinators of conditional writes ask the replicas of a key.
//!
//! ```text
//! request = 1 prepare    flags u8: 1 for a value | copies u8 | ballot u64 | epoch u64
//!                        | the coordinator's wall clock in ms u64 | base | key
//!         | 2 release    ballot u64 | key
//!
//! base    = 0 whatever is there, by force
//!         | 1 no value
//!         | 2 this version   timestamp u64
//!
//! answer  = 1 promised   flags u8: 1 a promise was met, 2 there is a version, 4 the promise that was
//!                        met is of an earlier list | timestamp u64 | GC threshold u64
//!         | 2 differs    flags u8: 1 it is a value, 2 there is a version | timestamp u64
//!         | 3 busy       is stale u8 | ballot u64
//!         | 4 not kept
//!         | 5 released
//! ```
//!
//! The accept is a frame of its own, because its value may be long: see `message/`.

use base::{ByteReader, KEY_BYTES_MAX, Timestamp};
use bytes::Bytes;
use cluster::{Base, Epoch, Met, Newest};

/// A request to promise a ballot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The key.
    pub key: Bytes,
    /// The ballot.
    pub ballot: Timestamp,
    /// The epoch of the list of members by which the coordinator has chosen the replicas. One with
    /// another list promises nothing.
    pub epoch: Epoch,
    /// What the newest version must be. [`None`] replaces the promise of a lower ballot by force,
    /// whatever the newest version is.
    pub base: Option<Base>,
    /// How many copies the version is to have.
    pub copies: u8,
    /// Whether the version is to be a value, for which the store needs room.
    pub is_value: bool,
    /// The coordinator's wall clock, in milliseconds since the Unix epoch: it says whether a value
    /// has expired.
    pub unix_ms: u64,
}

/// What a coordinator asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromiseRequest {
    /// Promise a ballot.
    Prepare(Prepare),
    /// The promise of a ballot is needed no more.
    Release {
        /// The key.
        key: Bytes,
        /// The ballot.
        ballot: Timestamp,
    },
}

/// What a replica answers, also to an accept that it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromiseAnswer {
    /// The ballot is promised.
    Promised {
        /// The timestamp of the newest version; [`None`] where there is none, or a dead one below
        /// the GC threshold.
        newest: Option<Timestamp>,
        /// Which promise of a lower ballot was given up for it.
        met: Met,
        /// The replica's GC threshold.
        gc_threshold: Timestamp,
    },
    /// The newest version is not as expected, or not below the ballot. Nothing is promised.
    Differs(Newest),
    /// Another ballot is or was promised.
    Busy {
        /// The other ballot.
        with: Timestamp,
        /// Whether the promise is kept for longer than a conditional write takes.
        is_stale: bool,
    },
    /// The promise of the version that was to be accepted is kept no more, and never will be.
    NotKept,
    /// The promise is kept no more.
    Released,
}

const MET: u8 = 1;
const OF_EARLIER_LIST: u8 = 4;
const IS_VALUE: u8 = 1;
const IS_THERE: u8 = 2;

const MALFORMED_REQUEST: &str = "a malformed request of a conditional write";
const MALFORMED_ANSWER: &str = "a malformed answer to a conditional write";

impl PromiseRequest {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Prepare(prepare) => &prepare.key,
            Self::Release { key, .. } => key,
        }
    }

    /// Appends the request.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Prepare(prepare) => {
                out.push(1);
                out.push(u8::from(prepare.is_value));
                out.push(prepare.copies);
                put(out, prepare.ballot.as_u64());
                put(out, prepare.epoch.as_u64());
                put(out, prepare.unix_ms);
                match prepare.base {
                    None => out.push(0),
                    Some(Base::NoValue) => out.push(1),
                    Some(Base::Version(version)) => {
                        out.push(2);
                        put(out, version.as_u64());
                    }
                }
            }
            Self::Release { ballot, .. } => {
                out.push(2);
                put(out, ballot.as_u64());
            }
        }
        out.extend_from_slice(self.key());
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::take(bytes).ok_or(MALFORMED_REQUEST)
    }

    fn take(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let [kind] = reader.array()?;
        Some(match kind {
            1 => {
                let [flags, copies] = reader.array()?;
                let ballot = timestamp(&mut reader)?;
                let epoch = Epoch::new(reader.u64()?);
                let unix_ms = reader.u64()?;
                let [base] = reader.array()?;
                let base = match base {
                    0 => None,
                    1 => Some(Base::NoValue),
                    2 => Some(Base::Version(timestamp(&mut reader)?)),
                    _ => return None,
                };
                if flags > 1 {
                    return None;
                }
                Self::Prepare(Prepare {
                    key: take_key(reader)?,
                    ballot,
                    epoch,
                    base,
                    copies,
                    is_value: flags == 1,
                    unix_ms,
                })
            }
            2 => Self::Release {
                ballot: timestamp(&mut reader)?,
                key: take_key(reader)?,
            },
            _ => return None,
        })
    }
}

impl PromiseAnswer {
    /// Appends the answer.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Promised {
                newest,
                met,
                gc_threshold,
            } => {
                out.push(1);
                let flags = match met {
                    Met::Nothing => 0,
                    Met::SameList => MET,
                    Met::EarlierList => MET | OF_EARLIER_LIST,
                };
                put_newest(out, newest, flags);
                put(out, gc_threshold.as_u64());
            }
            Self::Differs(newest) => {
                out.push(2);
                let flag = if newest.is_value { IS_VALUE } else { 0 };
                put_newest(out, newest.timestamp, flag);
            }
            Self::Busy { with, is_stale } => {
                out.push(3);
                out.push(u8::from(is_stale));
                put(out, with.as_u64());
            }
            Self::NotKept => out.push(4),
            Self::Released => out.push(5),
        }
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut reader = ByteReader::new(bytes);
        let answer = Self::take(&mut reader).ok_or(MALFORMED_ANSWER)?;
        if reader.rest().is_empty() {
            Ok(answer)
        } else {
            Err(MALFORMED_ANSWER)
        }
    }

    fn take(reader: &mut ByteReader<'_>) -> Option<Self> {
        let [kind] = reader.array()?;
        Some(match kind {
            1 => {
                let (newest, flags) = take_newest(reader)?;
                let met = match flags {
                    0 => Met::Nothing,
                    MET => Met::SameList,
                    flags if flags == MET | OF_EARLIER_LIST => Met::EarlierList,
                    _ => return None,
                };
                Self::Promised {
                    newest,
                    met,
                    gc_threshold: timestamp(reader)?,
                }
            }
            2 => {
                let (timestamp, flags) = take_newest(reader)?;
                if flags > IS_VALUE {
                    return None;
                }
                Self::Differs(Newest {
                    timestamp,
                    is_value: flags == IS_VALUE,
                })
            }
            3 => {
                let [is_stale] = reader.array()?;
                Self::Busy {
                    is_stale: is_stale != 0,
                    with: timestamp(reader)?,
                }
            }
            4 => Self::NotKept,
            5 => Self::Released,
            _ => return None,
        })
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_newest(out: &mut Vec<u8>, newest: Option<Timestamp>, flag: u8) {
    out.push(flag | if newest.is_some() { IS_THERE } else { 0 });
    put(out, newest.unwrap_or(Timestamp::ZERO).as_u64());
}

/// The timestamp of a version, if there is one, and the other flags.
fn take_newest(reader: &mut ByteReader<'_>) -> Option<(Option<Timestamp>, u8)> {
    let [flags] = reader.array()?;
    let timestamp = timestamp(reader)?;
    let newest = (flags & IS_THERE != 0).then_some(timestamp);
    Some((newest, flags & !IS_THERE))
}

fn timestamp(reader: &mut ByteReader<'_>) -> Option<Timestamp> {
    reader.u64().map(Timestamp::from_u64)
}

fn take_key(reader: ByteReader<'_>) -> Option<Bytes> {
    let key = reader.rest();
    let is_key = (1..=KEY_BYTES_MAX).contains(&key.len());
    is_key.then(|| Bytes::copy_from_slice(key))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const BALLOT: Timestamp = Timestamp::from_u64(0x0807_0605_0403_0201);

    pub(crate) fn requests() -> Vec<PromiseRequest> {
        let key = Bytes::from_static(b"key");
        let bases = [
            None,
            Some(Base::NoValue),
            Some(Base::Version(Timestamp::from_u64(9))),
        ];
        let prepares = bases.map(|base| {
            PromiseRequest::Prepare(Prepare {
                key: key.clone(),
                ballot: BALLOT,
                epoch: Epoch::new(5),
                base,
                copies: 3,
                is_value: base.is_some(),
                unix_ms: 77,
            })
        });
        let ballot = BALLOT;
        let release = PromiseRequest::Release { key, ballot };
        prepares.into_iter().chain([release]).collect()
    }

    pub(crate) fn answers() -> Vec<PromiseAnswer> {
        let mut answers = vec![PromiseAnswer::NotKept, PromiseAnswer::Released];
        for flag in [false, true] {
            for timestamp in [None, Some(BALLOT)] {
                for met in [Met::Nothing, Met::SameList, Met::EarlierList] {
                    answers.push(PromiseAnswer::Promised {
                        newest: timestamp,
                        met,
                        gc_threshold: Timestamp::from_u64(3),
                    });
                }
                answers.push(PromiseAnswer::Differs(Newest {
                    timestamp,
                    is_value: flag,
                }));
            }
            answers.push(PromiseAnswer::Busy {
                with: BALLOT,
                is_stale: flag,
            });
        }
        answers
    }

    #[test]
    fn messages_come_back_and_are_never_cut_off() {
        for request in requests() {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert_eq!(PromiseRequest::decode(&bytes), Ok(request));
            // Any shorter one would have a shorter key or none.
            assert!(PromiseRequest::decode(&bytes[..bytes.len() - 3]).is_err());
        }
        for answer in answers() {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            assert_eq!(PromiseAnswer::decode(&bytes), Ok(answer));
            for end in 0..bytes.len() {
                assert!(PromiseAnswer::decode(&bytes[..end]).is_err());
            }
            bytes.push(0);
            assert!(PromiseAnswer::decode(&bytes).is_err());
        }
    }

    #[test]
    fn a_prepare_is_as_drawn() {
        let mut bytes = Vec::new();
        requests()[2].encode(&mut bytes);
        assert_eq!(
            bytes,
            [
                1, 1, 3, 1, 2, 3, 4, 5, 6, 7, 8, 5, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0,
                2, 9, 0, 0, 0, 0, 0, 0, 0, b'k', b'e', b'y'
            ]
        );
    }
}
