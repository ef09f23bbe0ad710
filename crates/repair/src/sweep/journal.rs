//! The file `SWEEP`: what a node remembers of sweeps over a restart.
//!
//! - When the last full pass ended that found this node equal with all others. A node that
//!   is restarted more often than full passes are due would otherwise never begin one.
//! - When each node was last found equal with this one, and how many versions it has
//!   that no other node has.
//! - As a driver: how far a full pass has come.
//!
//! All of it is told again by the next pass. So a file that cannot be read is begun anew,
//! and a write that fails is only reported. The file is small: each change replaces it.
//! Integers are little-endian:
//!
//! ```text
//! file       = magic [u8; 8] | version u32 | last clean full u64 | nodes u8 | node*
//!            | checkpoints u8, 0 or 1 | checkpoint*           | crc32c u32 of the rest
//! node       = clean u64 | clean in a full pass u64 | single copies u64
//! checkpoint = pass u64 | cut u64 | fence u64, 0 for none | stored u64 | key bytes u16 | next key
//!            | may be conclusive u8 | count u8 | taking part*
//!            | count u16 | unclean pair (node u8, node u8)*
//! taking part = node u8 | store id u64 | last loss u64 | single copies u64
//! ```
//!
//! Version 1 has no fence.
//!
//! Times are milliseconds since 1970; [`u64::MAX`] says that something is not known.

use super::record::LastClean;
use base::{ByteReader, Timestamp};
use bytes::Bytes;
use cluster::NodeId;
use cluster::sweep::{Incarnation, Pair, PassId, PassProgress, TakingPart};
use lsm::checked_file::{self, FileKind};
use lsm::disk::{read_small_file, replace_file};
use lsm::{Disk, Error};
use profile::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const FILE: &str = "SWEEP";
const KIND: FileKind = FileKind {
    name: FILE,
    magic: *b"kvorumsw",
    versions: SWEEP_VERSIONS,
};
/// The versions of the format of `SWEEP` that this release reads; it writes the last one.
pub const SWEEP_VERSIONS: RangeInclusive<u32> = VERSION_WITHOUT_FENCE..=2;
const VERSION_WITHOUT_FENCE: u32 = 1;
/// The longest file that is read: several times the size for the most nodes, all of whose
/// pairs are unclean.
const FILE_BYTES_MAX: u64 = 1 << 20;
const UNKNOWN: u64 = u64::MAX;

/// A checkpoint that is older than this is not used: too much has changed since, so that
/// the pass would show little.
const CHECKPOINT_AGE_MAX_MS: u64 = 6 * 3600 * 1000;

/// How far a full pass has come. All that it found equal is durable in the stores that
/// took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) pass: PassId,
    pub(super) cut: Timestamp,
    /// What the forget bound may rise to with this pass: the fence of all members.
    pub(super) fence: Option<Timestamp>,
    pub(super) stored_unix_ms: u64,
    /// What is below this key has been compared.
    pub(super) next: Bytes,
    pub(super) progress: PassProgress,
}

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SweepFile {
    pub(super) last_clean_full_unix_ms: Option<u64>,
    /// By node number.
    pub(super) last_clean: Vec<LastClean>,
    /// By node number.
    pub(super) single_copies: Vec<Option<u64>>,
    pub(super) checkpoint: Option<Checkpoint>,
}

/// Where the file is.
pub struct JournalEnvironment {
    /// The data folder, which exists and is locked.
    pub folder: PathBuf,
    /// The disk.
    pub disk: Arc<dyn Disk>,
}

/// The owner of the file, and of the checkpoint in it.
pub(super) struct Journal {
    environment: JournalEnvironment,
    state: Mutex<JournalState>,
    /// Held while the file is written; true once it must not be written any more.
    is_closed: Mutex<bool>,
}

struct JournalState {
    checkpoint: Option<Checkpoint>,
    /// Whether the checkpoint is that of a pass which a restart of this node has cut
    /// short.
    is_interrupted: bool,
    /// Whether a full pass has ended without a node that took part up to the checkpoint.
    has_lost_a_node: bool,
}

