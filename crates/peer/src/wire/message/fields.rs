//! Reads the fields of messages.

use super::{EntryHead, Frame, FrameError, NEWER, NO_NEWER, OVERTAKEN, RunHead, UNKNOWN};
use crate::wire::entry_fields::EntryFields;
use crate::wire::frame::{PIECE_BYTES, RUN_BYTES_MAX};
use crate::wire::repair_message::take_session_id;
use crate::wire::store_report::ListReport;
use base::{ByteReader, KEY_BYTES_MAX, NewerVersion, Timestamp};
use cluster::Miss;
use cluster::repair::SessionId;
use std::time::Duration;

/// Reads the fields of a payload.
pub(crate) struct Fields<'a> {
    pub(crate) frame: Frame<'a>,
    pub(super) reader: ByteReader<'a>,
}

impl<'a> Fields<'a> {
    /// The fields of a frame.
    pub(super) fn of(frame: Frame<'a>) -> Self {
        Self {
            frame,
            reader: ByteReader::new(frame.payload),
        }
    }

    /// Returns what the reader took, or an error if the payload was too short.
    pub(super) fn present<T>(&self, taken: Option<T>) -> Result<T, FrameError> {
        taken.ok_or(self.frame.malformed("a payload that is too short"))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let taken = self.reader.array();
        self.present(taken)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let taken = self.reader.bytes(count);
        self.present(taken)
    }

    pub(super) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::replace(&mut self.reader, ByteReader::new(&[])).rest()
    }

    pub(super) fn u32(&mut self) -> Result<u32, FrameError> {
        let taken = self.reader.u32();
        self.present(taken)
    }

    pub(super) fn u64(&mut self) -> Result<u64, FrameError> {
        let taken = self.reader.u64();
        self.present(taken)
    }

    pub(super) fn remaining(&mut self) -> Result<Duration, FrameError> {
        Ok(Duration::from_millis(u64::from(self.u32()?)))
    }

    pub(super) fn session(&mut self) -> Result<SessionId, FrameError> {
        let taken = take_session_id(&mut self.reader);
        taken.map_err(|what| self.frame.malformed(what))
    }

    /// What the rest of a report says of the list of members: nothing, if it is of another release.
    pub(super) fn list_report(&mut self) -> ListReport {
        let mut rest = ByteReader::new(self.take_rest());
        match rest.u64() {
            Some(0) => ListReport::decode(&mut rest).unwrap_or_default(),
            _ => ListReport::default(),
        }
    }

    pub(super) fn timestamp(&mut self) -> Result<Timestamp, FrameError> {
        Ok(Timestamp::from_u64(self.u64()?))
    }

    pub(super) fn key_of(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        if (1..=KEY_BYTES_MAX).contains(&count) {
            self.bytes(count)
        } else {
            Err(self.frame.malformed("a key that is empty or too long"))
        }
    }

    pub(super) fn entry(&mut self) -> Result<EntryHead<'a>, FrameError> {
        let head = self.entry_head()?;
        let value = if head.value_bytes > PIECE_BYTES {
            &[]
        } else {
            self.bytes(head.value_bytes)?
        };
        Ok(EntryHead { value, ..head })
    }

    /// An entry without its value.
    pub(super) fn entry_head(&mut self) -> Result<EntryHead<'a>, FrameError> {
        let fields = EntryFields::read(&mut self.reader, 0);
        let EntryFields {
            flags: _,
            copies,
            key_bytes,
            timestamp,
            kind,
            value_bytes,
            expiry,
        } = fields.map_err(|what| self.frame.malformed(what))?;
        let value_bytes = value_bytes as usize;
        let key = self.bytes(key_bytes)?;
        Ok(EntryHead {
            kind,
            copies,
            timestamp,
            expiry,
            key,
            value_bytes,
            value: &[],
        })
    }

    pub(super) fn run(&mut self) -> Result<RunHead<'a>, FrameError> {
        let [is_last, p0, p1] = self.array()?;
        if is_last > 1 {
            return Err(self.frame.malformed("neither yes nor no"));
        }
        let run_bytes = self.u32()? as usize;
        if run_bytes > RUN_BYTES_MAX {
            return Err(self.frame.malformed("a run that is too long"));
        }
        Ok(RunHead {
            is_last: is_last == 1,
            position_permille: u16::from_le_bytes([p0, p1]),
            run_bytes,
            bytes: if run_bytes > PIECE_BYTES {
                &[]
            } else {
                self.bytes(run_bytes)?
            },
        })
    }

    pub(super) fn newer_version(&mut self) -> Result<NewerVersion, FrameError> {
        let [newer_version] = self.array()?;
        Ok(match newer_version {
            NO_NEWER => NewerVersion::None,
            NEWER => NewerVersion::At(Timestamp::from_u64(self.u64()?)),
            OVERTAKEN => NewerVersion::Overtaken(Timestamp::from_u64(self.u64()?)),
            UNKNOWN => NewerVersion::Unknown(Timestamp::from_u64(self.u64()?)),
            _ => return Err(self.frame.malformed("an unknown newer-version check")),
        })
    }

    pub(super) fn end(&self) -> Result<(), FrameError> {
        if self.reader.rest().is_empty() {
            Ok(())
        } else {
            Err(self.frame.malformed("a payload that is too long"))
        }
    }
}

pub(super) fn miss_of_code(code: u8) -> Option<Miss> {
    Some(match code {
        1 => Miss::Timeout,
        2 => Miss::Refused,
        3 => Miss::Overloaded,
        4 => Miss::Full,
        5 => Miss::Failed,
        6 => Miss::Learner,
        8 => Miss::Undecided,
        9 => Miss::OtherEpoch,
        _ => return None,
    })
}
