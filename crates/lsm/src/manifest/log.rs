//! The manifest as a log of edits: where it is read, appended to and replaced.

use super::edit::ManifestEdit;
use super::frame;
use super::snapshot::Manifest;
use super::table::LiveTable;
use crate::disk::{Disk, DiskFile, read_small_file, replace_file};
use crate::error::Error;
use crate::locks::sites as wait_sites;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The manifest's name in the store's folder.
pub(crate) const MANIFEST_FILE: &str = "MANIFEST";

/// The longest manifest that is read, in bytes: it has room for some million tables. A longer
/// file is not a manifest, and would only take memory.
pub(super) const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// The least room for edits behind a snapshot, in bytes. A larger snapshot has as much room as
/// it takes itself.
const ROOM_BYTES_MIN: usize = 8 << 10;

/// What the length of the file is a multiple of, so that a snapshot that is a little longer than
/// the one before needs no more space.
const BLOCK_BYTES: usize = 4 << 10;

/// The owner of the manifest and its file.
///
/// The file is replaced as a whole with room for edits behind the snapshot, and each edit is
/// appended there. What does not fit replaces the file anew. So an edit costs its own bytes and
/// those of a snapshot once in as many bytes of edits. An edit needs no space on the disk as long
/// as there is room; without space for room, each edit replaces the file.
///
/// Nothing is appended behind a frame of which it is not certain that it is there, or not: the
/// next edit replaces the file then.
pub(crate) struct ManifestLog {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    manifest: Manifest,
    /// Where the next edit goes; `None` if it has to replace the file.
    tail: Option<Tail>,
}

/// Why an edit was not made.
#[derive(Debug)]
pub(crate) struct EditError {
    /// The failure. If a sync failed, nothing says which manifest is in force.
    pub(crate) error: Error,
    /// Whether a crash before the next edit may bring the edit into force all the same. Then
    /// the files that it names have to stay.
    pub(crate) may_come: bool,
}

/// The room behind the last edit.
struct Tail {
    file: Arc<dyn DiskFile>,
    /// The checksum of the snapshot.
    seed: u32,
    /// Where the next edit begins, in bytes.
    end: u64,
    /// Where the file ends, in bytes.
    room_end: u64,
}

/// A manifest that was read.
pub(crate) struct ReadManifest {
    /// The manifest.
    pub(crate) manifest: Manifest,
    /// Whether no crash brings an older one back.
    pub(crate) is_durable: bool,
}

/// Whether a folder holds a store: whether it has a manifest.
///
/// # Errors
/// [`Error::Io`].
pub fn holds_store(disk: &dyn Disk, folder: &Path) -> Result<bool, Error> {
    let path = folder.join(MANIFEST_FILE);
    match disk.open(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("open", &path, error)),
    }
}

