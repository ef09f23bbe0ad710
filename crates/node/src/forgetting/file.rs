//! The file `FORGET`: the fence of the store, and its forget bound.
//!
//! A fence that is forgotten would let something in behind a pass, and a forget bound
//! that is forgotten would have this node ask for what the others have dropped. So a
//! file that cannot be read ends the start. The file is small: each change replaces it.
//! Integers are little-endian:
//!
//! ```text
//! file = magic [u8; 8] | version u32 | fence u64 | forgotten u64 | heard u64
//!      | receives below u64 | crc32c u32 of the rest
//! ```

use crate::checked_file::{self, FileKind};
use base::{ByteReader, Timestamp};
use cluster::Standing;
use cluster::forgetting::Bounds;
use lsm::disk::{read_small_file, replace_file};
use lsm::{Disk, Error};
use std::path::Path;

const FILE: &str = "FORGET";
const KIND: FileKind = FileKind {
    name: FILE,
    magic: *b"kvorumfg",
    versions: 1..=1,
};
/// The longest file that is read: several times the size.
const FILE_BYTES_MAX: u64 = 4 << 10;

/// What the file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForgetFile {
    /// The fence and the forget bound of this store.
    pub(crate) bounds: Bounds,
    /// The greatest forget bound that this node has heard of.
    pub(crate) heard: Timestamp,
    /// Below it the store only receives, because it lacked something and was not compared
    /// with all others since; [`Timestamp::ZERO`] if it was.
    pub(crate) receives_below: Timestamp,
}

impl ForgetFile {
    /// Whether the store is from before the fence of the pass that `greatest` rests on, the
    /// greatest forget bound that its node has heard of. Such a store keeps its fence until it
    /// is filled, so that a restart finds it out again.
    pub(super) fn is_from_before_fence(&self, greatest: Timestamp) -> bool {
        self.bounds.is_receiver(Standing::Witness, greatest)
    }

    /// Below which timestamp the store refuses ordinary writes: below its fence, and while it
    /// is from before the fence of the others, below their forget bound, too. What is late
    /// would come in by it.
    pub(super) fn refuses_below(&self, greatest: Timestamp) -> Timestamp {
        match self.is_from_before_fence(greatest) {
            true => greatest,
            false => self.bounds.fence,
        }
    }

    /// Loads the file in `folder`; all is zero if there is none.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`] for bytes that no node wrote, and
    /// [`Error::Invalid`] for a format version that this code does not know.
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let bytes = read_small_file(disk, &path, FILE_BYTES_MAX)?;
        bytes.map_or(Ok(Self::default()), |bytes| Self::decode(&path, &bytes))
    }

    /// The same, if its fence or its forget bounds are from the future: with a fence of at
    /// most `fence_max`, and forget bounds of at most `forgotten_max`.
    #[must_use]
    pub(super) fn at_most(self, fence_max: Timestamp, forgotten_max: Timestamp) -> Self {
        let greatest = self.heard.max(self.bounds.forgotten).max(self.bounds.fence);
        if greatest <= fence_max {
            return self;
        }
        Self {
            bounds: Bounds {
                fence: self.bounds.fence.min(fence_max),
                forgotten: self.bounds.forgotten.min(forgotten_max),
            },
            heard: self.heard.min(forgotten_max),
            receives_below: self.receives_below.min(forgotten_max),
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
            self.heard,
            self.receives_below,
        ] {
            bytes.extend_from_slice(&timestamp.as_u64().to_le_bytes());
        }
        checked_file::end(bytes)
    }

    fn decode(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let mut content = KIND.open(file, bytes)?;
        let decoded = Self::decode_content(&mut content.reader);
        content.finish(decoded)
    }

    fn decode_content(reader: &mut ByteReader<'_>) -> Option<Self> {
        let mut timestamp = || reader.u64().map(Timestamp::from_u64);
        Some(Self {
            bounds: Bounds {
                fence: timestamp()?,
                forgotten: timestamp()?,
            },
            heard: timestamp()?,
            receives_below: timestamp()?,
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
    use crate::checked_file::fuzz_mutations_of;
    use lsm::MemoryDisk;

    const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/forget-v1.bin");

    #[test]
    fn the_decoder_survives_mutations_of_a_valid_file() {
        fuzz_mutations_of(FIXTURE, fuzz_forget);
    }

    fn file() -> ForgetFile {
        ForgetFile {
            bounds: Bounds {
                fence: Timestamp::from_u64(9),
                forgotten: Timestamp::from_u64(5),
            },
            heard: Timestamp::from_u64(7),
            receives_below: Timestamp::from_u64(6),
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
        let fields: [&[u8]; 7] = [
            b"kvorumfg",
            b"\x01\x00\x00\x00",
            b"\x09\x00\x00\x00\x00\x00\x00\x00",
            b"\x05\x00\x00\x00\x00\x00\x00\x00",
            b"\x07\x00\x00\x00\x00\x00\x00\x00",
            b"\x06\x00\x00\x00\x00\x00\x00\x00",
            b"\x86\x14\xa5\x8d",
        ];
        let bytes = fields.concat();
        assert_eq!(file().encode(), bytes);
        assert!(bytes == FIXTURE);
        assert_eq!(ForgetFile::decode(Path::new(FILE), &bytes).unwrap(), file());
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
        bytes[8] = 2;
        bytes.truncate(bytes.len() - 4);
        let bytes = checked_file::end(bytes);
        let error = ForgetFile::decode(Path::new(FILE), &bytes).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
}
