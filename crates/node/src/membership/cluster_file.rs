//! The file `CLUSTER`: which node of which cluster a data folder belongs to.
//!
//! It is small, so every change writes it whole, by way of `CLUSTER.tmp`: a
//! crash leaves the old or the new one, so any damage is corruption. Room for
//! the next change is set aside with each, in `CLUSTER.tmp`: on a full disk a
//! node must still be able to start, and to meet peers that have. Integers are
//! in little endian:
//!
//! ```text
//! file       = magic [u8; 8] | version u32 | store id u64 | standing u8
//!            | flags u8, 1 outdated | own name | start count u16 | start u64*
//!            | node count u8 | node*                     | crc32c u32 of the rest
//! node       = name | flags u8 | store id u64, start u64, if remembered
//! flags      = 1 remembered | 2 unaware
//! name       = bytes u16 | UTF-8
//! ```
//!
//! The starts are the last ones of the store, the latest at the end; the
//! standings are numbered as in hellos. The nodes are all of the cluster, this
//! one too, ascending by name; those that are unaware have yet to hear that an
//! operator has accepted this store. Magic, version and checksum keep their
//! places in every version, so that a damaged file and one of a newer version
//! can be told apart.

use base::ByteReader;
use cluster::{Remembered, STARTS_MAX, Standing};
use lsm::disk::{read_small_file, temporary_name};
use lsm::{Disk, DiskFile, Error};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

const FILE: &str = "CLUSTER";
const MAGIC: [u8; 8] = *b"kvorumcl";
const VERSION: u32 = 3;
const CHECKSUM_BYTES: usize = 4;

/// The longest file that is read, in bytes: several times what the most nodes
/// with the longest names take.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The next file may be so much longer than this one, in bytes: by a start, and
/// by what is remembered of every node.
const SPARE_BYTES: u64 = 8 << 10;

const FLAG_OUTDATED: u8 = 1;

const FLAG_REMEMBERED: u8 = 1;
const FLAG_UNAWARE: u8 = 2;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterFile {
    /// The name of the node whose folder this is.
    pub(crate) own_name: String,
    /// The id of the store that `standing` and `starts` are about.
    pub(crate) store_id: u64,
    /// How that store stood with its peers.
    pub(crate) standing: Standing,
    /// Whether a peer took it for an older state of a store, or a copy.
    pub(crate) is_outdated: bool,
    /// The numbers of its starts, the latest at the end; [`STARTS_MAX`] at most.
    pub(crate) starts: Vec<u64>,
    /// All nodes of the cluster by name.
    pub(crate) nodes: BTreeMap<String, StoredNode>,
}

/// What the file holds of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredNode {
    /// What is remembered of it.
    pub(crate) remembered: Option<Remembered>,
    /// Whether it has yet to hear that this node's store was accepted.
    pub(crate) is_unaware: bool,
}

impl ClusterFile {
    /// The file's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.push(self.standing as u8);
        bytes.push(if self.is_outdated { FLAG_OUTDATED } else { 0 });
        encode_name(&self.own_name, &mut bytes);
        // There are at most so many of both, and names are shorter than 64 KiB.
        bytes.extend_from_slice(&(self.starts.len() as u16).to_le_bytes());
        for start in &self.starts {
            bytes.extend_from_slice(&start.to_le_bytes());
        }
        bytes.push(self.nodes.len() as u8);
        for (name, node) in &self.nodes {
            encode_name(name, &mut bytes);
            let unaware = if node.is_unaware { FLAG_UNAWARE } else { 0 };
            bytes.push(match node.remembered {
                Some(_) => FLAG_REMEMBERED | unaware,
                None => unaware,
            });
            if let Some(Remembered { store_id, start }) = node.remembered {
                bytes.extend_from_slice(&store_id.to_le_bytes());
                bytes.extend_from_slice(&start.to_le_bytes());
            }
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the file's bytes; `file` only names them in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that no node wrote, [`Error::Invalid`] for
    /// a format version that this code does not know.
    pub(crate) fn decode(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let corrupt = |offset: usize, what: &str| Error::Corrupt {
            file: Arc::from(file),
            offset: offset as u64,
            what: Arc::from(what),
        };
        let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(corrupt(0, "the file is too short"));
        };
        let mut reader = ByteReader::new(content);
        if reader.array() != Some(MAGIC) {
            return Err(corrupt(0, "no such file begins like this"));
        }
        if u32::from_le_bytes(*checksum) != crc32c::crc32c(content) {
            return Err(corrupt(
                content.len(),
                "the checksum is not that of the bytes",
            ));
        }
        let version = reader.u32();
        if version != Some(VERSION) {
            let version = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(Error::Invalid(format!(
                "{} has format version {version}; this release reads version {VERSION}",
                file.display()
            )));
        }
        let decoded = Self::decode_content(&mut reader);
        let offset = content.len() - reader.rest().len();
        match decoded {
            Some(decoded) if reader.rest().is_empty() => Ok(decoded),
            _ => Err(corrupt(offset, "no node writes this")),
        }
    }

