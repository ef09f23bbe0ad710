//! The file `CLUSTER`: which node of which cluster a data folder belongs to.
//!
//! The file is small, so each change replaces all of it ([`replace_file`]). A crash leaves either
//! the old or the new file, so any damage is corruption. A change needs no free space, because a
//! node must be able to start and to meet restarted peers on a full disk. Integers are
//! little-endian:
//!
//! ```text
//! file       = magic [u8; 8] | version u32 | store id u64 | replica state u8 | file flags u8
//!            | last loss u64 | taken over u64 | created u64 | boot id u128, if known
//!            | own name | start count u16 | start u64*
//!            | node count u8 | node*
//!            | list flags u8 | list, if known | acceptor | crc32c u32 of the rest
//! file flags = 1 outdated | 2 boot id known | 4 commits are synced | 8 closed
//! node       = name | node flags u8
//!            | store id u64, start u64, acknowledged u64, if remembered
//!            | acknowledged u64, if full session | single copies u64, if known
//!            | start count u16, start u64*, if starts known
//! node flags = 1 remembered | 2 unaware | 4 full session | 8 single copies known
//!            | 16 starts known
//! list flags = 1 list known | 2 votes may be lost
//! name       = bytes u16 | UTF-8
//! ```
//!
//! The list of members and the acceptor are drawn in `cluster/src/layout/list.rs` and `paxos.rs`. Until
//! the list has changed for the first time, the nodes are those that the node is started with.
//! Version 5 has neither.
//!
//! `created` is when the store was created, in milliseconds since the Unix epoch, or 0 if unknown.
//! Version 4 has neither that nor the starts of other nodes. Version 3 ends the first line with the
//! flag `outdated`, has nothing in the second and third one but the name and the starts, and of a
//! remembered node only the id and the start. It is read as the file of a run that was closed.
//!
//! The starts are the most recent ones of the store, in order; the present one is the last. The
//! replica states have the same codes as in hellos. The nodes are all nodes of the cluster, with
//! this one, in ascending order of their names. An unaware node does not know yet that an operator
//! has accepted this store. Magic, version and checksum keep their positions in every version, so
//! that a newer file is not mistaken for a damaged one.

use base::{BootId, ByteReader};
use cluster::layout::MemberList;
use cluster::layout::paxos::Acceptor;
use cluster::{PEER_STARTS_MAX, Remembered, ReplicaState, STARTS_MAX};
use lsm::checked_file::{self, FileKind};
use lsm::disk::{read_small_file, replace_file};
use lsm::{Disk, Error};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

const FILE: &str = "CLUSTER";
const KIND: FileKind = FileKind {
    name: FILE,
    magic: *b"kvorumcl",
    versions: CLUSTER_VERSIONS,
};
/// The versions of the format of `CLUSTER` that this release reads; it writes the last one.
pub const CLUSTER_VERSIONS: RangeInclusive<u32> = VERSION_WITHOUT_COUNTS..=6;
const VERSION_WITHOUT_COUNTS: u32 = 3;
const VERSION_WITHOUT_STARTS: u32 = 4;
const VERSION_WITHOUT_LISTS: u32 = 5;

/// The longest file that is read, in bytes: several times the size for the most
/// nodes with the longest names.
const FILE_BYTES_MAX: u64 = 1 << 20;

const FLAG_OUTDATED: u8 = 1;
const FLAG_BOOT_ID: u8 = 2;
const FLAG_SYNCED: u8 = 4;
const FLAG_CLOSED: u8 = 8;

const FLAG_REMEMBERED: u8 = 1;
const FLAG_UNAWARE: u8 = 2;
const FLAG_FULL_SESSION: u8 = 4;
const FLAG_SINGLE_COPIES: u8 = 8;
const FLAG_STARTS: u8 = 16;

const FLAG_LIST: u8 = 1;
const FLAG_VOTES_LOST: u8 = 2;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterFile {
    /// The name of the node whose folder this is.
    pub(crate) own_name: String,
    /// The id of the store to which `replica_state` and `starts` belong.
    pub(crate) store_id: u64,
    /// How that store stands with its peers.
    pub(crate) replica_state: ReplicaState,
    /// Whether a peer takes it for an older state of a store, or a copy.
    pub(crate) is_outdated: bool,
    /// See [`cluster::comparison::Incarnation::last_loss`].
    pub(crate) last_loss: u64,
    /// The acknowledged writes of lost states of the store, which were taken over when
    /// it was rebuilt. They are added to its own count.
    pub(crate) taken_over: u64,
    /// When the store was created, in milliseconds since the Unix epoch; `None` if a release
    /// created it that did not note that.
    pub(crate) created_unix_ms: Option<u64>,
    /// The run that wrote the file.
    pub(crate) run: Run,
    /// The numbers of its last starts, at most [`STARTS_MAX`]; the latest is the last.
    pub(crate) starts: Vec<u64>,
    /// All nodes of the cluster by name.
    pub(crate) nodes: BTreeMap<String, StoredNode>,
    /// The list of members, and the votes on the next one.
    pub(crate) lists: StoredLists,
}

