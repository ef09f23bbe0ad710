//! The frame of the small files that a node keeps beside its store: `CLUSTER`, `TOMBSTONE_GC`
//! and `REPAIR`.
//!
//! ```text
//! file = magic [u8; 8] | version u32, little-endian | content | crc32c u32 of all before
//! ```
//!
//! The magic and the version keep their places, so that a file of a later release is not taken
//! for a damaged one.

use crate::Error;
use base::{ByteReader, Random, SeededRandom};
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

const CHECKSUM_BYTES: usize = 4;

/// What says which file it is.
pub struct FileKind {
    /// Its name in the folder.
    pub name: &'static str,
    /// Its first bytes.
    pub magic: [u8; 8],
    /// The versions of its format that this release reads; it writes the last one.
    pub versions: RangeInclusive<u32>,
}

/// The version and the content of a file.
pub struct Content<'a> {
    /// One of those that this release reads.
    pub version: u32,
    /// The content.
    pub reader: ByteReader<'a>,
    file: &'a Path,
    content_end: usize,
}

impl FileKind {
    /// The begin of a file; its content follows, and then [`end`].
    pub fn begin(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend_from_slice(&self.versions.end().to_le_bytes());
        bytes
    }

    /// Reads the frame of a file; errors name `file`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that no node wrote, [`Error::Invalid`] for a version of the
    /// format that this release does not read.
    pub fn open<'a>(&self, file: &'a Path, bytes: &'a [u8]) -> Result<Content<'a>, Error> {
        let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(corrupt(file, 0, "the file is too short"));
        };
        let mut reader = ByteReader::new(content);
        if reader.array() != Some(self.magic) {
            let what = format!("the file begins with other bytes than a {} file", self.name);
            return Err(corrupt(file, 0, &what));
        }
        if u32::from_le_bytes(*checksum) != base::crc32c(content) {
            let what = "the checksum does not match the bytes";
            return Err(corrupt(file, content.len(), what));
        }
        match reader.u32() {
            Some(version) if self.versions.contains(&version) => Ok(Content {
                version,
                reader,
                file,
                content_end: content.len(),
            }),
            version => {
                let version = version.map_or("none".to_owned(), |version| version.to_string());
                Err(Error::Invalid(format!(
                    "{} has format version {version}; this release reads the versions {} to {}",
                    file.display(),
                    self.versions.start(),
                    self.versions.end(),
                )))
            }
        }
    }
}

impl Content<'_> {
    /// What was decoded, if that is all of the content.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn finish<T>(self, decoded: Option<T>) -> Result<T, Error> {
        let rest = self.reader.rest().len();
        let offset = self.content_end - rest;
        decoded
            .filter(|_| rest == 0)
            .ok_or_else(|| corrupt(self.file, offset, "no node writes these bytes"))
    }
}

/// Ends a file, of which all but the checksum is there.
pub fn end(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = base::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn corrupt(file: &Path, offset: usize, what: &str) -> Error {
    Error::Corrupt {
        file: Arc::from(file),
        offset: offset as u64,
        what: Arc::from(what),
    }
}

/// Decodes any bytes as a file, and once more with the checksum that matches. What is decoded
/// stays the same when it is written and read.
#[doc(hidden)]
pub fn fuzz<T: PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Option<T>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    let content_bytes = bytes.len().saturating_sub(CHECKSUM_BYTES);
    let repaired = end(bytes[..content_bytes].to_vec());
    for bytes in [bytes, &repaired] {
        if let Some(file) = decode(bytes) {
            assert_eq!(decode(&encode(&file)), Some(file));
        }
    }
}

/// Runs a fuzz target on mutations of a valid file.
#[doc(hidden)]
pub fn fuzz_mutations_of(valid: &[u8], target: fn(&[u8])) {
    let random = SeededRandom::new(7);
    let below = |end: usize| (random.next_u64() % end as u64) as usize;
    for _ in 0..5_000 {
        let mut bytes = valid.to_vec();
        for _ in 0..1 + below(3) {
            // The magic and the version are rarely worth it.
            let at = 8 + below(bytes.len().saturating_sub(8).max(1));
            match below(4) {
                0 => bytes.truncate(at.max(16)),
                1 => bytes.insert(at.min(bytes.len()), random.next_u64() as u8),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << below(8);
                    }
                }
            }
        }
        target(&bytes);
    }
}