    fn decode_content(reader: &mut ByteReader<'_>) -> Option<Self> {
        let store_id = reader.u64()?;
        let [standing, flags] = reader.array()?;
        if standing > Standing::Unfilled as u8 || flags & !FLAG_OUTDATED != 0 {
            return None;
        }
        let own_name = decode_name(reader)?;
        let start_count = usize::from(reader.u16()?);
        if start_count > STARTS_MAX {
            return None;
        }
        let starts = (0..start_count).map(|_| reader.u64());
        let starts = starts.collect::<Option<Vec<_>>>()?;
        let count = reader.u8()?;
        let mut nodes = BTreeMap::new();
        for _ in 0..count {
            let name = decode_name(reader)?;
            let is_next = nodes.last_key_value().is_none_or(|(last, _)| *last < name);
            let flags = reader.u8()?;
            if !is_next || flags & !(FLAG_REMEMBERED | FLAG_UNAWARE) != 0 {
                return None;
            }
            let remembered = if flags & FLAG_REMEMBERED == 0 {
                None
            } else {
                let (store_id, start) = (reader.u64()?, reader.u64()?);
                Some(Remembered { store_id, start })
            };
            let is_unaware = flags & FLAG_UNAWARE != 0;
            nodes.insert(
                name,
                StoredNode {
                    remembered,
                    is_unaware,
                },
            );
        }
        nodes.contains_key(&own_name).then_some(Self {
            own_name,
            store_id,
            standing: Standing::from_code(standing),
            is_outdated: flags & FLAG_OUTDATED != 0,
            starts,
            nodes,
        })
    }

    /// The file in `folder`; `None` when there is none.
    ///
    /// # Errors
    /// As [`ClusterFile::decode`], and [`Error::Io`].
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let bytes = read_small_file(disk, &path, FILE_BYTES_MAX)?;
        bytes.map(|bytes| Self::decode(&path, &bytes)).transpose()
    }

    /// Puts this file in the place of the one in `folder`, durably.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`] and [`Error::Sync`]: the one before
    /// is in force, or this one, now or after a crash.
    pub(crate) fn store(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        let (path, spare) = (folder.join(FILE), folder.join(temporary_name(FILE)));
        let bytes = self.encode();
        let file = open_or_create(disk, &spare)?;
        // In place: what is written over needs no room. The rest is cut off.
        file.write_all_at(&bytes, 0)
            .and_then(|()| file.set_len(bytes.len() as u64))
            .map_err(|error| Error::io("write", &spare, error))?;
        file.sync().map_err(|error| Error::sync(&spare, error))?;
        disk.rename(&spare, &path)
            .map_err(|error| Error::io("rename", &spare, error))?;
        disk.sync_folder(folder)
            .map_err(|error| Error::sync(folder, error))?;
        // The file before leaves as much room. Where that was taken by others
        // at once, the next change may find none, and is tried again.
        let room = bytes.len() as u64 + SPARE_BYTES;
        let _is_set_aside =
            open_or_create(disk, &spare).is_ok_and(|spare| spare.allocate(0, room).is_ok());
        Ok(())
    }
}

fn open_or_create(disk: &dyn Disk, path: &Path) -> Result<Arc<dyn DiskFile>, Error> {
    let opened = match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(path),
        opened => opened,
    };
    opened.map_err(|error| Error::io("create", path, error))
}

fn encode_name(name: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
}

fn decode_name(reader: &mut ByteReader<'_>) -> Option<String> {
    let bytes = reader.u16()?;
    let name = reader.bytes(usize::from(bytes))?;
    String::from_utf8(name.to_vec()).ok()
}
