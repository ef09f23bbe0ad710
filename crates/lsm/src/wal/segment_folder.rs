//! Segments of logs that the engine's owner keeps beside the store.
//!
//! An owner may keep entries that do not belong to its store: a node keeps the
//! writes that another node missed. Their segments have the format of the
//! write-ahead log, with its checksums and its handling of torn tails. But each
//! segment stands alone: numbers may have gaps, and segments may be removed in any
//! order.
//!
//! A folder may hold the segments of several logs. Each log has a secret, and the
//! tag in a segment's header says which log it belongs to
//! ([`SegmentFile::owner`]). So no other file has to list the segments of a log.

use super::segment_reader::{read_segment, read_segment_header};
use super::{
    SegmentPlace, SegmentWriter, remove_segment, segment_file_name, segment_of_file_name,
    segment_tag,
};
use crate::disk::{Disk, read_file};
use crate::error::Error;
use base::Entry;
use std::path::PathBuf;
use std::sync::Arc;

/// A folder of segments.
pub struct SegmentFolder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl SegmentFolder {
    /// The folder at `path`, which is created durably if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::DiskFull`].
    pub fn open(disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self, Error> {
        disk.create_folder(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        Ok(Self { disk, path })
    }

    /// The numbers of the folder's segments, ascending. Other files are ignored.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn segments(&self) -> Result<Vec<u64>, Error> {
        let names = self
            .disk
            .list(&self.path)
            .map_err(|error| Error::io("list", &self.path, error))?;
        let mut segments: Vec<u64> = names
            .iter()
            .filter_map(|name| segment_of_file_name(name))
            .collect();
        segments.sort_unstable();
        Ok(segments)
    }

    /// Creates a segment of the log with this secret, durably. Its space grows with
    /// each write.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`]; the file is removed
    /// again if possible.
    pub fn create(&self, segment: u64, secret: u64) -> Result<SegmentWriter, Error> {
        let place = SegmentPlace {
            disk: &*self.disk,
            folder: &self.path,
            secret,
            segment,
        };
        SegmentWriter::create(place, 0)
    }

    /// Reads the file of a segment.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self, segment: u64) -> Result<SegmentFile, Error> {
        let path = self.path.join(segment_file_name(segment));
        let bytes = read_file(&*self.disk, &path)?;
        Ok(SegmentFile {
            segment,
            path,
            bytes,
        })
    }

    /// Removes a segment. It may come back after a crash.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, segment: u64) -> Result<(), Error> {
        remove_segment(&*self.disk, &self.path, segment)
    }

    /// How many bytes can still be written to the file system; an estimate.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn available_bytes(&self) -> Result<u64, Error> {
        self.disk
            .available_bytes(&self.path)
            .map_err(|error| Error::io("read the free space of", &self.path, error))
    }
}

/// The log that a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOwner {
    /// The log whose secret has this index among the given ones.
    Log(usize),
    /// None of the logs with the given secrets.
    Other,
    /// Unknown, because the file's header is not whole: creating the file was
    /// interrupted, or it is damaged.
    Unknown,
}

/// The bytes of a segment's file.
pub struct SegmentFile {
    segment: u64,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl SegmentFile {
    /// The length of the file, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Which of the logs with these secrets the segment belongs to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a format of another version.
    pub fn owner(&self, secrets: &[u64]) -> Result<SegmentOwner, Error> {
        for (index, secret) in secrets.iter().enumerate() {
            let tag = segment_tag(*secret, self.segment);
            match read_segment_header(&self.bytes, tag, &self.path) {
                Ok(Some(_)) => return Ok(SegmentOwner::Log(index)),
                Ok(None) => return Ok(SegmentOwner::Unknown),
                Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(SegmentOwner::Other)
    }

    /// The entries of the segment's whole groups, in the order in which they were
    /// written, without a torn tail.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if bytes that were synced are damaged, or if the segment
    /// belongs to another log; [`Error::Invalid`] for a format of another version.
    pub fn entries(&self, secret: u64) -> Result<Vec<Entry>, Error> {
        read_segment(&self.bytes, secret, self.segment, &self.path).map(|segment| segment.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryDisk;
    use base::{Expiry, Timestamp};

    fn put(key: &str) -> Entry {
        let timestamp = Timestamp::from_u64(1);
        Entry::value(key.as_bytes(), timestamp, b"v", Expiry::NEVER, 3)
    }

    #[test]
    fn segments_of_several_logs_are_distinguished_and_read_back() {
        let disk = Arc::new(MemoryDisk::new());
        let folder = SegmentFolder::open(disk, "/logs".into()).unwrap();
        let mut first = folder.create(1, 10).unwrap();
        first.append(&[put("a"), put("b")]).unwrap();
        assert_eq!(first.append(&[]).unwrap(), 0);
        first.append(&[put("c")]).unwrap();
        let sync = first.pending_sync().unwrap();
        sync.run().unwrap();
        first.synced(&sync);
        assert!(first.pending_sync().is_none());
        let mut second = folder.create(5, 20).unwrap();
        second.append(&[put("d")]).unwrap();
        second.seal().unwrap();

        assert_eq!(folder.segments().unwrap(), [1, 5]);
        let file = folder.read(1).unwrap();
        assert_eq!(file.owner(&[20, 10]).unwrap(), SegmentOwner::Log(1));
        assert_eq!(file.owner(&[20, 30]).unwrap(), SegmentOwner::Other);
        assert_eq!(file.entries(10).unwrap(), [put("a"), put("b"), put("c")]);
        assert!(matches!(file.entries(20), Err(Error::Corrupt { .. })));
        assert_eq!(file.bytes(), first.allocated_bytes());
        let file = folder.read(5).unwrap();
        assert_eq!(file.owner(&[20, 10]).unwrap(), SegmentOwner::Log(0));
        assert_eq!(file.entries(20).unwrap(), [put("d")]);

        folder.remove(1).unwrap();
        assert_eq!(folder.segments().unwrap(), [5]);
    }

    #[test]
    fn an_entry_past_the_limits_is_refused_and_the_next_is_written() {
        let folder = SegmentFolder::open(Arc::new(MemoryDisk::new()), "/logs".into()).unwrap();
        let mut writer = folder.create(1, 10).unwrap();
        // The length of this key would wrap to 1.
        for key in [vec![b'k'; (1 << 16) + 1], vec![b'k'; 4097], Vec::new()] {
            let entry = Entry::value(&key, Timestamp::from_u64(1), b"v", Expiry::NEVER, 3);
            let refused = writer.append(&[put("a"), entry]);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        }
        writer.append(&[put("b")]).unwrap();
        assert_eq!(folder.read(1).unwrap().entries(10).unwrap(), [put("b")]);
    }

    #[test]
    fn a_segment_without_a_whole_header_has_an_unknown_owner() {
        let disk = Arc::new(MemoryDisk::new());
        let folder =
            SegmentFolder::open(Arc::clone(&disk) as Arc<dyn Disk>, "/logs".into()).unwrap();
        disk.create(&folder.path.join(segment_file_name(3)))
            .unwrap();
        let file = folder.read(3).unwrap();
        assert_eq!(file.owner(&[1]).unwrap(), SegmentOwner::Unknown);
        assert!(file.entries(1).unwrap().is_empty());
    }
}
