//! The names of objects, and the version of their formats.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt;

/// The version of the formats of objects.
pub const FORMAT: u32 = 1;

/// The folder of tables.
pub(crate) const TABLES: &str = "tables";
/// The folder of what is under way.
pub(crate) const RUNNING: &str = "running";
/// The folder of what single stores hold.
pub(crate) const NODES: &str = "nodes";
/// The folder of complete backups.
pub(crate) const BACKUPS: &str = "backups";

/// The object that says whose target this is.
pub(crate) const CLUSTER: &str = "cluster.json";
/// How the names of notes begin whose owners remove tables.
const PRUNES: &str = "prune-";

/// The SHA-256 of an object.
pub(crate) type Hash = [u8; 32];

/// The name of a backup: when it began, by the clock of its coordinator, and a random number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(String);

impl BackupId {
    /// The backup that began at this millisecond since the Unix epoch.
    #[must_use]
    pub fn new(unix_ms: u64, random: u64) -> Self {
        let time = i64::try_from(unix_ms).map(Timestamp::from_millisecond);
        // The range of timestamps ends before.
        let time = time.ok().and_then(Result::ok).unwrap_or(Timestamp::MAX);
        let time = time.strftime("%Y%m%dT%H%M%SZ");
        let random = random as u32;
        Self(format!("{time}-{random:08x}"))
    }

    /// The backup with this name, if it is one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let shape = b"00000000T000000Z-xxxxxxxx";
        let fits = name.len() == shape.len()
            && name.bytes().zip(shape).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
                _ => byte == *shape,
            });
        fits.then(|| Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

pub(crate) fn hash_of(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

pub(crate) fn table(sha256: &str) -> String {
    format!("{TABLES}/{sha256}.sst")
}

/// The note of a backup under way.
pub(crate) fn running(id: &BackupId) -> String {
    format!("{RUNNING}/{id}.json")
}

/// The note of somebody who removes tables.
pub(crate) fn pruning(id: &BackupId) -> String {
    format!("{RUNNING}/{PRUNES}{id}.json")
}

/// Whether this is the name of such a note, whatever the note says.
pub(crate) fn is_pruning(name: &str) -> bool {
    let name = name.strip_prefix(RUNNING);
    name.is_some_and(|name| name.trim_start_matches('/').starts_with(PRUNES))
}

/// What the store of a node holds. Names of nodes may have characters that those of objects may
/// not, so it is the hash of the name.
pub(crate) fn node(id: &BackupId, node: &str) -> String {
    format!(
        "{NODES}/{id}-{}.json",
        &hex(&hash_of(node.as_bytes()))[..16]
    )
}

pub(crate) fn backup(id: &BackupId) -> String {
    format!("{BACKUPS}/{id}.json")
}

/// The backup that an object of this name in `folder` belongs to.
pub(crate) fn id_of(folder: &str, name: &str) -> Option<BackupId> {
    let name = name.strip_prefix(folder)?.strip_prefix('/')?;
    BackupId::parse(name.get(..25)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_when_its_backup_began() {
        for (unix_ms, name) in [
            (0, "19700101T000000Z"),
            (951_782_399_999, "20000228T235959Z"),
            (951_782_400_000, "20000229T000000Z"),
            (1_795_960_800_000, "20261129T140000Z"),
            (4_107_542_399_000, "21000228T235959Z"),
            (4_107_542_400_000, "21000301T000000Z"),
        ] {
            let id = BackupId::new(unix_ms, 0x12_89ab_cdef);
            assert_eq!(id.as_str(), format!("{name}-89abcdef"));
            assert_eq!(BackupId::parse(id.as_str()), Some(id.clone()));
            assert_eq!(id_of(BACKUPS, &backup(&id)), Some(id.clone()));
            assert_eq!(id_of(NODES, &node(&id, "a:1/../b")), Some(id));
        }
    }

    #[test]
    fn what_is_no_name_of_a_backup_is_none() {
        for name in [
            "",
            "latest",
            "../../etc/passwd",
            "20261129T140000Z-89abcdeF",
            "20261129T140000Z-89abcdef0",
            "20261129T140000Z/89abcdef",
        ] {
            assert_eq!(BackupId::parse(name), None, "{name}");
        }
    }
}