impl Journal {
    /// Opens the file of a data folder, and gives what it holds. Blocks.
    pub(super) fn open(environment: JournalEnvironment) -> (Self, SweepFile) {
        let loaded = SweepFile::load(&environment);
        let loaded = loaded.unwrap_or_else(|why| {
            tracing::warn!(
                why,
                "the file SWEEP cannot be read and is begun anew: repairs compare more than \
                 they would have to"
            );
            SweepFile::default()
        });
        let state = JournalState {
            is_interrupted: loaded.checkpoint.is_some(),
            has_lost_a_node: false,
            checkpoint: loaded.checkpoint.clone(),
        };
        let journal = Self {
            environment,
            state: Mutex::new(state),
            is_closed: Mutex::new(false),
        };
        (journal, loaded)
    }

    /// Whether a restart of this node has cut a full pass short that can still go on.
    pub(super) fn is_interrupted(&self, now_unix_ms: u64) -> bool {
        let state = lock(&self.state);
        let checkpoint = state.checkpoint.as_ref();
        state.is_interrupted && checkpoint.is_some_and(|stored| stored.is_fresh(now_unix_ms))
    }

    /// Whether a full pass has ended without a node that took part up to its checkpoint, and
    /// can go on once that node is back.
    pub(super) fn has_lost_a_node(&self, now_unix_ms: u64) -> bool {
        let state = lock(&self.state);
        let checkpoint = state.checkpoint.as_ref();
        state.has_lost_a_node && checkpoint.is_some_and(|stored| stored.is_fresh(now_unix_ms))
    }

    /// A full pass has ended without a node that took part up to its checkpoint, if it has
    /// one.
    pub(super) fn lost_a_node(&self, pass: PassId) {
        let mut state = lock(&self.state);
        let checkpoint = state.checkpoint.as_ref();
        state.has_lost_a_node = checkpoint.is_some_and(|stored| stored.pass == pass);
    }

    /// The checkpoint from which the next full pass can go on.
    pub(super) fn take_up(&self, now_unix_ms: u64) -> Option<Checkpoint> {
        let mut state = lock(&self.state);
        state.is_interrupted = false;
        state.has_lost_a_node = false;
        let checkpoint = state.checkpoint.clone();
        checkpoint.filter(|stored| stored.is_fresh(now_unix_ms))
    }

    pub(super) fn set_checkpoint(&self, checkpoint: Option<Checkpoint>) {
        lock(&self.state).checkpoint = checkpoint;
    }

    pub(super) fn checkpoint(&self) -> Option<Checkpoint> {
        lock(&self.state).checkpoint.clone()
    }

    /// Replaces the file. Blocks.
    pub(super) fn write(&self, file: &SweepFile) {
        let is_closed = lock(&self.is_closed);
        if *is_closed {
            return;
        }
        let JournalEnvironment { folder, disk } = &self.environment;
        if let Err(error) = replace_file(&**disk, folder, FILE, &file.encode()) {
            tracing::warn!(
                %error,
                "cannot write the file SWEEP: a repair that is cut short now begins anew"
            );
        }
    }

    /// Ends all writing to the folder. Blocks while a write is running.
    pub(super) fn close(&self) {
        *lock(&self.is_closed) = true;
    }
}

impl Checkpoint {
    /// The beginning of a pass.
    pub(super) fn at_begin(pass: PassId) -> Self {
        Self {
            pass,
            cut: Timestamp::ZERO,
            fence: None,
            stored_unix_ms: 0,
            next: Bytes::new(),
            progress: PassProgress::new([]),
        }
    }

