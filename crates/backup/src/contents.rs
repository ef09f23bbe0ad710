//! The objects that are no tables: JSON, so that people can read them. The last member of each is the
//! SHA-256 of all bytes before its comma, so that no damage goes unnoticed:
//!
//! ```text
//! {
//!   "format": 1,
//!   …,
//!   "sha256": "3f9a…"
//! }
//! ```

use crate::error::BackupError;
use crate::layout::{FORMAT, Hash, hash_of, hex};
use crate::target::Target;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// The longest object here, in bytes: room for two million tables.
const BYTES_MAX: u64 = 512 << 20;

/// `backups/ID.json`: what a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupContents {
    /// The version of the format.
    pub format: u32,
    /// Greater than those of all backups that were complete at the target before.
    pub number: u64,
    /// The names of all nodes of the cluster.
    pub members: Vec<String>,
    /// The zones of those that have one, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub zones: BTreeMap<String, String>,
    /// Those whose stores are missing.
    pub missing: Vec<String>,
    /// When it began, in milliseconds since the Unix epoch.
    pub began_unix_ms: u64,
    /// The moment that it holds, at which all stores held their commits off, by the clock of its
    /// coordinator.
    pub cut_unix_ms: u64,
    /// When it was complete.
    pub completed_unix_ms: u64,
    /// The greatest timestamp in any store: clocks of restored nodes begin above it.
    pub greatest_timestamp: u64,
    /// The GC threshold that all stores knew: what was dead below it may be gone in some of them.
    pub gc_threshold: u64,
    /// The stores that it holds.
    pub nodes: Vec<NodeSummary>,
}

/// The store of a node in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// The name of the node.
    pub name: String,
    /// The SHA-256 of the object that names its tables, in hex.
    pub sha256: String,
    /// How many tables it has.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How much of that was not at the target before.
    pub new_bytes: u64,
}

/// `nodes/ID-….json`: what the store of a node holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeContents {
    pub(crate) format: u32,
    pub(crate) name: String,
    /// The store without its tables, as the engine describes it, in base64.
    pub(crate) store: String,
    pub(crate) tables: Vec<TableContents>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableContents {
    /// Its number in the store.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// `running/….json`: who uses the target. Whether tables are removed is said by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningContents {
    pub(crate) format: u32,
    /// Another number whenever the owner says that it still runs.
    pub(crate) beat: u64,
    /// When it began, in milliseconds since the Unix epoch, by its own clock: for people.
    pub(crate) began_unix_ms: u64,
    /// Who it is.
    pub(crate) owner: Owner,
}

/// `cluster.json`: whose target this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterContents {
    pub(crate) format: u32,
    /// The IDs of the stores, in hex, by the names of the nodes.
    pub(crate) stores: BTreeMap<String, String>,
}

/// Who uses a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The start of the node.
    pub owner: Owner,
    /// The IDs of the stores of all members of its cluster, as far as it knows them. Its own is among
    /// them.
    pub stores: BTreeMap<String, Option<u64>>,
}

/// A start of a node, which uses a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The name of the node.
    pub node: String,
    /// A random number of this start: what earlier ones have begun runs no more.
    pub start: u64,
}

impl NodeSummary {
    /// What a node has stored, with this SHA-256 of the object that names its tables.
    #[must_use]
    pub fn new(name: String, sha256: [u8; 32], tables: u64, bytes: u64, new_bytes: u64) -> Self {
        Self {
            name,
            sha256: hex(&sha256),
            tables,
            bytes,
            new_bytes,
        }
    }

    /// The SHA-256 as bytes, if it is one.
    #[must_use]
    pub fn hash(&self) -> Option<[u8; 32]> {
        let mut hash = [0; 32];
        let digits = self.sha256.as_bytes().chunks_exact(2);
        if digits.len() != hash.len() || !self.sha256.is_ascii() {
            return None;
        }
        for (byte, digits) in hash.iter_mut().zip(digits) {
            let digits = std::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(hash)
    }
}

impl BackupContents {
    /// The bytes of all tables.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.bytes).sum()
    }

    /// What was stored for it, in bytes.
    #[must_use]
    pub fn new_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.new_bytes).sum()
    }
}

/// What is between the contents of an object and its SHA-256, and behind that.
const BEFORE_HASH: &str = ",\n  \"sha256\": \"";
const BEHIND_HASH: &str = "\"\n}\n";

/// The bytes of an object.
pub(crate) fn encode(name: &str, contents: &impl Serialize) -> Result<Vec<u8>, BackupError> {
    let failed = |error| BackupError::target("write", name, error);
    let encoded = serde_json::to_string_pretty(contents);
    let encoded = encoded.map_err(|error| failed(io::Error::other(error)))?;
    let open = encoded.strip_suffix("\n}");
    let open = open.ok_or_else(|| failed(io::Error::other("it is no object with members")))?;
    let hash = hex(&hash_of(open.as_bytes()));
    Ok(format!("{open}{BEFORE_HASH}{hash}{BEHIND_HASH}").into_bytes())
}

/// What an object has before its SHA-256, if that is right.
fn checked<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a [u8], BackupError> {
    let hash_bytes = 2 * size_of::<Hash>();
    let rest = bytes.strip_suffix(BEHIND_HASH.as_bytes());
    let rest = rest.and_then(|rest| rest.split_at_checked(rest.len().checked_sub(hash_bytes)?));
    let open = rest.and_then(|(rest, hash)| {
        let open = rest.strip_suffix(BEFORE_HASH.as_bytes())?;
        (hex(&hash_of(open)).as_bytes() == hash).then_some(open)
    });
    open.ok_or_else(|| BackupError::damaged(name, "its SHA-256 is another"))
}

/// Writes an object.
pub(crate) fn put(
    target: &dyn Target,
    name: &str,
    contents: &impl Serialize,
) -> Result<Vec<u8>, BackupError> {
    let bytes = encode(name, contents)?;
    let write = || {
        let mut writer = target.create(name)?;
        writer.write(&bytes)?;
        writer.complete()
    };
    write().map_err(|error| BackupError::target("write", name, error))?;
    Ok(bytes)
}

/// Writes an object, unless there is one. Returns whether it has.
pub(crate) fn put_new(
    target: &dyn Target,
    name: &str,
    contents: &impl Serialize,
) -> Result<bool, BackupError> {
    let put = target.put_new(name, &encode(name, contents)?);
    put.map_err(|error| BackupError::target("write", name, error))
}

/// Reads an object; `None` if there is none.
pub(crate) fn get_bytes(target: &dyn Target, name: &str) -> Result<Option<Vec<u8>>, BackupError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut reader = target.open(name)?;
        if reader.bytes() > BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; reader.bytes() as usize];
        reader.read(0, &mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BackupError::target("read", name, error)),
    }
}

/// Decodes an object.
pub(crate) fn decode<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, BackupError> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    let damaged = |error: serde_json::Error| BackupError::damaged(name, error.to_string());
    // A later release may check itself in another way.
    if let Ok(Head { format }) = serde_json::from_slice(bytes)
        && format > FORMAT
    {
        let object = name.to_owned();
        return Err(BackupError::Newer { object, format });
    }
    let mut open = checked(name, bytes)?.to_vec();
    open.push(b'}');
    serde_json::from_slice(&open).map_err(damaged)
}

/// Reads and decodes an object; `None` if there is none.
pub(crate) fn get<T: DeserializeOwned>(
    target: &dyn Target,
    name: &str,
) -> Result<Option<T>, BackupError> {
    let bytes = get_bytes(target, name)?;
    bytes.map(|bytes| decode(name, &bytes)).transpose()
}