/// What the file holds of the list of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredLists {
    /// The list; `None` until the nodes of a new cluster have met.
    pub(crate) list: Option<Arc<MemberList>>,
    /// What the node has promised and accepted for the next list.
    pub(crate) acceptor: Acceptor,
    /// Whether it may have promised and accepted more than that, and does not vote.
    pub(crate) lacks_votes: bool,
}

impl StoredLists {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let known = flag(self.list.is_some(), FLAG_LIST);
        bytes.push(known | flag(self.lacks_votes, FLAG_VOTES_LOST));
        if let Some(list) = &self.list {
            list.encode(bytes);
        }
        self.acceptor.encode(bytes);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        let flags = reader.u8()?;
        if flags & !(FLAG_LIST | FLAG_VOTES_LOST) != 0 {
            return None;
        }
        let list = match flags & FLAG_LIST {
            0 => None,
            _ => Some(Arc::new(MemberList::decode(reader)?)),
        };
        Some(Self {
            list,
            acceptor: Acceptor::decode(reader)?,
            lacks_votes: flags & FLAG_VOTES_LOST != 0,
        })
    }
}

/// A run of the node, from the opening of its store to the end of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The boot of the machine; `None` where it cannot be read.
    pub(crate) boot_id: Option<BootId>,
    /// Whether each commit is synced before it is acknowledged.
    pub(crate) syncs_commits: bool,
    /// Whether the store was closed, so that all of it is durable.
    pub(crate) is_closed: bool,
}

/// What the file holds of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredNode {
    /// What is remembered of it.
    pub(crate) remembered: Option<Remembered>,
    /// The last starts that the remembered store includes, at most [`PEER_STARTS_MAX`]; the
    /// remembered one is the last. Empty if only that is known.
    pub(crate) starts: Vec<u64>,
    /// Whether it has yet to learn that an operator has accepted this node's store.
    pub(crate) is_unaware: bool,
    /// What it had acknowledged when the last full session began that brought this node all that it
    /// had.
    pub(crate) at_full_session: Option<u64>,
    /// The versions of which it was to keep the only copy, as of that session.
    pub(crate) single_copies: Option<u64>,
}

