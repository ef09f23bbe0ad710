//! The file `CLUSTER`: which node of which cluster a data folder belongs to.
//!
//! The file is small, so each change writes all of it to `CLUSTER.tmp` and renames
//! that. A crash leaves either the old or the new file, so any damage is
//! corruption. After each change, `CLUSTER.tmp` reserves room for the next one,
//! because a node must be able to start and to meet restarted peers on a full
//! disk. Integers are little-endian:
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
//! The starts are the most recent ones of the store, in order; the present one is the
//! last. The standings have the same codes as in hellos. The nodes are all nodes of
//! the cluster, with this one, in ascending order of their names. An unaware node has
//! yet to learn that an operator has accepted this store. Magic, version and checksum
//! keep their positions in every version, so that a newer file is not taken for a
//! damaged one.

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

/// The longest file that is read, in bytes: several times the size for the most
/// nodes with the longest names.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How much longer the next file can be than this one, in bytes: by a start, and by
/// what is remembered of every node.
const SPARE_BYTES: u64 = 8 << 10;

const FLAG_OUTDATED: u8 = 1;

const FLAG_REMEMBERED: u8 = 1;
const FLAG_UNAWARE: u8 = 2;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterFile {
    /// The name of the node whose folder this is.
    pub(crate) own_name: String,
    /// The id of the store to which `standing` and `starts` belong.
    pub(crate) store_id: u64,
    /// How that store stands with its peers.
    pub(crate) standing: Standing,
    /// Whether a peer takes it for an older state of a store, or a copy.
    pub(crate) is_outdated: bool,
    /// The numbers of its last starts, at most [`STARTS_MAX`]; the latest is the last.
    pub(crate) starts: Vec<u64>,
    /// All nodes of the cluster by name.
    pub(crate) nodes: BTreeMap<String, StoredNode>,
}

/// What the file holds of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredNode {
    /// What is remembered of it.
    pub(crate) remembered: Option<Remembered>,
    /// Whether it has yet to learn that an operator has accepted this node's store.
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
        // The numbers of starts and nodes fit, and names are shorter than 64 KiB.
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

    /// Decodes the file's bytes; errors name `file`.
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
            return Err(corrupt(
                0,
                "the file begins with other bytes than a CLUSTER file",
            ));
        }
        if u32::from_le_bytes(*checksum) != crc32c::crc32c(content) {
            return Err(corrupt(
                content.len(),
                "the checksum does not match the bytes",
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
            _ => Err(corrupt(offset, "no node writes these bytes")),
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

    /// Loads the file in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// As [`ClusterFile::decode`], and [`Error::Io`].
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let bytes = read_small_file(disk, &path, FILE_BYTES_MAX)?;
        bytes.map(|bytes| Self::decode(&path, &bytes)).transpose()
    }

    /// Replaces the file in `folder` by this one, durably.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`] and [`Error::Sync`]: the folder has either
    /// the previous file or this one, now and after a crash.
    pub(crate) fn store(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        let (path, spare) = (folder.join(FILE), folder.join(temporary_name(FILE)));
        let bytes = self.encode();
        let file = open_or_create(disk, &spare)?;
        // Written over the reserved bytes, which needs no further room; the rest is
        // cut off.
        file.write_all_at(&bytes, 0)
            .and_then(|()| file.set_len(bytes.len() as u64))
            .map_err(|error| Error::io("write", &spare, error))?;
        file.sync().map_err(|error| Error::sync(&spare, error))?;
        disk.rename(&spare, &path)
            .map_err(|error| Error::io("rename", &spare, error))?;
        disk.sync_folder(folder)
            .map_err(|error| Error::sync(folder, error))?;
        // The previous file has just released its room. If something else takes that
        // room first, the next change may fail, and is tried again.
        let room = bytes.len() as u64 + SPARE_BYTES;
        let _is_reserved =
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
