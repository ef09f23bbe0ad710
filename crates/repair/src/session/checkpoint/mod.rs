//! The file `REPAIR`: what a node remembers of repair over a restart.
//!
//! - When the last full session ended that found this node equal with all others. A node that
//!   is restarted more often than full sessions are due would otherwise never begin one.
//! - When each node was last found equal with this one, and how many versions it has
//!   that no other node has.
//! - As a coordinator: how far a full session has come.
//! - In a change of the members: with whom full sessions of the change have made this node equal.
//!
//! All of it is told again by the next session. So a file that cannot be read is begun anew,
//! and a write that fails is only reported. The file is small: each change replaces it.
//! Integers are little-endian:
//!
//! ```text
//! file       = magic [u8; 8] | version u32 | last equal full u64 | nodes u8 | node*
//!            | checkpoints u8, 0 or 1 | checkpoint*
//!            | all facts u8, 0 or 1 | facts*                  | crc32c u32 of the rest
//! node       = equal u64 | equal in a full session u64 | single copies u64
//! checkpoint = token (u64, u32) | epoch u64 | cut u64 | below u64 | stored u64 | key bytes u16 | next key
//!            | count u8 | taking part* | count u16 | unequal pair (node u8, node u8)*
//! taking part = node u8 | single copies u64
//! facts      = change u64 | store ID u64 | last loss u64 | equal with [u8; 32], a bit for each node
//! ```
//!
//! The checkpoints of versions 1 and 2 are those of another protocol, and not used. Version 3 has no
//! epochs and no facts: its sessions were all of the list that the cluster was formed with.
//!
//! Times are milliseconds since 1970; [`u64::MAX`] says that something is not known.

use base::{ByteReader, Timestamp};
use bytes::Bytes;
use cluster::comparison::{Incarnation, Pair};
use cluster::repair::{Facts, Shown, Token};
use cluster::{Epoch, NodeId, NodeSet, NodeTable};
use lsm::checked_file::{self, FileKind};
use lsm::disk::{read_small_file, rename_old_file, replace_file};
use lsm::{Disk, Error};
use profile::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const FILE: &str = "REPAIR";
/// The name of the same file in folders of builds before this name.
const OLD_FILE: &str = "SWEEP";
const KIND: FileKind = FileKind {
    name: FILE,
    magic: *b"kvorumsw",
    versions: REPAIR_VERSIONS,
};
/// The versions of the format of `REPAIR` that this release reads; it writes the last one.
pub const REPAIR_VERSIONS: RangeInclusive<u32> = 1..=4;
/// The first version whose checkpoints are used.
const VERSION_OF_TOKENS: u32 = 3;
/// The first version with epochs and facts.
const VERSION_OF_EPOCHS: u32 = 4;
/// The longest file that is read: several times the size for the most nodes, all of whose
/// pairs are unequal.
const FILE_BYTES_MAX: u64 = 1 << 20;
const UNKNOWN: u64 = u64::MAX;

/// A checkpoint that is older than this is not used: too much has changed since, so that
/// the session would show little.
const CHECKPOINT_AGE_MAX_MS: u64 = 6 * 3600 * 1000;

/// When two nodes were last found equal, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastEqual {
    /// By a session of any kind.
    pub any_unix_ms: Option<u64>,
    /// By a full session.
    pub full_unix_ms: Option<u64>,
}

/// How far a full session has come. All that it found equal is durable in the stores that
/// took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The last attempt that has begun from it, or from the beginning.
    pub(super) token: Token,
    pub(super) epoch: Epoch,
    pub(super) cut: Timestamp,
    pub(super) stored_unix_ms: u64,
    /// What is below this key has been compared.
    pub(super) next: Bytes,
    /// The nodes that took part, with the versions counted so far of which each has the only copy.
    pub(super) taking_part: BTreeMap<NodeId, u64>,
    /// What it has shown.
    pub(super) shown: Shown,
}

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RepairFile {
    pub(super) last_equal_full_unix_ms: Option<u64>,
    pub(super) last_equal: NodeTable<LastEqual>,
    pub(super) single_copies: NodeTable<u64>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) facts: Option<Facts>,
}

/// Where the file is.
pub struct CheckpointEnvironment {
    /// The data folder, which exists and is locked.
    pub folder: PathBuf,
    /// The disk.
    pub disk: Arc<dyn Disk>,
}

/// The owner of the file, and of the checkpoint in it.
pub(super) struct Checkpoints {
    environment: CheckpointEnvironment,
    state: Mutex<CheckpointState>,
    /// Held while the file is written; true once it must not be written any more.
    is_closed: Mutex<bool>,
}