impl ClusterFile {
    /// The file's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = KIND.begin();
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.push(self.replica_state as u8);
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        bytes.push(
            flag(self.is_outdated, FLAG_OUTDATED)
                | flag(self.run.boot_id.is_some(), FLAG_BOOT_ID)
                | flag(self.run.syncs_commits, FLAG_SYNCED)
                | flag(self.run.is_closed, FLAG_CLOSED),
        );
        bytes.extend_from_slice(&self.last_loss.to_le_bytes());
        bytes.extend_from_slice(&self.taken_over.to_le_bytes());
        bytes.extend_from_slice(&self.created_unix_ms.unwrap_or(0).to_le_bytes());
        if let Some(BootId(number)) = self.run.boot_id {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        encode_name(&self.own_name, &mut bytes);
        // The numbers of starts and nodes fit, and names are shorter than 64 KiB.
        encode_starts(&self.starts, &mut bytes);
        bytes.push(self.nodes.len() as u8);
        for (name, node) in &self.nodes {
            encode_name(name, &mut bytes);
            bytes.push(
                flag(node.remembered.is_some(), FLAG_REMEMBERED)
                    | flag(node.is_unaware, FLAG_UNAWARE)
                    | flag(node.at_full_session.is_some(), FLAG_FULL_SESSION)
                    | flag(node.single_copies.is_some(), FLAG_SINGLE_COPIES)
                    | flag(!node.starts.is_empty(), FLAG_STARTS),
            );
            let known = node.remembered.map(|known| {
                let Remembered {
                    store_id,
                    start,
                    acknowledged,
                } = known;
                [store_id, start, acknowledged]
            });
            let counts = [node.at_full_session, node.single_copies];
            let numbers = known.into_iter().flatten();
            for number in numbers.chain(counts.into_iter().flatten()) {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            if !node.starts.is_empty() {
                encode_starts(&node.starts, &mut bytes);
            }
        }
        self.lists.encode(&mut bytes);
        checked_file::end(bytes)
    }

    /// Decodes the file's bytes; errors name `file`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that no node wrote, [`Error::Invalid`] for
    /// a format version that this code does not know.
    pub(crate) fn decode(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let mut content = KIND.open(file, bytes)?;
        let decoded = Self::decode_content(&mut content.reader, content.version);
        content.finish(decoded)
    }

    fn decode_content(reader: &mut ByteReader<'_>, version: u32) -> Option<Self> {
        let has_counts = version > VERSION_WITHOUT_COUNTS;
        let has_starts = version > VERSION_WITHOUT_STARTS;
        let store_id = reader.u64()?;
        let [replica_state, flags] = reader.array()?;
        let known_flags = if has_counts {
            FLAG_OUTDATED | FLAG_BOOT_ID | FLAG_SYNCED | FLAG_CLOSED
        } else {
            FLAG_OUTDATED
        };
        if replica_state > ReplicaState::Learner as u8 || flags & !known_flags != 0 {
            return None;
        }
        let (last_loss, taken_over) = if has_counts {
            (reader.u64()?, reader.u64()?)
        } else {
            (0, 0)
        };
        let created_unix_ms = if has_starts {
            Some(reader.u64()?).filter(|ms| *ms > 0)
        } else {
            None
        };
        let boot_id = match flags & FLAG_BOOT_ID {
            0 => None,
            _ => Some(BootId(u128::from_le_bytes(reader.array()?))),
        };
        let run = Run {
            boot_id,
            syncs_commits: flags & FLAG_SYNCED != 0,
            is_closed: flags & FLAG_CLOSED != 0 || !has_counts,
        };
        let own_name = decode_name(reader)?;
        let starts = decode_starts(reader, STARTS_MAX)?;
        let count = reader.u8()?;
        let mut nodes = BTreeMap::new();
        for _ in 0..count {
            let name = decode_name(reader)?;
            let is_next = nodes.last_key_value().is_none_or(|(last, _)| *last < name);
            let flags = reader.u8()?;
            let mut known_flags = FLAG_REMEMBERED | FLAG_UNAWARE;
            if has_counts {
                known_flags |= FLAG_FULL_SESSION | FLAG_SINGLE_COPIES;
            }
            if has_starts {
                known_flags |= FLAG_STARTS;
            }
            if !is_next || flags & !known_flags != 0 {
                return None;
            }
            let remembered = match flags & FLAG_REMEMBERED {
                0 => None,
                _ => Some(Remembered {
                    store_id: reader.u64()?,
                    start: reader.u64()?,
                    acknowledged: if has_counts { reader.u64()? } else { 0 },
                }),
            };
            let mut count_if = |flag| match flags & flag {
                0 => Some(None),
                _ => reader.u64().map(Some),
            };
            let (at_full_session, single_copies) =
                (count_if(FLAG_FULL_SESSION)?, count_if(FLAG_SINGLE_COPIES)?);
            let starts = match flags & FLAG_STARTS {
                0 => Vec::new(),
                // None would have no flag.
                _ => decode_starts(reader, PEER_STARTS_MAX).filter(|it| !it.is_empty())?,
            };
            let node = StoredNode {
                remembered,
                starts,
                is_unaware: flags & FLAG_UNAWARE != 0,
                at_full_session,
                single_copies,
            };
            nodes.insert(name, node);
        }
        let lists = if version > VERSION_WITHOUT_LISTS {
            StoredLists::decode(reader)?
        } else {
            StoredLists::default()
        };
        nodes.contains_key(&own_name).then_some(Self {
            own_name,
            store_id,
            replica_state: ReplicaState::from_code(replica_state),
            is_outdated: flags & FLAG_OUTDATED != 0,
            last_loss,
            taken_over,
            created_unix_ms,
            run,
            starts,
            nodes,
            lists,
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
        replace_file(disk, folder, FILE, &self.encode())
    }
}

/// Decodes any bytes as the file `CLUSTER`, and once more with a checksum that matches.
pub fn fuzz_cluster(bytes: &[u8]) {
    let decode = |bytes: &[u8]| ClusterFile::decode(Path::new(FILE), bytes).ok();
    checked_file::fuzz(bytes, decode, ClusterFile::encode);
}

fn encode_starts(starts: &[u64], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(starts.len() as u16).to_le_bytes());
    for start in starts {
        bytes.extend_from_slice(&start.to_le_bytes());
    }
}

/// `None` if there are more starts than a node keeps.
fn decode_starts(reader: &mut ByteReader<'_>, count_max: usize) -> Option<Vec<u64>> {
    let count = usize::from(reader.u16()?);
    if count > count_max {
        return None;
    }
    (0..count).map(|_| reader.u64()).collect()
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
