//! The file `TOMBSTONE_GC`: what the store remembers of repair sessions and tombstone GC.
//!
//! What is forgotten would let something in behind a session, or have this node ask for what the
//! others have collected. So a file that cannot be read ends the start. The file is small: each
//! change replaces it. Integers are little-endian:
//!
//! ```text
//! file    = magic [u8; 8] | version u32 | closed u64 | GC threshold u64 | token
//!         | epoch u64 | may raise u8 | answered | answered to: token
//!         | non-owned | loss u64 | crc32c u32 of the rest
//! token   = session u64 | attempt u32
//! answered, non-owned = timestamp u64 | epoch u64
//! ```
//!
//! `loss` is the last loss of the store that the record knows: see [`Incarnation`].
//!
//! Version 5 has a hash of the names of the members in place of each epoch. They were all of the list
//! that the cluster was formed with, whose epoch is 0.
//!
//! Version 4 is of a release with other sessions:
//!
//! ```text
//! file 4  = magic [u8; 8] | version u32 | closed u64 | GC threshold u64 | greatest known u64
//!         | unsure below u64 | non-owned | not used u64 | answered u64 | crc32c u32 of the rest
//! ```
//!
//! A store that was unsure of what it has has answered for nothing, so that it is behind the next
//! threshold of which it hears. It begins without a session.
//!
//! [`Incarnation`]: cluster::comparison::Incarnation

use base::{ByteReader, Timestamp};
use cluster::Epoch;
use cluster::repair::{ShownBelow, StoreRecord, Token};
use lsm::checked_file::{self, FileKind};
use lsm::disk::{read_small_file, rename_old_file, replace_file};
use lsm::{Disk, Error};
use std::ops::RangeInclusive;
use std::path::Path;

const FILE: &str = "TOMBSTONE_GC";
/// The name of the same file in folders of builds before this name.
const OLD_FILE: &str = "FORGET";
const VERSION: u32 = 6;
/// The version with a hash of the members in place of each epoch.
const VERSION_OF_HASHES: u32 = 5;
/// The version of the release with other sessions.
const VERSION_BEFORE: u32 = 4;
/// The versions of the format of `TOMBSTONE_GC` that this release reads; it writes the last one.
pub const TOMBSTONE_GC_VERSIONS: RangeInclusive<u32> = VERSION_BEFORE..=VERSION;
const KIND: FileKind = FileKind {
    name: FILE,
    magic: *b"kvorumfg",
    versions: TOMBSTONE_GC_VERSIONS,
};
/// The longest file that is read: several times the size.
const FILE_BYTES_MAX: u64 = 4 << 10;

/// What the file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFile {
    /// What the store remembers.
    pub record: StoreRecord,
    /// The last loss of which it knows; 0 if it has lost nothing.
    pub loss: u64,
}

impl StoreFile {
    /// Loads the file in `folder`, which gets its present name if it has the old one; all is zero if
    /// there is none.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`] for bytes that no node wrote, and
    /// [`Error::Invalid`] for a format version that this code does not know.
    pub fn load(disk: &dyn Disk, folder: &Path) -> Result<Self, Error> {
        rename_old_file(disk, folder, OLD_FILE, FILE)?;
        let path = folder.join(FILE);
        let bytes = read_small_file(disk, &path, FILE_BYTES_MAX)?;
        bytes.map_or(Ok(Self::default()), |bytes| Self::decode(&path, &bytes))
    }

    /// The same, in a folder whose store was restored with this GC threshold: a store that remembers
    /// nothing yet begins with it, durably. Below it the store answers for all that it holds, because
    /// all stores of the backup had shown themselves equal there.
    ///
    /// # Errors
    /// As [`StoreFile::load`], and those of writing.
    pub fn load_restored(
        disk: &dyn Disk,
        folder: &Path,
        gc_threshold: Timestamp,
    ) -> Result<Self, Error> {
        let loaded = Self::load(disk, folder)?;
        if gc_threshold == Timestamp::ZERO || loaded != Self::default() {
            return Ok(loaded);
        }
        let begun = Self {
            record: StoreRecord {
                closed: gc_threshold,
                gc_threshold,
                answered: ShownBelow {
                    below: gc_threshold,
                    epoch: Epoch::default(),
                },
                ..StoreRecord::default()
            },
            loss: 0,
        };
        begun.store(disk, folder)?;
        Ok(begun)
    }

