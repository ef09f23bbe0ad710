//! The file `TIMESTAMP_BOUND`: the node has issued no timestamp above the timestamp in it.
//!
//! The file has two slots, which are written in turn and in place. The valid slot
//! with the greater sequence number counts:
//!
//! ```text
//! file = slot | zeros to 4096 bytes | slot | zeros to 4096 bytes
//! slot = magic [u8; 8] | version u32 | sequence u64 | timestamp bound u64
//!      | crc32c u32 of the rest
//! ```
//!
//! Integers are little endian. The file never grows, so the timestamp bound can be raised on a full
//! disk, where deletes still need timestamps. Each slot has its own page. If a write is cut short,
//! the other slot is intact and holds the previous timestamp bound, above which no timestamp has
//! been issued yet. Magic, version and checksum stay where they are in every version of the format.

use base::{ByteReader, Timestamp};
use lsm::disk::{rename_old_file, replace_file};
use lsm::{Disk, DiskFile, Error};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE: &str = "TIMESTAMP_BOUND";

/// The name of the same file in folders of builds before this name.
const OLD_FILE: &str = "CEILING";
const MAGIC: [u8; 8] = *b"kvorumts";
const VERSION: u32 = 1;
/// The versions of the format of `TIMESTAMP_BOUND` that this release reads; it writes the last one.
pub const TIMESTAMP_BOUND_VERSIONS: RangeInclusive<u32> = VERSION..=VERSION;

/// A crash keeps or loses a page as a whole.
const PAGE_BYTES: usize = 4096;
const SLOTS: usize = 2;
const SLOT_BYTES: usize = 32;
const FILE_BYTES: usize = SLOTS * PAGE_BYTES;
const CHECKSUM_BYTES: usize = 4;

/// What to do about a damaged file. An older copy of it would have timestamps given again.
const REMEDY: &str = "check the disk and the clock, then move the file away and start again";

/// The open file.
pub(super) struct TimestampBoundFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    /// The slot to write next, which is not the one that counts.
    slot: usize,
    /// The sequence number of the slot that counts.
    sequence: u64,
}

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    sequence: u64,
    bound: Timestamp,
}

impl TimestampBoundFile {
    /// Opens the file in `folder` and returns it with the timestamp bound that it holds. If
    /// there is no file, creates one with [`Timestamp::ZERO`]. Blocks.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if no node wrote the file like this, [`Error::Invalid`] if
    /// this release does not know its format version, and errors of the disk.
    pub(super) fn open(disk: &dyn Disk, folder: &Path) -> Result<(Self, Timestamp), Error> {
        let path = folder.join(FILE);
        let file = match disk.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // To begin at zero beside a file of the old name would give timestamps again.
                if !rename_old_file(disk, folder, OLD_FILE, FILE)? {
                    replace_file(disk, folder, FILE, &new_file())?;
                }
                disk.open(&path)
            }
            opened => opened,
        };
        let file = file.map_err(|error| Error::io("open", &path, error))?;
        let length = file
            .len()
            .map_err(|error| Error::io("read the length of", &path, error))?;
        if length != FILE_BYTES as u64 {
            return Err(corrupt(
                &path,
                length,
                &format!("the file has the wrong length; {REMEDY}"),
            ));
        }
        let mut bytes = [0; FILE_BYTES];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|error| Error::io("read", &path, error))?;
        let (index, slot) = decode(&path, &bytes)?;
        let opened = Self {
            file,
            path,
            slot: (index + 1) % SLOTS,
            sequence: slot.sequence,
        };
        Ok((opened, slot.bound))
    }

    /// Makes `timestamp_bound` the durable timestamp bound. Blocks.
    ///
    /// # Errors
    /// Errors of the disk. Either timestamp bound may be durable then. The caller may try
    /// again: that writes the whole slot again, so a later successful sync covers it.
    pub(super) fn set(&mut self, bound: Timestamp) -> Result<(), Error> {
        let sequence = self.sequence.wrapping_add(1);
        let bytes = encode(Slot { sequence, bound });
        self.file
            .write_all_at(&bytes, (self.slot * PAGE_BYTES) as u64)
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.file
            .sync()
            .map_err(|error| Error::sync(&self.path, error))?;
        self.sequence = sequence;
        self.slot = (self.slot + 1) % SLOTS;
        Ok(())
    }
}

/// The bytes of a new file, whose first slot counts.
fn new_file() -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    for sequence in [1, 0] {
        let at = (1 - sequence) * PAGE_BYTES;
        let slot = Slot {
            sequence: sequence as u64,
            bound: Timestamp::ZERO,
        };
        bytes[at..at + SLOT_BYTES].copy_from_slice(&encode(slot));
    }
    bytes
}

