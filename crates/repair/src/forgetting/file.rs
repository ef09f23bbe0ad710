//! The file `FORGET`: the fence of the store, and its forget bound.
//!
//! A fence that is forgotten would let something in behind a pass, and a forget bound
//! that is forgotten would have this node ask for what the others have dropped. So a
//! file that cannot be read ends the start. The file is small: each change replaces it.
//! Integers are little-endian:
//!
//! ```text
//! file = magic [u8; 8] | version u32 | fence u64 | forgotten u64 | greatest u64
//!      | receives below u64 | surplus below u64 | members hash u64 | disturbed u64
//!      | sealed u64 | crc32c u32 of the rest
//! ```
//!
//! Version 3 ends before "sealed", version 2 before "disturbed", and version 1 before the bound
//! for surplus copies. What a file does not have is read as zero.

use base::{ByteReader, Timestamp};
use cluster::ReplicaState;
use cluster::forgetting::Bounds;
use lsm::checked_file::{self, FileKind};
use lsm::disk::{read_small_file, replace_file};
use lsm::{Disk, Error};
use replica::SharedBounds;
use std::ops::RangeInclusive;
use std::path::Path;

const FILE: &str = "FORGET";
/// The version before the bound for surplus copies.
const VERSION_WITHOUT_SURPLUS: u32 = 1;
/// The version before the fence that was disturbed.
const VERSION_WITHOUT_DISTURBED: u32 = 2;
/// The version before stores were sealed.
const VERSION_WITHOUT_SEALED: u32 = 3;
/// The versions of the format of `FORGET` that this release reads; it writes the last one.
pub const FORGET_VERSIONS: RangeInclusive<u32> = VERSION_WITHOUT_SURPLUS..=4;
const KIND: FileKind = FileKind {
    name: FILE,
    magic: *b"kvorumfg",
    versions: FORGET_VERSIONS,
};
/// The longest file that is read: several times the size.
const FILE_BYTES_MAX: u64 = 4 << 10;

/// What the file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgetFile {
    /// The fence and the forget bound of this store.
    pub bounds: Bounds,
    /// The greatest forget bound that this node has heard of.
    pub greatest: Timestamp,
    /// Below it the store only receives, because it lacked something and was not compared
    /// with all others since; [`Timestamp::ZERO`] if it was.
    pub receives_below: Timestamp,
    /// Which surplus copies may be dropped.
    pub surplus: SurplusBound,
    /// The fence when a version from before it last came in behind the scan of a pass. A pass of
    /// this fence or a lower one that goes on after a restart must not raise the forget bound,
    /// because it does not meet that version.
    pub disturbed: Timestamp,
    /// The greatest fence of a pass whose driver has asked for the last time whether the store is
    /// as it was when it was fenced. That pass may have raised the forget bound to it, whether
    /// this node ever hears of that from the driver or not.
    pub sealed: Timestamp,
}

/// What a pass in which the store took part has shown of surplus copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurplusBound {
    /// Below it the replicas of all versions have them, or newer ones. No greater than the
    /// forget bound.
    pub(super) below: Timestamp,
    /// The [hash](cluster::Members::names_hash) of the list of nodes that says which nodes
    /// these are.
    pub(super) members_hash: u64,
}

impl SurplusBound {
    /// The bound, in a cluster with this list of nodes. Under another list the replicas are
    /// other ones, so it says nothing.
    pub(super) fn with(self, members_hash: u64) -> Timestamp {
        if self.members_hash == members_hash {
            self.below
        } else {
            Timestamp::ZERO
        }
    }
}

impl ForgetFile {
    /// Publishes what is durable to requests and compaction, in a cluster whose list of nodes
    /// has this hash.
    pub(super) fn publish(&self, shared: &SharedBounds, members_hash: u64) {
        let surplus_below = self.surplus.with(members_hash);
        shared.set(self.bounds, self.receives_below, surplus_below);
    }

    /// Whether the store is from before the fence of the pass that `greatest` rests on, the
    /// greatest forget bound that its node has heard of. Such a store keeps its fence until it
    /// is filled, so that a restart finds it out again.
    pub(super) fn is_from_before_fence(&self, greatest: Timestamp) -> bool {
        self.bounds.is_receiver(ReplicaState::Voter, greatest)
    }

    /// Below which timestamp the store refuses ordinary writes: below its fence, and while it
    /// is from before the fence of the others, below their forget bound, too. What is late
    /// would come in by it.
    pub(super) fn refuses_below(&self, greatest: Timestamp) -> Timestamp {
        if self.is_from_before_fence(greatest) {
            greatest
        } else {
            self.bounds.fence
        }
    }