    /// A clock that was set back makes a checkpoint as useless as an old one.
    fn is_fresh(&self, now_unix_ms: u64) -> bool {
        now_unix_ms.abs_diff(self.stored_unix_ms) <= CHECKPOINT_AGE_MAX_MS
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let fence = self.fence.unwrap_or(Timestamp::ZERO);
        let timestamps = [self.cut, fence].map(Timestamp::as_u64);
        for number in [
            self.pass.0,
            timestamps[0],
            timestamps[1],
            self.stored_unix_ms,
        ] {
            put_u64(bytes, number);
        }
        // Keys have 4096 bytes at most, and nodes are at most 255.
        bytes.extend_from_slice(&(self.next.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.next);
        bytes.push(self.progress.may_be_conclusive().into());
        let taking_part = self.progress.taking_part();
        bytes.push(taking_part.len() as u8);
        for (node, taking_part) in taking_part {
            let TakingPart {
                incarnation,
                single_copies,
            } = *taking_part;
            bytes.push(node.index() as u8);
            put_u64(bytes, incarnation.store_id);
            put_u64(bytes, incarnation.last_loss);
            put_u64(bytes, single_copies);
        }
        let unclean = self.progress.unclean();
        bytes.extend_from_slice(&(unclean.len() as u16).to_le_bytes());
        for pair in unclean {
            bytes.extend_from_slice(&[pair.lower.index() as u8, pair.upper.index() as u8]);
        }
    }

    fn decode(reader: &mut ByteReader<'_>, version: u32) -> Option<Self> {
        let pass = PassId(reader.u64()?);
        let cut = Timestamp::from_u64(reader.u64()?);
        let fence = match version {
            VERSION_WITHOUT_FENCE => Timestamp::ZERO,
            _ => Timestamp::from_u64(reader.u64()?),
        };
        let stored_unix_ms = reader.u64()?;
        let key_bytes = usize::from(reader.u16()?);
        let next = Bytes::copy_from_slice(reader.bytes(key_bytes)?);
        let may_be_conclusive = decode_bool(reader)?;
        let mut taking_part = BTreeMap::new();
        for _ in 0..reader.u8()? {
            let node = NodeId::new(reader.u8()?);
            let incarnation = Incarnation {
                store_id: reader.u64()?,
                last_loss: reader.u64()?,
            };
            let single_copies = reader.u64()?;
            let took_part = TakingPart {
                incarnation,
                single_copies,
            };
            taking_part.insert(node, took_part);
        }
        let mut unclean = BTreeSet::new();
        for _ in 0..reader.u16()? {
            let (lower, upper) = (reader.u8()?, reader.u8()?);
            unclean.insert(Pair::of(NodeId::new(lower), NodeId::new(upper)));
        }
        Some(Self {
            pass,
            cut,
            fence: (fence > Timestamp::ZERO).then_some(fence),
            stored_unix_ms,
            next,
            progress: PassProgress::restored(taking_part, unclean, may_be_conclusive),
        })
    }
}

impl SweepFile {
    fn load(environment: &JournalEnvironment) -> Result<Self, String> {
        let path = environment.folder.join(FILE);
        let bytes = read_small_file(&*environment.disk, &path, FILE_BYTES_MAX);
        match bytes.map_err(|error: Error| error.to_string())? {
            Some(bytes) => Self::decode(&bytes),
            None => Ok(Self::default()),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = KIND.begin();
        put_option(&mut bytes, self.last_clean_full_unix_ms);
        // There are at most 255 nodes.
        bytes.push(self.last_clean.len() as u8);
        for (index, clean) in self.last_clean.iter().enumerate() {
            put_option(&mut bytes, clean.any_unix_ms);
            put_option(&mut bytes, clean.full_unix_ms);
            put_option(&mut bytes, self.single_copies.get(index).copied().flatten());
        }
        bytes.push(self.checkpoint.is_some().into());
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.encode(&mut bytes);
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
            last_clean_full_unix_ms: decode_option(reader)?,
            ..Self::default()
        };
        for _ in 0..reader.u8()? {
            file.last_clean.push(LastClean {
                any_unix_ms: decode_option(reader)?,
                full_unix_ms: decode_option(reader)?,
            });
            file.single_copies.push(decode_option(reader)?);
        }
        file.checkpoint = if decode_bool(reader)? {
            Some(Checkpoint::decode(reader, version)?)
        } else {
            None
        };
        Some(file)
    }
}

/// Decodes any bytes as the file `SWEEP`, and once more with a checksum that matches.
pub fn fuzz_sweep(bytes: &[u8]) {
    let decode = |bytes: &[u8]| SweepFile::decode(bytes).ok();
    checked_file::fuzz(bytes, decode, SweepFile::encode);
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