fn encode(slot: Slot) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&slot.sequence.to_le_bytes());
    bytes[20..28].copy_from_slice(&slot.bound.as_u64().to_le_bytes());
    let checksum = base::crc32c(&bytes[..SLOT_BYTES - CHECKSUM_BYTES]);
    bytes[SLOT_BYTES - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The index of the slot that counts, and its content. `path` names the file in errors.
fn decode(path: &Path, bytes: &[u8]) -> Result<(usize, Slot), Error> {
    let mut newest: Option<(usize, Slot)> = None;
    let mut is_damaged = false;
    for index in 0..SLOTS {
        match decode_slot(path, bytes.get(index * PAGE_BYTES..).unwrap_or_default())? {
            Some(slot) => {
                let order = |slot: Slot| (slot.sequence, slot.bound);
                if newest.is_none_or(|(_, newest)| order(newest) < order(slot)) {
                    newest = Some((index, slot));
                }
            }
            None => is_damaged = true,
        }
    }
    let newest =
        newest.ok_or_else(|| corrupt(path, 0, &format!("neither slot is valid; {REMEDY}")))?;
    if is_damaged {
        // A crash in the middle of a write leaves such a slot.
        tracing::warn!(
            file = %path.display(),
            bound = %newest.1.bound,
            "one of the two slots of the timestamp bound is damaged, as after a crash during a write: the other one counts"
        );
    }
    Ok(newest)
}

/// Decodes the slot at the front of `bytes`; `None` if it is damaged.
fn decode_slot(path: &Path, bytes: &[u8]) -> Result<Option<Slot>, Error> {
    let Some((bytes, _)) = bytes.split_first_chunk::<SLOT_BYTES>() else {
        return Ok(None);
    };
    let (content, _) = bytes.split_at(SLOT_BYTES - CHECKSUM_BYTES);
    let mut reader = ByteReader::new(bytes);
    let fields = (
        reader.array(),
        reader.u32(),
        reader.u64(),
        reader.u64(),
        reader.u32(),
    );
    let (Some(magic), Some(version), Some(sequence), Some(bound), Some(checksum)) = fields else {
        return Ok(None);
    };
    if magic != MAGIC || checksum != base::crc32c(content) {
        return Ok(None);
    }
    if version != VERSION {
        return Err(Error::Invalid(format!(
            "{} has format version {version}; this release reads version {VERSION}",
            path.display()
        )));
    }
    Ok(Some(Slot {
        sequence,
        bound: Timestamp::from_u64(bound),
    }))
}

fn corrupt(path: &Path, offset: u64, what: &str) -> Error {
    Error::Corrupt {
        file: Arc::from(path),
        offset,
        what: Arc::from(what),
    }
}

/// Decodes any bytes as a file, and once more with checksums that match.
pub fn fuzz_timestamp_bound(bytes: &[u8]) {
    let path = Path::new("TIMESTAMP_BOUND");
    let _ = decode(path, bytes);
    let mut bytes = bytes.to_vec();
    for slot in bytes.chunks_mut(PAGE_BYTES) {
        let Some((slot, _)) = slot.split_first_chunk_mut::<SLOT_BYTES>() else {
            continue;
        };
        let (content, checksum) = slot.split_at_mut(SLOT_BYTES - CHECKSUM_BYTES);
        checksum.copy_from_slice(&base::crc32c(content).to_le_bytes());
    }
    if let Ok((index, slot)) = decode(path, &bytes) {
        let at = index * PAGE_BYTES;
        assert_eq!(bytes.get(at..at + SLOT_BYTES), Some(&encode(slot)[..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsm_testing::{Call, Fault, FaultyDisk, MemoryDisk};

    const FOLDER: &str = "/store";

    fn at(number: u64) -> Timestamp {
        Timestamp::from_u64(number)
    }

    fn disk() -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_folder(Path::new(FOLDER)).unwrap();
        disk
    }

    fn open(disk: &dyn Disk) -> (TimestampBoundFile, Timestamp) {
        TimestampBoundFile::open(disk, Path::new(FOLDER)).unwrap()
    }

    fn path() -> PathBuf {
        Path::new(FOLDER).join(FILE)
    }

    #[test]
    fn the_format_is_that_of_version_1() {
        let fixture = include_bytes!("../../tests/fixtures/timestamp-bound-v1");
        let disk = disk();
        let (mut file, found) = open(&disk);
        assert_eq!(found, Timestamp::ZERO);
        for bound in [5, 0x0102_0304_0506_0708] {
            file.set(at(bound)).unwrap();
        }
        let mut bytes = vec![0; FILE_BYTES];
        file.file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, fixture);
        let slot = Slot {
            sequence: 3,
            bound: at(0x0102_0304_0506_0708),
        };
        assert_eq!(decode(&path(), fixture).unwrap(), (0, slot));
    }

    #[test]
    fn the_file_of_a_build_before_its_present_name_counts() {
        let disk = disk();
        open(&disk).0.set(at(7)).unwrap();
        let old = Path::new(FOLDER).join(OLD_FILE);
        disk.rename(&path(), &old).unwrap();
        disk.sync_folder(Path::new(FOLDER)).unwrap();
        assert_eq!(open(&disk).1, at(7));
        assert_eq!(open(&disk.clone_synced()).1, at(7));
        assert!(disk.open(&old).is_err());
    }

    #[test]
    fn the_last_bound_is_found() {
        let disk = disk();
        for bound in [7, 9, 8, 12, 3] {
            let (mut file, _) = open(&disk);
            file.set(at(bound)).unwrap();
            assert_eq!(open(&disk.clone_synced()).1, at(bound));
        }
    }

    #[test]
    fn a_crash_leaves_the_bound_before_or_the_new_one() {
        for call in 0.. {
            let memory = Arc::new(disk());
            let disk = FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>);
            let (mut file, _) = open(&disk);
            file.set(at(10)).unwrap();
            file.set(at(20)).unwrap();
            disk.arm(
                Fault::at(call, io::ErrorKind::Other)
                    .lasting()
                    .with_short_writes(),
            );
            let set = file.set(at(30)).is_ok();
            for survives in [false, true] {
                let found = open(&memory.crash_clone(&mut |_| survives)).1;
                let may_be = if set {
                    vec![at(30)]
                } else {
                    vec![at(20), at(30)]
                };
                assert!(may_be.contains(&found), "{found} at call {call}");
            }
            // The timestamp bound was not used; the caller tries again.
            disk.heal();
            file.set(at(40)).unwrap();
            assert_eq!(open(&memory.clone_synced()).1, at(40));
            if set {
                return;
            }
        }
    }

    #[test]
    fn the_bound_is_raised_on_a_full_disk() {
        let disk = disk();
        let (mut file, _) = open(&disk);
        disk.set_capacity(0);
        file.set(at(10)).unwrap();
        file.set(at(20)).unwrap();
        assert_eq!(open(&disk.clone_synced()).1, at(20));
    }

    #[test]
    fn each_bound_is_synced() {
        let memory: Arc<dyn Disk> = Arc::new(disk());
        let disk = FaultyDisk::new(memory);
        let (mut file, _) = open(&disk);
        disk.arm(Fault::at(0, io::ErrorKind::Other).only(|call, _| call == Call::Sync));
        assert!(matches!(file.set(at(10)), Err(Error::Sync { .. })));
    }

    #[test]
    fn with_one_damaged_slot_the_other_counts_and_two_are_an_error() {
        let disk = disk();
        let (mut file, _) = open(&disk);
        file.set(at(10)).unwrap();
        file.set(at(20)).unwrap();
        drop(file);
        for (slot, left) in [(0, at(10)), (1, at(20))] {
            for byte in 0..SLOT_BYTES {
                let offset = (slot * PAGE_BYTES + byte) as u64;
                disk.corrupt(&path(), offset, 0x41).unwrap();
                assert_eq!(open(&disk).1, left, "{offset}");
                disk.corrupt(&path(), offset, 0x41).unwrap();
            }
        }
        disk.corrupt(&path(), 3, 1).unwrap();
        disk.corrupt(&path(), PAGE_BYTES as u64 + 30, 1).unwrap();
        let error = TimestampBoundFile::open(&disk, Path::new(FOLDER)).err();
        assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
    }

    #[test]
    fn a_file_of_another_length_or_version_is_refused() {
        let disk = disk();
        drop(open(&disk));
        let file = disk.open(&path()).unwrap();
        let mut slot = encode(Slot {
            sequence: 9,
            bound: at(1),
        });
        slot[8] = 2;
        let checksum = base::crc32c(&slot[..28]);
        slot[28..].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&slot, 0).unwrap();
        let error = TimestampBoundFile::open(&disk, Path::new(FOLDER))
            .err()
            .unwrap();
        assert!(error.to_string().contains("version 2"), "{error}");
        for length in [0, 31, 4096, 9000] {
            file.set_len(length).unwrap();
            let error = TimestampBoundFile::open(&disk, Path::new(FOLDER)).err();
            assert!(matches!(error, Some(Error::Corrupt { .. })), "{length}");
        }
    }

    #[test]
    fn the_decoder_survives_mutations_of_a_valid_file() {
        let fixture = include_bytes!("../../tests/fixtures/timestamp-bound-v1");
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..3_000 {
            let mut bytes = fixture.to_vec();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..2) * PAGE_BYTES + random.usize(0..SLOT_BYTES);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.u8(..);
                }
                if random.u8(0..8) == 0 {
                    bytes.truncate(random.usize(0..=bytes.len()));
                }
            }
            fuzz_timestamp_bound(&bytes);
        }
    }
}
