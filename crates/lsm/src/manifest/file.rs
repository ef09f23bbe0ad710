//! The file of the manifest: a snapshot and edits.

use super::edit::ManifestEdit;
use super::frame::{self, Found};
use super::snapshot::Manifest;
use super::table::LiveTable;
use crate::error::Error;
use base::ByteReader;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

pub(super) const MAGIC: [u8; 8] = *b"kvormani";
const VERSION: u32 = 5;
/// The version of a manifest that names blob tables.
const VERSION_WITH_BLOBS: u32 = 6;
/// The versions of the format of `MANIFEST` that this release reads. It writes the last one while
/// there are blob tables, and the one before otherwise.
pub const MANIFEST_VERSIONS: RangeInclusive<u32> = VERSION..=VERSION_WITH_BLOBS;
/// The magic and the version.
pub(super) const HEAD_BYTES: usize = 12;

/// A manifest that was decoded from a file.
pub(super) struct Decoded {
    pub(super) manifest: Manifest,
    /// The place of the last edit in the file.
    pub(super) last_edit: Option<Range<usize>>,
}

impl Manifest {
    /// Encodes a file without edits.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_snapshot().0
    }

    /// Encodes a file without edits, and gives the checksum of its snapshot.
    pub(super) fn encode_snapshot(&self) -> (Vec<u8>, u32) {
        let version = if self.tables.values().any(LiveTable::is_blob) {
            VERSION_WITH_BLOBS
        } else {
            VERSION
        };
        let mut bytes = [&MAGIC[..], &version.to_le_bytes()].concat();
        let seed = base::crc32c(&bytes);
        let checksum = frame::put(&mut bytes, 0, seed, &self.put_snapshot());
        (bytes, checksum)
    }

    /// Decodes the file's bytes; `file` names the file in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that no store wrote, [`Error::Invalid`] for an
    /// unknown version of the format.
    pub(crate) fn decode(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        Self::decode_log(file, bytes).map(|decoded| decoded.manifest)
    }

    pub(super) fn decode_log(file: &Path, bytes: &[u8]) -> Result<Decoded, Error> {
        let corrupt = |offset: usize, what: &str| Error::corrupt(file, offset as u64, what);
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
            let what = format!("a manifest of {} bytes", bytes.len());
            return Err(corrupt(0, &what));
        };
        if !head.starts_with(&MAGIC) {
            let what = "the file does not begin as a manifest does";
            return Err(corrupt(0, what));
        }
        let snapshot = frame::read(bytes, HEAD_BYTES, base::crc32c(head));
        let version = ByteReader::new(&head[MAGIC.len()..]).u32().unwrap_or(0);
        if !MANIFEST_VERSIONS.contains(&version) && (snapshot.is_some() || has_old_checksum(bytes))
        {
            return Err(Error::Invalid(format!(
                "{} has format version {version}; this release reads versions {VERSION} and \
                 {VERSION_WITH_BLOBS}",
                file.display()
            )));
        }
        let Some(snapshot) = snapshot else {
            let what = "the checksum of the manifest's snapshot does not match its bytes";
            return Err(corrupt(HEAD_BYTES, what));
        };
        let mut manifest = Self::take_snapshot(&bytes[snapshot.payload.clone()])
            .map_err(|what| corrupt(HEAD_BYTES, &what))?;
        let (mut at, mut last_edit) = (snapshot.end(), None);
        loop {
            let edit = match frame::find(bytes, at, snapshot.checksum) {
                Found::Frame(edit) => edit,
                Found::Nothing => break,
                Found::Torn => {
                    tracing::warn!(
                        file = %file.display(),
                        offset = at,
                        "dropped an edit of the manifest that a crash cut off"
                    );
                    break;
                }
                Found::Damaged => {
                    let what = "an edit of the manifest is damaged";
                    return Err(corrupt(at, what));
                }
            };
            let decoded = ManifestEdit::decode(&bytes[edit.payload.clone()]);
            let decoded =
                decoded.ok_or_else(|| corrupt(at, "an edit of the manifest is malformed"))?;
            decoded
                .check(&manifest)
                .map_err(|what| corrupt(at, &what))?;
            decoded.apply(&mut manifest);
            at = edit.end();
            last_edit = Some(edit.place());
        }
        Ok(Decoded {
            manifest,
            last_edit,
        })
    }
}

/// Whether a file ends as those of versions before 5 do.
fn has_old_checksum(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk::<4>()
        .is_some_and(|(content, checksum)| base::crc32c(content) == u32::from_le_bytes(*checksum))
}