impl ManifestLog {
    /// The log of a manifest that is not stored yet: the first edit stores it.
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: &Path, manifest: Manifest) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            manifest,
            tail: None,
        }
    }

    /// The manifest in force.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Replaces the file by a snapshot of the manifest, durably.
    ///
    /// # Errors
    /// As [`Manifest::store`].
    pub(crate) fn store(&mut self) -> Result<(), Error> {
        self.tail = None;
        self.tail = replace(&*self.disk, &self.folder, &self.manifest)?;
        Ok(())
    }

    /// Makes an edit, durably. The tables that it adds have to be durable before, and so have
    /// their names in the folder.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`], [`Error::Sync`], and [`Error::Invalid`] for an edit
    /// that does not fit. The manifest stays as it was.
    pub(crate) fn edit(&mut self, edit: ManifestEdit) -> Result<(), EditError> {
        let not_made = |error| EditError {
            error,
            may_come: false,
        };
        edit.check(&self.manifest)
            .map_err(|what| not_made(Error::Invalid(format!("an edit of the manifest: {what}"))))?;
        let mut may_come = false;
        match self.append(&edit) {
            Ok(true) => {
                edit.apply(&mut self.manifest);
                return Ok(());
            }
            Ok(false) => {}
            Err(error) if error.is_sync() => {
                return Err(EditError {
                    error,
                    may_come: true,
                });
            }
            // All of it may have been written before the error.
            Err(_) => may_come = true,
        }
        let mut next = self.manifest.clone();
        edit.apply(&mut next);
        let tail = replace(&*self.disk, &self.folder, &next).map_err(|error| EditError {
            may_come: may_come || error.is_sync(),
            error,
        })?;
        self.manifest = next;
        self.tail = tail;
        Ok(())
    }

    /// Appends an edit. Returns whether there was room. The next edit replaces the file if this
    /// one was not appended.
    fn append(&mut self, edit: &ManifestEdit) -> Result<bool, Error> {
        let Some(mut tail) = self.tail.take() else {
            return Ok(false);
        };
        // The file is of a version that names none.
        let is_blob = |table: &LiveTable| table.is_blob();
        if edit.tables.iter().any(is_blob) && !self.manifest.tables.values().any(is_blob) {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        frame::put(&mut bytes, tail.end, tail.seed, &edit.encode());
        let end = tail.end + bytes.len() as u64;
        // One that has no name any more is lost with the process.
        if end > tail.room_end || !tail.file.has_name().unwrap_or(false) {
            return Ok(false);
        }
        let path = self.folder.join(MANIFEST_FILE);
        wait_sites::MANIFEST.time(|| write(&*tail.file, &path, &bytes, tail.end))?;
        tail.end = end;
        self.tail = Some(tail);
        Ok(true)
    }
}

impl Manifest {
    /// Makes this the store's manifest, durably. Its tables have to be durable before,
    /// and so have their names in the folder.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and [`Error::Io`]: the previous manifest stays in force.
    /// [`Error::Sync`]: after a crash either of the two may be in force.
    pub(crate) fn store(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        replace(disk, folder, self).map(drop)
    }

    /// The manifest of the store in `folder`; `None` if there is none. The caller decides
    /// what that means if the folder has other files of a store.
    ///
    /// # Errors
    /// As [`Manifest::decode`], [`Error::Io`], and [`Error::Sync`].
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<ReadManifest>, Error> {
        let path = folder.join(MANIFEST_FILE);
        let Some(bytes) = read_small_file(disk, &path, MANIFEST_BYTES_MAX)? else {
            return Ok(None);
        };
        let decoded = Self::decode_log(&path, &bytes)?;
        let is_durable = match decoded.last_edit {
            // The process may have been killed before it synced the edit, or the sync failed.
            // Then only what is written again is made durable by a sync.
            Some(edit) => {
                let file = disk
                    .open(&path)
                    .map_err(|error| Error::io("open", &path, error))?;
                match write(&*file, &path, &bytes[edit.clone()], edit.start as u64) {
                    Err(Error::DiskFull) => false,
                    written => written.map(|()| true)?,
                }
            }
            None => true,
        };
        Ok(Some(ReadManifest {
            manifest: decoded.manifest,
            is_durable,
        }))
    }
}

fn write(file: &dyn DiskFile, path: &Path, bytes: &[u8], offset: u64) -> Result<(), Error> {
    file.write_all_at(bytes, offset)
        .map_err(|error| Error::io("write", path, error))?;
    file.sync().map_err(|error| Error::sync(path, error))
}

/// Replaces the file by a snapshot. Returns the room behind it, if there is any.
fn replace(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<Option<Tail>, Error> {
    let (mut bytes, seed) = manifest.encode_snapshot();
    let end = bytes.len();
    let file_bytes = (end + end.max(ROOM_BYTES_MIN)).next_multiple_of(BLOCK_BYTES);
    bytes.resize(file_bytes, 0);
    let put = |bytes: &[u8]| {
        wait_sites::MANIFEST.time(|| replace_file(disk, folder, MANIFEST_FILE, bytes))
    };
    match put(&bytes) {
        Err(Error::DiskFull) => return put(&bytes[..end]).map(|()| None),
        stored => stored?,
    }
    // If it does not open, the next edit replaces it.
    let file = disk.open(&folder.join(MANIFEST_FILE));
    Ok(file.ok().map(|file| Tail {
        file,
        seed,
        end: end as u64,
        room_end: bytes.len() as u64,
    }))
}
