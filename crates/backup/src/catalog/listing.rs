//! What lies at a target: the backups, and what their stores hold.

use crate::contents::{BackupContents, NodeContents, decode, get, get_bytes};
use crate::error::BackupError;
use crate::layout::{self, BackupId, hash_of, hex, id_of};
use crate::target::Target;

/// A backup that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: BackupId,
    /// What it holds.
    pub contents: BackupContents,
}

/// What is called a backup, and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name.
    pub id: BackupId,
    /// Why, as one line.
    pub why: String,
}

/// The backups at a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Those that are complete, the newest first.
    pub backups: Vec<Listed>,
    /// Those that were complete, and are damaged or of a later release.
    pub unreadable: Vec<Unreadable>,
}

impl Listed {
    /// What orders backups: when they were completed, whatever clocks say. Two that were completed
    /// at the same moment have the same number.
    fn order(&self) -> (u64, u64, &BackupId) {
        let contents = &self.contents;
        (contents.number, contents.greatest_timestamp, &self.id)
    }
}

/// All backups at a target.
pub(super) fn list_backups(target: &dyn Target) -> Result<Listing, BackupError> {
    let mut listing = Listing::default();
    for object in list(target, layout::BACKUPS)? {
        let id = id_of(layout::BACKUPS, &object);
        let Some(id) = id.filter(|id| object == layout::backup(id)) else {
            continue;
        };
        match get(target, &object) {
            Ok(Some(contents)) => listing.backups.push(Listed { id, contents }),
            Ok(None) => {}
            Err(error @ (BackupError::Damaged { .. } | BackupError::Newer { .. })) => {
                let why = error.to_string();
                listing.unreadable.push(Unreadable { id, why });
            }
            Err(error) => return Err(error),
        }
    }
    let backups = &mut listing.backups;
    backups.sort_by(|one, other| other.order().cmp(&one.order()));
    Ok(listing)
}

/// What the stores of a backup hold, each with the name of its object.
pub(crate) fn read_nodes(
    target: &dyn Target,
    backup: &Listed,
) -> Result<Vec<(String, NodeContents)>, BackupError> {
    let mut nodes = Vec::new();
    for summary in &backup.contents.nodes {
        let name = layout::node(&backup.id, &summary.name);
        let bytes = get_bytes(target, &name)?
            .ok_or_else(|| BackupError::damaged(&name, "it is not there"))?;
        if hex(&hash_of(&bytes)) != summary.sha256 {
            return Err(BackupError::damaged(&name, "its SHA-256 is another"));
        }
        nodes.push((name.clone(), decode(&name, &bytes)?));
    }
    Ok(nodes)
}

/// The names of the objects of a folder.
pub(super) fn list(target: &dyn Target, folder: &str) -> Result<Vec<String>, BackupError> {
    let objects = target
        .list(folder)
        .map_err(|error| BackupError::target("list", folder, error))?;
    Ok(objects.into_iter().map(|object| object.name).collect())
}

/// Removes an object, if there is one.
pub(super) fn remove(target: &dyn Target, name: &str) -> Result<(), BackupError> {
    target
        .remove(name)
        .map_err(|error| BackupError::target("remove", name, error))
}