    /// Loads the file in `folder`; all is zero if there is none.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`] for bytes that no node wrote, and
    /// [`Error::Invalid`] for a format version that this code does not know.
    pub fn load(disk: &dyn Disk, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let bytes = read_small_file(disk, &path, FILE_BYTES_MAX)?;
        bytes.map_or(Ok(Self::default()), |bytes| Self::decode(&path, &bytes))
    }

    /// The same, if its fence or its forget bounds are from the future: with a fence of at
    /// most `fence_max`, and forget bounds of at most `forgotten_max`.
    #[must_use]
    pub(super) fn at_most(self, fence_max: Timestamp, forgotten_max: Timestamp) -> Self {
        let greatest = self
            .greatest
            .max(self.bounds.forgotten)
            .max(self.bounds.fence);
        if greatest <= fence_max {
            return self;
        }
        Self {
            bounds: Bounds {
                fence: self.bounds.fence.min(fence_max),
                forgotten: self.bounds.forgotten.min(forgotten_max),
            },
            greatest: self.greatest.min(forgotten_max),
            receives_below: self.receives_below.min(forgotten_max),
            surplus: SurplusBound {
                below: self.surplus.below.min(forgotten_max),
                ..self.surplus
            },
            disturbed: self.disturbed.min(fence_max),
            sealed: self.sealed.min(fence_max),
        }
    }

    /// The same, once an old version has come in behind a scan.
    #[must_use]
    pub(super) fn with_disturbed_fence(self) -> Self {
        Self {
            disturbed: self.disturbed.max(self.bounds.fence),
            ..self
        }
    }

    /// The same, once the driver of a pass with this fence has asked for the last time.
    #[must_use]
    pub(super) fn with_sealed(self, fence: Timestamp) -> Self {
        Self {
            sealed: self.sealed.max(fence),
            ..self
        }
    }

    /// The same, once a pass in which the store took part has shown an F with this list of
    /// nodes: surplus copies may go below the own F, as far as that was shown.
    #[must_use]
    pub(super) fn with_shown(self, shown: Timestamp, members_hash: u64) -> Self {
        let below = shown.min(self.bounds.forgotten);
        if below > self.surplus.with(members_hash) {
            Self {
                surplus: SurplusBound {
                    below,
                    members_hash,
                },
                ..self
            }
        } else {
            self
        }
    }

