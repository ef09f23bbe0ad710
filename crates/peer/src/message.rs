//! Messages: what frames say once two nodes know each other.
//!
//! ```text
//! kind  message  payload
//!    1  write    remaining ms u32 | entry
//!    2  read     remaining ms u32 | key
//!    3  stored   held u8: 0 nothing newer | 1 newer, timestamp u64
//!                                         | 2 unknown, bound on timestamps u64
//!    4  found    entry
//!    5  absent
//!    6  missed   reason u8: 1 timeout, 2 refused, 3 overloaded, 4 full, 5 failed, 6 unfilled
//!    7  ping                                (call: whatever the pong is to repeat)
//!    8  pong     wall clock in ms u64
//!    9  piece    the next bytes of the value of this call
//!   10  standing code u8, as in hellos     (only with the feature of that name)
//!
//! entry = flags u8 | copies u8 | key bytes u16 | timestamp u64 | value bytes u32
//!       | expiry u64, if flags has EXPIRES | key | value
//! ```
//!
//! `remaining ms` is how long the side that asks still waits: an answer that
//! comes later need not be sent.
//!
//! An entry whose value is longer than [`PIECE_BYTES`] comes without it: the
//! value follows in pieces of exactly that size, the last one aside, between
//! other frames. See `assembly.rs`.
//!
//! Requests and pings go from the side that dialled to the side that was
//! dialled; the other messages go back.

use super::frame::{Frame, FrameError, PIECE_BYTES, put_frame};
use base::{ByteReader, Entry, Expiry, KEY_BYTES_MAX, Kind, Timestamp, Verdict};
use cluster::Miss;
use cluster::Standing;
use std::time::Duration;

const WRITE: u8 = 1;
const READ: u8 = 2;
const STORED: u8 = 3;
const FOUND: u8 = 4;
const ABSENT: u8 = 5;
const MISSED: u8 = 6;
const PING: u8 = 7;
const PONG: u8 = 8;
const PIECE: u8 = 9;
const STANDING: u8 = 10;

const CLEAN: u8 = 0;
const NEWER: u8 = 1;
const UNKNOWN: u8 = 2;

const FLAG_TOMBSTONE: u8 = 1;
const FLAG_EXPIRES: u8 = 2;

/// A message as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// Store this version.
    Write {
        /// How long the other side waits for the answer.
        remaining: Duration,
        /// The version.
        entry: EntryHead<'a>,
    },
    /// Give the freshest version of a key.
    Read {
        /// How long the other side waits for the answer.
        remaining: Duration,
        /// The key.
        key: &'a [u8],
    },
    /// It is stored.
    Stored {
        /// What newer the key held when the version first arrived.
        verdict: Verdict,
    },
    /// The freshest version.
    Found(EntryHead<'a>),
    /// There is no version.
    Absent,
    /// It was not done.
    Missed(Miss),
    /// Are you there?
    Ping,
    /// I am.
    Pong {
        /// The other side's wall clock, in milliseconds since the Unix epoch.
        unix_ms: u64,
    },
    /// More of a long value.
    Piece(&'a [u8]),
    /// How the other side's store stands.
    Standing(Standing),
}

/// An entry as it came, perhaps without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHead<'a> {
    pub(super) kind: Kind,
    pub(super) copies: u8,
    pub(super) timestamp: Timestamp,
    pub(super) expiry: Expiry,
    pub(super) key: &'a [u8],
    /// The length of the whole value.
    pub(super) value_bytes: usize,
    /// The value, if it is short.
    value: &'a [u8],
}

impl EntryHead<'_> {
    /// The entry, if its value is all here.
    pub(super) fn whole(&self) -> Option<Entry> {
        if self.value.len() < self.value_bytes {
            return None;
        }
        let (key, timestamp, copies) = (self.key, self.timestamp, self.copies);
        Some(match self.kind {
            Kind::Value => Entry::value(key, timestamp, self.value, self.expiry, copies),
            Kind::Tombstone => Entry::tombstone(key, timestamp, copies),
        })
    }
}

