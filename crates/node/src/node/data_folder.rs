//! What a data folder has to be before a node opens it: the folder of a store, or one that is free for
//! a new store.

use super::damage::DamageRemedy;
use super::seams::OpenError;
use crate::config::NodeConfig;
use backup::RestoredFolder;
use lsm::Disk;
use membership::stored_list;
use std::io;
use std::path::Path;

/// The files of a node, besides segments and tables.
const NAMES: [&str; 10] = [
    "LOCK",
    "MANIFEST",
    "RESERVE",
    "CLUSTER",
    "TIMESTAMP_BOUND",
    "TOKENS",
    "TOMBSTONE_GC",
    "REPAIR",
    "RESTORING",
    "RESTORED",
];

/// Checks the data folder. Returns of which backup it is, if it was restored.
///
/// # Errors
/// Why a node does not start in the folder.
pub(super) fn check_folder(
    config: &NodeConfig,
    disk: &dyn Disk,
) -> Result<Option<RestoredFolder>, OpenError> {
    // Before anything in the folder is read, so that what is wrong with the folder is not
    // said of a file in it.
    disk.check_folder(&config.data)
        .map_err(|error| lsm::Error::io("use", &config.data, error))?;
    let restored = backup::restored_folder(disk, &config.data)?;
    check_data(config, disk)?;
    Ok(restored)
}

/// Checks the data folder as a start does before it opens the store, and makes nothing. Returns
/// whether it holds a store.
///
/// # Errors
/// Why a node would not start in the folder.
pub fn check_data_folder(config: &NodeConfig, disk: &dyn Disk) -> Result<bool, OpenError> {
    check_folder(config, disk)?;
    stored_list(disk, &config.data).map_err(|error| DamageRemedy::of(config).explain(error))?;
    Ok(lsm::holds_store(disk, &config.data)?)
}

/// Checks whether the folder holds a store, if it should, and tells the operator if it does not.
///
/// # Errors
/// [`OpenError::NoStore`], [`OpenError::OtherFiles`], and those of the disk.
fn check_data(config: &NodeConfig, disk: &dyn Disk) -> Result<(), OpenError> {
    if lsm::holds_store(disk, &config.data)? {
        return Ok(());
    }
    if config.expect_data {
        return Err(OpenError::NoStore(config.data.clone()));
    }
    check_other_files(disk, &config.data)?;
    let others = if config.members.count() > 1 {
        ", and the other nodes would rebuild it in the wrong place"
    } else {
        ""
    };
    let folder = config.data.display();
    let text = format!(
        "the data folder holds no store: this node begins with an empty one. If it had data, stop \
         it: its disk may not be mounted{others}. With --expect-data it would refuse to start"
    );
    // Several nodes on one machine are there to try them.
    if config.members.count() > 1 && config.members.is_loopback_only() {
        tracing::info!(%folder, "{text}");
    } else {
        tracing::warn!(%folder, "{text}");
    }
    Ok(())
}

/// Refuses a folder of other files, which somebody has named by mistake: the node would put hundreds
/// of its own among them.
///
/// # Errors
/// [`OpenError::OtherFiles`], and those of the disk.
fn check_other_files(disk: &dyn Disk, folder: &Path) -> Result<(), OpenError> {
    let names = match disk.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(lsm::Error::io("list", folder, error).into()),
    };
    // Hidden files are of file systems and of tools.
    let mut others = names.iter().filter(|name| !name.starts_with('.'));
    if names.iter().any(|name| is_of_nodes(name)) {
        return Ok(());
    }
    let Some(first) = others.next() else {
        return Ok(());
    };
    Err(OpenError::OtherFiles {
        folder: folder.to_owned(),
        first: first.clone(),
        more: others.count(),
    })
}

/// Whether a file has the name of one of a node's, or of a version of it that was being written.
fn is_of_nodes(name: &str) -> bool {
    let kept = name.strip_suffix(".tmp").unwrap_or(name);
    NAMES.contains(&kept) || name.starts_with("log-") || name.starts_with("table-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsm_testing::MemoryDisk;

    fn checked(names: &[&str]) -> Result<(), String> {
        let (disk, folder) = (MemoryDisk::new(), Path::new("/data"));
        disk.create_folder(folder).unwrap();
        for name in names {
            disk.create(&folder.join(name)).unwrap();
        }
        check_other_files(&disk, folder).map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_is_refused_if_all_it_has_are_files_of_others() {
        for names in [
            &[][..],
            &[".gitkeep"],
            &["LOCK", "notes.txt"],
            &["TIMESTAMP_BOUND.tmp", "notes.txt"],
            &["log-1.wal", "notes.txt"],
            &["notes.txt", "table-1.sst"],
        ] {
            assert_eq!(checked(names), Ok(()), "{names:?}");
        }
        let error = checked(&["photo.jpg"]).unwrap_err();
        assert!(
            error.contains("/data") && error.contains("(photo.jpg)"),
            "{error}"
        );
        let error = checked(&[".profile", "README", "letter.txt"]).unwrap_err();
        assert!(error.contains("(README and 1 more)"), "{error}");
    }
}