    /// Replaces the file in `folder`, durably.
    ///
    /// # Errors
    /// See [`replace_file`]: the folder has either the previous file or this one.
    pub(super) fn store(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        replace_file(disk, folder, FILE, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = KIND.begin();
        for timestamp in [
            self.bounds.fence,
            self.bounds.forgotten,
            self.greatest,
            self.receives_below,
            self.surplus.below,
        ] {
            bytes.extend_from_slice(&timestamp.as_u64().to_le_bytes());
        }
        bytes.extend_from_slice(&self.surplus.members_hash.to_le_bytes());
        for timestamp in [self.disturbed, self.sealed] {
            bytes.extend_from_slice(&timestamp.as_u64().to_le_bytes());
        }
        checked_file::end(bytes)
    }

    fn decode(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let mut content = KIND.open(file, bytes)?;
        let decoded = Self::decode_content(content.version, &mut content.reader);
        content.finish(decoded)
    }

    fn decode_content(version: u32, reader: &mut ByteReader<'_>) -> Option<Self> {
        let mut timestamp = || reader.u64().map(Timestamp::from_u64);
        let before = Self {
            bounds: Bounds {
                fence: timestamp()?,
                forgotten: timestamp()?,
            },
            greatest: timestamp()?,
            receives_below: timestamp()?,
            surplus: SurplusBound::default(),
            disturbed: Timestamp::ZERO,
            sealed: Timestamp::ZERO,
        };
        if version == VERSION_WITHOUT_SURPLUS {
            return Some(before);
        }
        let with_surplus = Self {
            surplus: SurplusBound {
                below: timestamp()?,
                members_hash: timestamp()?.as_u64(),
            },
            ..before
        };
        if version == VERSION_WITHOUT_DISTURBED {
            return Some(with_surplus);
        }
        let with_disturbed = Self {
            disturbed: timestamp()?,
            ..with_surplus
        };
        if version == VERSION_WITHOUT_SEALED {
            return Some(with_disturbed);
        }
        Some(Self {
            sealed: timestamp()?,
            ..with_disturbed
        })
    }
}

/// Decodes any bytes as the file `FORGET`, and once more with a checksum that matches.
pub fn fuzz_forget(bytes: &[u8]) {
    let decode = |bytes: &[u8]| ForgetFile::decode(Path::new(FILE), bytes).ok();
    checked_file::fuzz(bytes, decode, ForgetFile::encode);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsm::checked_file::fuzz_mutations_of;
    use lsm_testing::MemoryDisk;

    const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/forget-v4.bin");
    const FIXTURE_V3: &[u8] = include_bytes!("../../tests/fixtures/forget-v3.bin");
    const FIXTURE_V2: &[u8] = include_bytes!("../../tests/fixtures/forget-v2.bin");
    const FIXTURE_V1: &[u8] = include_bytes!("../../tests/fixtures/forget-v1.bin");

    #[test]
    fn the_decoder_survives_mutations_of_a_valid_file() {
        for fixture in [FIXTURE, FIXTURE_V3, FIXTURE_V2, FIXTURE_V1] {
            fuzz_mutations_of(fixture, fuzz_forget);
        }
    }

    fn file() -> ForgetFile {
        ForgetFile {
            bounds: Bounds {
                fence: Timestamp::from_u64(9),
                forgotten: Timestamp::from_u64(5),
            },
            greatest: Timestamp::from_u64(7),
            receives_below: Timestamp::from_u64(6),
            surplus: SurplusBound {
                below: Timestamp::from_u64(4),
                members_hash: 0x1234,
            },
            disturbed: Timestamp::from_u64(8),
            sealed: Timestamp::from_u64(3),
        }
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let disk = MemoryDisk::new();
        let folder = Path::new("store");
        disk.create_folder(folder).unwrap();
        assert_eq!(
            ForgetFile::load(&disk, folder).unwrap(),
            ForgetFile::default()
        );
        file().store(&disk, folder).unwrap();
        assert_eq!(ForgetFile::load(&disk, folder).unwrap(), file());
    }

    #[test]
    fn the_format_is_as_drawn() {
        let fields: [&[u8]; 11] = [
            b"kvorumfg",
            b"\x04\x00\x00\x00",
            b"\x09\x00\x00\x00\x00\x00\x00\x00",
            b"\x05\x00\x00\x00\x00\x00\x00\x00",
            b"\x07\x00\x00\x00\x00\x00\x00\x00",
            b"\x06\x00\x00\x00\x00\x00\x00\x00",
            b"\x04\x00\x00\x00\x00\x00\x00\x00",
            b"\x34\x12\x00\x00\x00\x00\x00\x00",
            b"\x08\x00\x00\x00\x00\x00\x00\x00",
            b"\x03\x00\x00\x00\x00\x00\x00\x00",
            b"\x1a\x75\xe0\x15",
        ];
        let bytes = fields.concat();
        assert_eq!(file().encode(), bytes);
        assert!(bytes == FIXTURE);
        assert_eq!(ForgetFile::decode(Path::new(FILE), &bytes).unwrap(), file());
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        let decode = |bytes| ForgetFile::decode(Path::new(FILE), bytes).unwrap();
        let third = ForgetFile {
            sealed: Timestamp::ZERO,
            ..file()
        };
        assert_eq!(decode(FIXTURE_V3), third);
        let second = ForgetFile {
            disturbed: Timestamp::ZERO,
            ..third
        };
        assert_eq!(decode(FIXTURE_V2), second);
        let first = ForgetFile {
            surplus: SurplusBound::default(),
            ..second
        };
        assert_eq!(decode(FIXTURE_V1), first);
    }

    #[test]
    fn a_bound_for_surplus_says_nothing_under_another_list_of_nodes() {
        let surplus = file().surplus;
        assert_eq!(surplus.with(0x1234), surplus.below);
        assert_eq!(surplus.with(0x1235), Timestamp::ZERO);
    }

    #[test]
    fn no_damage_is_taken_for_a_file() {
        let bytes = file().encode();
        let decode = |bytes: &[u8]| ForgetFile::decode(Path::new(FILE), bytes);
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
    fn a_file_of_a_later_release_is_not_taken_for_a_damaged_one() {
        let mut bytes = file().encode();
        bytes[8] = 5;
        bytes.truncate(bytes.len() - 4);
        let bytes = checked_file::end(bytes);
        let error = ForgetFile::decode(Path::new(FILE), &bytes).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
}