impl<'a> Message<'a> {
    /// What a frame says.
    ///
    /// # Errors
    /// [`FrameError::Malformed`].
    pub(super) fn decode(frame: Frame<'a>) -> Result<Self, FrameError> {
        let mut fields = Fields {
            frame,
            reader: ByteReader::new(frame.payload),
        };
        let message = match frame.kind {
            WRITE => Self::Write {
                remaining: fields.remaining()?,
                entry: fields.entry()?,
            },
            READ => Self::Read {
                remaining: fields.remaining()?,
                key: fields.key_of(fields.reader.rest().len())?,
            },
            STORED => Self::Stored {
                verdict: fields.verdict()?,
            },
            FOUND => Self::Found(fields.entry()?),
            ABSENT => Self::Absent,
            MISSED => {
                let [reason] = fields.array()?;
                let miss = miss_of_code(reason);
                Self::Missed(miss.ok_or(frame.malformed("an unknown reason"))?)
            }
            PING => Self::Ping,
            PONG => Self::Pong {
                unix_ms: fields.u64()?,
            },
            PIECE => Self::Piece(fields.bytes(frame.payload.len())?),
            STANDING => {
                let [code] = fields.array()?;
                Self::Standing(Standing::from_code(code))
            }
            _ => return Err(frame.malformed("a kind that nobody knows")),
        };
        fields.end()?;
        Ok(message)
    }
}

/// Reads a payload, field by field.
struct Fields<'a> {
    frame: Frame<'a>,
    reader: ByteReader<'a>,
}