struct CheckpointState {
    checkpoint: Option<Checkpoint>,
    /// Whether the checkpoint is that of a session which a restart of this node has cut
    /// short.
    is_interrupted: bool,
}

impl Checkpoints {
    /// Opens the file of a data folder, and gives what it holds. Blocks.
    pub(super) fn open(environment: CheckpointEnvironment) -> (Self, RepairFile) {
        let loaded = RepairFile::load(&environment);
        let loaded = loaded.unwrap_or_else(|why| {
            tracing::warn!(
                why,
                "the file REPAIR cannot be read and is begun anew: repairs compare more than \
                 they would have to"
            );
            RepairFile::default()
        });
        let state = CheckpointState {
            is_interrupted: loaded.checkpoint.is_some(),
            checkpoint: loaded.checkpoint.clone(),
        };
        let checkpoints = Self {
            environment,
            state: Mutex::new(state),
            is_closed: Mutex::new(false),
        };
        (checkpoints, loaded)
    }

    /// Whether a restart of this node has cut a full session short that can still go on.
    pub(super) fn is_interrupted(&self, now_unix_ms: u64) -> bool {
        let state = lock(&self.state);
        let checkpoint = state.checkpoint.as_ref();
        state.is_interrupted && checkpoint.is_some_and(|stored| stored.is_fresh(now_unix_ms))
    }

    /// The checkpoint from which the next full session can go on.
    pub(super) fn take_up(&self, now_unix_ms: u64) -> Option<Checkpoint> {
        let mut state = lock(&self.state);
        state.is_interrupted = false;
        let checkpoint = state.checkpoint.clone();
        checkpoint.filter(|stored| stored.is_fresh(now_unix_ms))
    }

    pub(super) fn set(&self, checkpoint: Option<Checkpoint>) {
        lock(&self.state).checkpoint = checkpoint;
    }

    pub(super) fn last(&self) -> Option<Checkpoint> {
        lock(&self.state).checkpoint.clone()
    }

    /// Replaces the file. Blocks.
    pub(super) fn write(&self, file: &RepairFile) {
        let is_closed = lock(&self.is_closed);
        if *is_closed {
            return;
        }
        let CheckpointEnvironment { folder, disk } = &self.environment;
        if let Err(error) = replace_file(&**disk, folder, FILE, &file.encode()) {
            tracing::warn!(
                %error,
                "cannot write the file REPAIR: a repair that is cut short now begins anew"
            );
        }
    }

    /// Ends all writing to the folder. Blocks while a write is running.
    pub(super) fn close(&self) {
        *lock(&self.is_closed) = true;
    }
}

impl Checkpoint {
    /// The beginning of a session.
    pub(super) fn at_begin(token: Token, epoch: Epoch) -> Self {
        let (below, unequal) = (Timestamp::ZERO, BTreeSet::new());
        Self {
            token,
            epoch,
            cut: Timestamp::ZERO,
            stored_unix_ms: 0,
            next: Bytes::new(),
            taking_part: BTreeMap::new(),
            shown: Shown { below, unequal },
        }
    }

