//! What nodes ask each other for a backup.
//!
//! ```text
//! request = 1 hold
//!         | 2 go on     hold u64 | keeps u8
//!         | 3 upload    hold u64 | backup text | target text
//!         | 4 give up   hold u64
//!
//! answer  = 1 held      hold u64 | greatest timestamp u64 | GC threshold u64 | epoch u64
//!         | 2 went on   has lasted u8
//!         | 3 uploading bytes u64 | done bytes u64
//!         | 4 uploaded  SHA-256, 32 bytes | tables u64 | bytes u64 | new bytes u64
//!         | 5 refused   text
//!         | 6 given up
//!
//! text    = bytes u16 | UTF-8
//! ```

use base::{ByteReader, Timestamp};
use cluster::Epoch;
use cluster::backup::HeldStore;

/// The longest text, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// What the coordinator of a backup asks a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupRequest {
    /// Hold your commits off, and freeze what the store holds.
    Hold,
    /// Go on, and say whether the hold has lasted.
    GoOn {
        /// The number of the hold.
        hold: u64,
        /// Whether what was frozen is kept for an upload.
        keeps: bool,
    },
    /// Store at the target what was frozen, or say how far that is.
    Upload {
        /// The number of the hold.
        hold: u64,
        /// The name of the backup.
        backup: String,
        /// The name of the target.
        target: String,
    },
    /// Let go of what was frozen.
    GiveUp {
        /// The number of the hold.
        hold: u64,
    },
}

/// What the node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupAnswer {
    /// Commits are held off.
    Held(HeldStore),
    /// Commits go on.
    WentOn {
        /// Whether the hold has lasted from its begin until then.
        has_lasted: bool,
    },
    /// The upload is under way.
    Uploading {
        /// The bytes of all tables; 0 until they are known.
        bytes: u64,
        /// The bytes of those that are at the target.
        done_bytes: u64,
    },
    /// The upload has ended.
    Uploaded {
        /// The SHA-256 of the object that names the tables.
        sha256: [u8; 32],
        /// How many tables there are.
        tables: u64,
        /// Their bytes.
        bytes: u64,
        /// How much of that was not at the target before.
        new_bytes: u64,
    },
    /// It cannot.
    Refused(String),
    /// What was frozen is let go of.
    GivenUp,
}

impl BackupRequest {
    /// Appends the request.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hold => out.push(1),
            Self::GoOn { hold, keeps } => {
                out.push(2);
                put(out, *hold);
                out.push(u8::from(*keeps));
            }
            Self::Upload {
                hold,
                backup,
                target,
            } => {
                out.push(3);
                put(out, *hold);
                put_text(out, backup);
                put_text(out, target);
            }
            Self::GiveUp { hold } => {
                out.push(4);
                put(out, *hold);
            }
        }
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut reader = ByteReader::new(bytes);
        let request = Self::take(&mut reader).ok_or("a malformed request for a backup")?;
        ended(&reader)
            .then_some(request)
            .ok_or("a request for a backup that is too long")
    }

    fn take(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(match reader.u8()? {
            1 => Self::Hold,
            2 => Self::GoOn {
                hold: reader.u64()?,
                keeps: take_bool(reader)?,
            },
            3 => Self::Upload {
                hold: reader.u64()?,
                backup: take_text(reader)?,
                target: take_text(reader)?,
            },
            4 => Self::GiveUp {
                hold: reader.u64()?,
            },
            _ => return None,
        })
    }
}