    /// The same, if its timestamps are from the future: with a closed timestamp of at most
    /// `closed_max`, and GC thresholds of at most `gc_threshold_max`. What it has answered for stays
    /// as high as the closed timestamp, which covers the thresholds of nodes that are started like
    /// this a little later.
    #[must_use]
    pub(super) fn at_most(self, closed_max: Timestamp, gc_threshold_max: Timestamp) -> Self {
        let record = self.record;
        if self.greatest() <= closed_max {
            return self;
        }
        let shown = |shown: ShownBelow, below_max| ShownBelow {
            below: shown.below.min(below_max),
            ..shown
        };
        Self {
            record: StoreRecord {
                closed: record.closed.min(closed_max),
                gc_threshold: record.gc_threshold.min(gc_threshold_max),
                may_raise: false,
                answered: shown(record.answered, closed_max),
                non_owned: shown(record.non_owned, gc_threshold_max),
                ..record
            },
            ..self
        }
    }

    /// The greatest timestamp that it holds.
    pub(super) fn greatest(&self) -> Timestamp {
        let record = &self.record;
        let greatest = record.closed.max(record.gc_threshold);
        greatest.max(record.answered.below)
    }

    /// Replaces the file in `folder`, durably.
    ///
    /// # Errors
    /// See [`replace_file`]: the folder has either the previous file or this one.
    pub(super) fn store(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        replace_file(disk, folder, FILE, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let StoreRecord {
            closed,
            gc_threshold,
            token,
            epoch,
            may_raise,
            answered,
            answered_to,
            non_owned,
        } = self.record;
        let mut bytes = KIND.begin();
        put(&mut bytes, closed.as_u64());
        put(&mut bytes, gc_threshold.as_u64());
        token.encode(&mut bytes);
        put(&mut bytes, epoch.as_u64());
        bytes.push(u8::from(may_raise));
        put_shown(&mut bytes, answered);
        answered_to.encode(&mut bytes);
        put_shown(&mut bytes, non_owned);
        put(&mut bytes, self.loss);
        checked_file::end(bytes)
    }

    fn decode(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let mut content = KIND.open(file, bytes)?;
        let decoded = match content.version {
            VERSION_BEFORE => Self::decode_before(&mut content.reader),
            VERSION_OF_HASHES => {
                Self::decode_content(&mut content.reader, |_hash| Epoch::default())
            }
            _ => Self::decode_content(&mut content.reader, Epoch::new),
        };
        content.finish(decoded)
    }

    fn decode_content(reader: &mut ByteReader<'_>, epoch: fn(u64) -> Epoch) -> Option<Self> {
        let record = StoreRecord {
            closed: timestamp(reader)?,
            gc_threshold: timestamp(reader)?,
            token: Token::decode(reader)?,
            epoch: epoch(reader.u64()?),
            may_raise: match reader.array()? {
                [0] => false,
                [1] => true,
                _ => return None,
            },
            answered: shown(reader, epoch)?,
            answered_to: Token::decode(reader)?,
            non_owned: shown(reader, epoch)?,
        };
        let loss = reader.u64()?;
        Some(Self { record, loss })
    }

    /// Reads what a release with other sessions has written.
    fn decode_before(reader: &mut ByteReader<'_>) -> Option<Self> {
        let (closed, gc_threshold) = (timestamp(reader)?, timestamp(reader)?);
        let _known_again = timestamp(reader)?;
        let unsure_below = timestamp(reader)?;
        let non_owned = shown(reader, |_hash| Epoch::default())?;
        let _not_used = timestamp(reader)?;
        let answered = timestamp(reader)?.max(gc_threshold);
        let answered = if unsure_below > Timestamp::ZERO {
            ShownBelow::default()
        } else {
            ShownBelow {
                below: answered,
                epoch: non_owned.epoch,
            }
        };
        let record = StoreRecord {
            closed,
            gc_threshold,
            answered,
            non_owned,
            ..StoreRecord::default()
        };
        Some(Self { record, loss: 0 })
    }
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_shown(bytes: &mut Vec<u8>, shown: ShownBelow) {
    put(bytes, shown.below.as_u64());
    put(bytes, shown.epoch.as_u64());
}

fn timestamp(reader: &mut ByteReader<'_>) -> Option<Timestamp> {
    reader.u64().map(Timestamp::from_u64)
}

fn shown(reader: &mut ByteReader<'_>, epoch: fn(u64) -> Epoch) -> Option<ShownBelow> {
    Some(ShownBelow {
        below: timestamp(reader)?,
        epoch: epoch(reader.u64()?),
    })
}

/// Decodes any bytes as the file `TOMBSTONE_GC`, and once more with a checksum that matches.
pub fn fuzz_store_file(bytes: &[u8]) {
    let decode = |bytes: &[u8]| StoreFile::decode(Path::new(FILE), bytes).ok();
    checked_file::fuzz(bytes, decode, StoreFile::encode);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsm::checked_file::fuzz_mutations_of;
    use lsm_testing::MemoryDisk;

    const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/tombstone-gc-v6.bin");
    const FIXTURE_V5: &[u8] = include_bytes!("../../tests/fixtures/tombstone-gc-v5.bin");
    const FIXTURE_V4: &[u8] = include_bytes!("../../tests/fixtures/tombstone-gc-v4.bin");

    const fn at(number: u64) -> Timestamp {
        Timestamp::from_u64(number)
    }

    fn file() -> StoreFile {
        StoreFile {
            record: StoreRecord {
                closed: at(9),
                gc_threshold: at(5),
                token: Token {
                    session: 0x11,
                    attempt: 2,
                },
                epoch: Epoch::new(0x1234),
                may_raise: true,
                answered: ShownBelow {
                    below: at(7),
                    epoch: Epoch::new(0x1235),
                },
                answered_to: Token {
                    session: 0x10,
                    attempt: 1,
                },
                non_owned: ShownBelow {
                    below: at(4),
                    epoch: Epoch::new(0x1236),
                },
            },
            loss: 0x77,
        }
    }

    #[test]
    fn the_decoder_survives_mutations_of_a_valid_file() {
        for fixture in [FIXTURE, FIXTURE_V5, FIXTURE_V4] {
            fuzz_mutations_of(fixture, fuzz_store_file);
        }
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let disk = MemoryDisk::new();
        let folder = Path::new("store");
        disk.create_folder(folder).unwrap();
        let load = |disk: &MemoryDisk| StoreFile::load(disk, folder).unwrap();
        assert_eq!(load(&disk), StoreFile::default());
        file().store(&disk, folder).unwrap();
        assert_eq!(load(&disk), file());
        // A build before the present name has gone on from there.
        let last = StoreFile {
            loss: 0x78,
            ..file()
        };
        replace_file(&disk, folder, OLD_FILE, &last.encode()).unwrap();
        assert_eq!(load(&disk), last);
        let crashed = disk.clone_synced();
        assert!(!crashed.list(folder).unwrap().contains(&OLD_FILE.to_owned()));
        assert_eq!(load(&crashed), last);
    }

    #[test]
    fn a_restored_store_begins_with_the_threshold_of_its_backup_and_never_goes_back_to_it() {
        let (disk, folder) = (MemoryDisk::new(), Path::new("store"));
        disk.create_folder(folder).unwrap();
        let load = |at| StoreFile::load_restored(&disk, folder, at).unwrap().record;
        assert_eq!(load(Timestamp::ZERO), StoreRecord::default());
        let begun = load(at(5));
        assert_eq!((begun.closed, begun.gc_threshold), (at(5), at(5)));
        assert_eq!(begun.answered.below, at(5));
        assert_eq!(
            StoreFile::load(&disk.clone_synced(), folder)
                .unwrap()
                .record,
            begun
        );
        file().store(&disk, folder).unwrap();
        assert_eq!(load(at(6)), file().record);
    }

    #[test]
    fn the_format_is_as_drawn() {
        let fields: [&[u8]; 17] = [
            b"kvorumfg",
            b"\x06\x00\x00\x00",
            b"\x09\x00\x00\x00\x00\x00\x00\x00",
            b"\x05\x00\x00\x00\x00\x00\x00\x00",
            b"\x11\x00\x00\x00\x00\x00\x00\x00",
            b"\x02\x00\x00\x00",
            b"\x34\x12\x00\x00\x00\x00\x00\x00",
            b"\x01",
            b"\x07\x00\x00\x00\x00\x00\x00\x00",
            b"\x35\x12\x00\x00\x00\x00\x00\x00",
            b"\x10\x00\x00\x00\x00\x00\x00\x00",
            b"\x01\x00\x00\x00",
            b"\x04\x00\x00\x00\x00\x00\x00\x00",
            b"\x36\x12\x00\x00\x00\x00\x00\x00",
            b"\x77\x00\x00\x00\x00\x00\x00\x00",
            &[],
            &[],
        ];
        let bytes = checked_file::end(fields.concat());
        assert_eq!(file().encode(), bytes);
        assert!(bytes == FIXTURE);
        assert_eq!(StoreFile::decode(Path::new(FILE), &bytes).unwrap(), file());
    }

    #[test]
    fn a_file_with_hashes_of_the_members_is_of_the_first_epoch() {
        let mut expected = file();
        let record = &mut expected.record;
        for epoch in [
            &mut record.epoch,
            &mut record.answered.epoch,
            &mut record.non_owned.epoch,
        ] {
            *epoch = Epoch::default();
        }
        let decoded = StoreFile::decode(Path::new(FILE), FIXTURE_V5).unwrap();
        assert_eq!(decoded, expected);
    }

    #[test]
    fn a_file_of_other_sessions_has_answered_for_its_threshold_and_for_what_it_was_asked() {
        // Closed 9, GC threshold 5, greatest 7, unsure below 6, non-owned 4 of 0x1234, answered 3.
        let unsure = StoreFile::decode(Path::new(FILE), FIXTURE_V4).unwrap();
        let record = StoreRecord {
            closed: at(9),
            gc_threshold: at(5),
            non_owned: ShownBelow {
                below: at(4),
                epoch: Epoch::default(),
            },
            ..StoreRecord::default()
        };
        assert_eq!(unsure, StoreFile { record, loss: 0 });
        let decode_sure = |answered: u8| {
            let mut bytes = FIXTURE_V4[..FIXTURE_V4.len() - 4].to_vec();
            bytes[36] = 0;
            let last = bytes.len() - 8;
            bytes[last] = answered;
            let decoded = StoreFile::decode(Path::new(FILE), &checked_file::end(bytes));
            decoded.unwrap().record.answered
        };
        let epoch = Epoch::default();
        for (answered, below) in [(3, at(5)), (8, at(8))] {
            assert_eq!(decode_sure(answered), ShownBelow { below, epoch });
        }
    }

    #[test]
    fn no_damage_is_taken_for_a_file() {
        let bytes = file().encode();
        let decode = |bytes: &[u8]| StoreFile::decode(Path::new(FILE), bytes);
        assert_eq!(decode(&bytes).unwrap(), file());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 4;
            assert!(decode(&damaged).is_err(), "{index}");
        }
    }

    #[test]
    fn a_file_of_another_release_is_not_taken_for_a_damaged_one() {
        for version in [3, 7] {
            let mut bytes = file().encode();
            bytes[8] = version;
            bytes.truncate(bytes.len() - 4);
            let bytes = checked_file::end(bytes);
            let error = StoreFile::decode(Path::new(FILE), &bytes).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
    }
}