impl<'a> Fields<'a> {
    /// What the reader took; an error where the payload is too short for it.
    fn present<T>(&self, taken: Option<T>) -> Result<T, FrameError> {
        taken.ok_or(self.frame.malformed("too short a payload"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let taken = self.reader.array();
        self.present(taken)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let taken = self.reader.bytes(count);
        self.present(taken)
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        let taken = self.reader.u32();
        self.present(taken)
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        let taken = self.reader.u64();
        self.present(taken)
    }

    fn remaining(&mut self) -> Result<Duration, FrameError> {
        Ok(Duration::from_millis(u64::from(self.u32()?)))
    }

    fn key_of(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        if (1..=KEY_BYTES_MAX).contains(&count) {
            self.bytes(count)
        } else {
            Err(self.frame.malformed("a key of no length that keys have"))
        }
    }

    fn entry(&mut self) -> Result<EntryHead<'a>, FrameError> {
        let [flags, copies, k0, k1] = self.array()?;
        if flags & !(FLAG_TOMBSTONE | FLAG_EXPIRES) != 0 {
            return Err(self.frame.malformed("unknown flags"));
        }
        let timestamp = Timestamp::from_u64(self.u64()?);
        let value_bytes = self.u32()? as usize;
        let expiry = if flags & FLAG_EXPIRES == 0 {
            Expiry::NEVER
        } else {
            Expiry::at_unix_ms(self.u64()?)
        };
        let kind = if flags & FLAG_TOMBSTONE == 0 {
            Kind::Value
        } else {
            Kind::Tombstone
        };
        if kind == Kind::Tombstone && (value_bytes > 0 || expiry != Expiry::NEVER) {
            return Err(self.frame.malformed("a tombstone that has a value"));
        }
        let key = self.key_of(usize::from(u16::from_le_bytes([k0, k1])))?;
        let value = if value_bytes > PIECE_BYTES {
            &[]
        } else {
            self.bytes(value_bytes)?
        };
        Ok(EntryHead {
            kind,
            copies,
            timestamp,
            expiry,
            key,
            value_bytes,
            value,
        })
    }

    fn verdict(&mut self) -> Result<Verdict, FrameError> {
        let [verdict] = self.array()?;
        Ok(match verdict {
            CLEAN => Verdict::Clean,
            NEWER => Verdict::Newer(Timestamp::from_u64(self.u64()?)),
            UNKNOWN => Verdict::Unknown(Timestamp::from_u64(self.u64()?)),
            _ => return Err(self.frame.malformed("an unknown word on what was held")),
        })
    }

    fn end(&self) -> Result<(), FrameError> {
        if self.reader.rest().is_empty() {
            Ok(())
        } else {
            Err(self.frame.malformed("too long a payload"))
        }
    }
}

/// Whether the value of an entry travels in pieces.
pub(super) fn is_long(entry: &Entry) -> bool {
    entry.value_bytes().len() > PIECE_BYTES
}

/// Appends a write; a long value is yet to follow.
pub(super) fn put_write(out: &mut Vec<u8>, call: u64, remaining: Duration, entry: &Entry) {
    put_frame(out, WRITE, call, |out| {
        put_remaining(out, remaining);
        put_entry(out, entry);
    });
}

/// Appends a read.
pub(super) fn put_read(out: &mut Vec<u8>, call: u64, remaining: Duration, key: &[u8]) {
    put_frame(out, READ, call, |out| {
        put_remaining(out, remaining);
        out.extend_from_slice(key);
    });
}

/// Appends the answer that a write is stored.
pub(super) fn put_stored(out: &mut Vec<u8>, call: u64, verdict: Verdict) {
    put_frame(out, STORED, call, |out| {
        let (verdict, timestamp) = match verdict {
            Verdict::Clean => return out.push(CLEAN),
            Verdict::Newer(newest) => (NEWER, newest),
            Verdict::Unknown(bound) => (UNKNOWN, bound),
        };
        out.push(verdict);
        out.extend_from_slice(&timestamp.as_u64().to_le_bytes());
    });
}

/// Appends the version that was found; a long value is yet to follow.
pub(super) fn put_found(out: &mut Vec<u8>, call: u64, entry: &Entry) {
    put_frame(out, FOUND, call, |out| put_entry(out, entry));
}

/// Appends the answer that there is no version.
pub(super) fn put_absent(out: &mut Vec<u8>, call: u64) {
    put_frame(out, ABSENT, call, |_| {});
}

/// Appends why something was not done.
pub(super) fn put_missed(out: &mut Vec<u8>, call: u64, miss: Miss) {
    put_frame(out, MISSED, call, |out| out.push(code_of_miss(miss)));
}

/// Appends a ping, whose pong will repeat `token`.
pub(super) fn put_ping(out: &mut Vec<u8>, token: u64) {
    put_frame(out, PING, token, |_| {});
}

/// Appends the answer to a ping.
pub(super) fn put_pong(out: &mut Vec<u8>, token: u64, unix_ms: u64) {
    let unix_ms = unix_ms.to_le_bytes();
    put_frame(out, PONG, token, |out| out.extend_from_slice(&unix_ms));
}

/// Appends how this side's store stands.
pub(super) fn put_standing(out: &mut Vec<u8>, standing: Standing) {
    put_frame(out, STANDING, 0, |out| out.push(standing as u8));
}

/// Appends the next bytes of a long value.
pub(super) fn put_piece(out: &mut Vec<u8>, call: u64, piece: &[u8]) {
    put_frame(out, PIECE, call, |out| out.extend_from_slice(piece));
}

fn put_remaining(out: &mut Vec<u8>, remaining: Duration) {
    // Rounded up: a little time left is not none.
    let remaining_ms = remaining.as_micros().div_ceil(1000);
    let remaining_ms = u32::try_from(remaining_ms).unwrap_or(u32::MAX);
    out.extend_from_slice(&remaining_ms.to_le_bytes());
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    let expires = entry.expiry() != Expiry::NEVER;
    let tombstone = entry.kind() == Kind::Tombstone;
    let tombstone_flag = if tombstone { FLAG_TOMBSTONE } else { 0 };
    out.push(tombstone_flag | if expires { FLAG_EXPIRES } else { 0 });
    out.push(entry.copies());
    out.extend_from_slice(&(entry.key().len() as u16).to_le_bytes());
    out.extend_from_slice(&entry.timestamp().as_u64().to_le_bytes());
    out.extend_from_slice(&(entry.value_bytes().len() as u32).to_le_bytes());
    if expires {
        out.extend_from_slice(&entry.expiry().unix_ms().to_le_bytes());
    }
    out.extend_from_slice(entry.key());
    if !is_long(entry) {
        out.extend_from_slice(entry.value_bytes());
    }
}

fn code_of_miss(miss: Miss) -> u8 {
    match miss {
        // A replica that waited for others in vain is late itself.
        Miss::Timeout | Miss::Suspected => 1,
        Miss::Refused => 2,
        Miss::Overloaded => 3,
        Miss::Full => 4,
        Miss::Failed => 5,
        Miss::Unfilled => 6,
    }
}

fn miss_of_code(code: u8) -> Option<Miss> {
    Some(match code {
        1 => Miss::Timeout,
        2 => Miss::Refused,
        3 => Miss::Overloaded,
        4 => Miss::Full,
        5 => Miss::Failed,
        6 => Miss::Unfilled,
        _ => return None,
    })
}