impl BackupAnswer {
    /// Appends the answer.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Held(store) => {
                out.push(1);
                put(out, store.hold);
                put(out, store.greatest_timestamp.as_u64());
                put(out, store.gc_threshold.as_u64());
                put(out, store.epoch.as_u64());
            }
            Self::WentOn { has_lasted } => out.extend_from_slice(&[2, u8::from(*has_lasted)]),
            Self::Uploading { bytes, done_bytes } => {
                out.push(3);
                put(out, *bytes);
                put(out, *done_bytes);
            }
            Self::Uploaded {
                sha256,
                tables,
                bytes,
                new_bytes,
            } => {
                out.push(4);
                out.extend_from_slice(sha256);
                put(out, *tables);
                put(out, *bytes);
                put(out, *new_bytes);
            }
            Self::Refused(why) => {
                out.push(5);
                put_text(out, why);
            }
            Self::GivenUp => out.push(6),
        }
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut reader = ByteReader::new(bytes);
        let answer = Self::take(&mut reader).ok_or("a malformed answer for a backup")?;
        ended(&reader)
            .then_some(answer)
            .ok_or("an answer for a backup that is too long")
    }

    fn take(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(match reader.u8()? {
            1 => Self::Held(HeldStore {
                hold: reader.u64()?,
                greatest_timestamp: Timestamp::from_u64(reader.u64()?),
                gc_threshold: Timestamp::from_u64(reader.u64()?),
                epoch: Epoch::new(reader.u64()?),
            }),
            2 => Self::WentOn {
                has_lasted: take_bool(reader)?,
            },
            3 => Self::Uploading {
                bytes: reader.u64()?,
                done_bytes: reader.u64()?,
            },
            4 => Self::Uploaded {
                sha256: reader.array()?,
                tables: reader.u64()?,
                bytes: reader.u64()?,
                new_bytes: reader.u64()?,
            },
            5 => Self::Refused(take_text(reader)?),
            6 => Self::GivenUp,
            _ => return None,
        })
    }
}

fn ended(reader: &ByteReader<'_>) -> bool {
    (*reader).rest().is_empty()
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a text, of which a reader gets no more than it reads.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = (0..=text.len().min(TEXT_BYTES_MAX))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let text = &text[..end.unwrap_or(0)];
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_text(reader: &mut ByteReader<'_>) -> Option<String> {
    let bytes = usize::from(reader.u16()?);
    let text = (bytes <= TEXT_BYTES_MAX).then(|| reader.bytes(bytes))??;
    Some(std::str::from_utf8(text).ok()?.to_owned())
}

fn take_bool(reader: &mut ByteReader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn requests() -> Vec<BackupRequest> {
        vec![
            BackupRequest::Hold,
            BackupRequest::GoOn {
                hold: 7,
                keeps: true,
            },
            BackupRequest::Upload {
                hold: u64::MAX,
                backup: "20261129T140000Z-89abcdef".to_owned(),
                target: "näs".to_owned(),
            },
            BackupRequest::GiveUp { hold: 0 },
        ]
    }

    pub(crate) fn answers() -> Vec<BackupAnswer> {
        vec![
            BackupAnswer::Held(HeldStore {
                hold: 1,
                greatest_timestamp: Timestamp::from_u64(2),
                gc_threshold: Timestamp::from_u64(3),
                epoch: Epoch::new(4),
            }),
            BackupAnswer::WentOn { has_lasted: true },
            BackupAnswer::WentOn { has_lasted: false },
            BackupAnswer::Uploading {
                bytes: 4,
                done_bytes: 5,
            },
            BackupAnswer::Uploaded {
                sha256: [6; 32],
                tables: 7,
                bytes: 8,
                new_bytes: 9,
            },
            BackupAnswer::Refused("no such target".to_owned()),
            BackupAnswer::GivenUp,
        ]
    }

    #[test]
    fn they_come_back_and_whatever_is_cut_off_or_longer_is_refused() {
        for request in requests() {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            assert_eq!(BackupRequest::decode(&bytes), Ok(request));
            for end in 0..bytes.len() {
                assert!(BackupRequest::decode(&bytes[..end]).is_err());
            }
            bytes.push(0);
            assert!(BackupRequest::decode(&bytes).is_err());
        }
        for answer in answers() {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            assert_eq!(BackupAnswer::decode(&bytes), Ok(answer));
            for end in 0..bytes.len() {
                assert!(BackupAnswer::decode(&bytes[..end]).is_err());
            }
            bytes.push(0);
            assert!(BackupAnswer::decode(&bytes).is_err());
        }
    }

    #[test]
    fn a_long_text_is_cut_where_a_character_ends() {
        let mut bytes = Vec::new();
        BackupAnswer::Refused("ä".repeat(2000)).encode(&mut bytes);
        let expected = BackupAnswer::Refused("ä".repeat(TEXT_BYTES_MAX / 2));
        assert_eq!(BackupAnswer::decode(&bytes), Ok(expected));
    }
}