    /// A clock that was set back makes a checkpoint as useless as an old one.
    fn is_fresh(&self, now_unix_ms: u64) -> bool {
        now_unix_ms.abs_diff(self.stored_unix_ms) <= CHECKPOINT_AGE_MAX_MS
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        self.token.encode(bytes);
        put_u64(bytes, self.epoch.as_u64());
        let timestamps = [self.cut, self.shown.below].map(Timestamp::as_u64);
        for number in [timestamps[0], timestamps[1], self.stored_unix_ms] {
            put_u64(bytes, number);
        }
        // Keys have 4096 bytes at most, and nodes are at most 255.
        bytes.extend_from_slice(&(self.next.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.next);
        bytes.push(self.taking_part.len() as u8);
        for (node, single_copies) in &self.taking_part {
            bytes.push(node.index() as u8);
            put_u64(bytes, *single_copies);
        }
        let unequal = &self.shown.unequal;
        bytes.extend_from_slice(&(unequal.len() as u16).to_le_bytes());
        for pair in unequal {
            bytes.extend_from_slice(&[pair.lower.index() as u8, pair.upper.index() as u8]);
        }
    }

    fn decode(reader: &mut ByteReader<'_>, has_epoch: bool) -> Option<Self> {
        let token = Token::decode(reader)?;
        let epoch = if has_epoch { reader.u64()? } else { 0 };
        let cut = Timestamp::from_u64(reader.u64()?);
        let below = Timestamp::from_u64(reader.u64()?);
        let stored_unix_ms = reader.u64()?;
        let key_bytes = usize::from(reader.u16()?);
        let next = Bytes::copy_from_slice(reader.bytes(key_bytes)?);
        let mut taking_part = BTreeMap::new();
        for _ in 0..reader.u8()? {
            let node = NodeId::new(reader.u8()?);
            taking_part.insert(node, reader.u64()?);
        }
        let mut unequal = BTreeSet::new();
        for _ in 0..reader.u16()? {
            let (lower, upper) = (reader.u8()?, reader.u8()?);
            unequal.insert(Pair::of(NodeId::new(lower), NodeId::new(upper)));
        }
        Some(Self {
            token,
            epoch: Epoch::new(epoch),
            cut,
            stored_unix_ms,
            next,
            taking_part,
            shown: Shown { below, unequal },
        })
    }
}

impl RepairFile {
    fn load(environment: &CheckpointEnvironment) -> Result<Self, String> {
        let CheckpointEnvironment { folder, disk } = environment;
        let bytes = rename_old_file(&**disk, folder, OLD_FILE, FILE)
            .and_then(|_| read_small_file(&**disk, &folder.join(FILE), FILE_BYTES_MAX));
        match bytes.map_err(|error: Error| error.to_string())? {
            Some(bytes) => Self::decode(&bytes),
            None => Ok(Self::default()),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = KIND.begin();
        put_option(&mut bytes, self.last_equal_full_unix_ms);
        let ids = self.last_equal.ids().chain(self.single_copies.ids());
        let places = ids.map(|node| node.index() + 1).max().unwrap_or(0);
        // An ID is less than 255.
        bytes.push(places as u8);
        for node in (0..places as u8).map(NodeId::new) {
            let equal = self.last_equal.get(node).copied().unwrap_or_default();
            put_option(&mut bytes, equal.any_unix_ms);
            put_option(&mut bytes, equal.full_unix_ms);
            put_option(&mut bytes, self.single_copies.get(node).copied());
        }
        bytes.push(self.checkpoint.is_some().into());
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.encode(&mut bytes);
        }
        bytes.push(self.facts.is_some().into());
        if let Some(facts) = &self.facts {
            let Incarnation {
                store_id,
                last_loss,
            } = facts.incarnation;
            for number in [facts.change.as_u64(), store_id, last_loss] {
                put_u64(&mut bytes, number);
            }
            bytes.extend_from_slice(&facts.equal_with.to_bytes());
        }
        checked_file::end(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let decoded = KIND.open(Path::new(FILE), bytes).and_then(|mut content| {
            let decoded = Self::decode_content(&mut content.reader, content.version);
            content.finish(decoded)
        });
        decoded.map_err(|error| error.to_string())
    }

    fn decode_content(reader: &mut ByteReader<'_>, version: u32) -> Option<Self> {
        let mut file = Self {
            last_equal_full_unix_ms: decode_option(reader)?,
            ..Self::default()
        };
        for node in (0..reader.u8()?).map(NodeId::new) {
            let equal = LastEqual {
                any_unix_ms: decode_option(reader)?,
                full_unix_ms: decode_option(reader)?,
            };
            if equal != LastEqual::default() {
                file.last_equal.insert(node, equal);
            }
            let single_copies = decode_option(reader)?.map(|count| (node, count));
            file.single_copies.extend(single_copies);
        }
        if version < VERSION_OF_TOKENS {
            let _checkpoint_of_another_protocol = reader.bytes(reader.rest().len());
        } else if decode_bool(reader)? {
            file.checkpoint = Some(Checkpoint::decode(reader, version >= VERSION_OF_EPOCHS)?);
        }
        if version >= VERSION_OF_EPOCHS && decode_bool(reader)? {
            file.facts = Some(Facts {
                change: Epoch::new(reader.u64()?),
                incarnation: Incarnation {
                    store_id: reader.u64()?,
                    last_loss: reader.u64()?,
                },
                equal_with: NodeSet::from_bytes(reader.array()?),
            });
        }
        Some(file)
    }
}

/// Decodes any bytes as the file `REPAIR`, and once more with a checksum that matches.
pub fn fuzz_repair_file(bytes: &[u8]) {
    let decode = |bytes: &[u8]| RepairFile::decode(bytes).ok();
    checked_file::fuzz(bytes, decode, RepairFile::encode);
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_option(bytes: &mut Vec<u8>, number: Option<u64>) {
    put_u64(bytes, number.unwrap_or(UNKNOWN));
}

fn decode_option(reader: &mut ByteReader<'_>) -> Option<Option<u64>> {
    let number = reader.u64()?;
    Some((number != UNKNOWN).then_some(number))
}

fn decode_bool(reader: &mut ByteReader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
