//! Files with a secret in their first line, which only their owner may use.

use crate::files::ReadFile;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The permission bits of a file's group and of others.
const MODE_OF_OTHERS: u32 = 0o077;

/// The same without the bit by which the group reads.
const MODE_BUT_GROUP_READS: u32 = 0o037;

/// The first line of a file, without the white space around it. The other lines are for
/// people.
///
/// # Errors
/// A sentence that names the file and never its contents.
pub fn first_line(file: &Path, read_file: ReadFile<'_>) -> Result<String, String> {
    let text = read(file, read_file)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The text of a file.
///
/// # Errors
/// A sentence that names the file and never its contents.
pub fn read(file: &Path, read_file: ReadFile<'_>) -> Result<String, String> {
    check_owner_only(file)?;
    read_file(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Whether nobody but the owner of a file knows what is in it. A file of root may be read by its
/// group: so a service reads secrets that it cannot change, as those of Kubernetes.
fn is_private(mode: u32, owner: u32) -> bool {
    let is_of_root = owner == 0;
    mode & MODE_OF_OTHERS == 0 || is_of_root && mode & MODE_BUT_GROUP_READS == 0
}

/// Refuses a file that others than its owner may use, because others may know
/// the secret, and what is no file, because reading a pipe would block. A missing file is
/// reported when it is read.
fn check_owner_only(file: &Path) -> Result<(), String> {
    let Ok(metadata) = std::fs::metadata(file) else {
        return Ok(());
    };
    if !metadata.is_file() {
        return Err(format!("{} is not a file: name one", file.display()));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if is_private(mode, metadata.uid()) {
        return Ok(());
    }
    let name = file.display();
    Err(format!(
        "users other than the owner may access {name} (mode {mode:o}): run chmod 600 {name}, and \
         choose another secret if they may have read it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the file of a secret is not part of a store"
    )]
    fn a_file_that_others_may_access_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("secret");
        std::fs::write(&file, " 0123456789abcdef \nfor people\n").unwrap();
        let read = || first_line(&file, &|file| std::fs::read_to_string(file));
        for (mode, is_secret) in [
            (0o600, true),
            (0o400, true),
            (0o644, false),
            (0o604, false),
            (0o620, false),
        ] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            match read() {
                Ok(secret) => assert_eq!(secret, "0123456789abcdef"),
                Err(error) => {
                    let remedy = format!("chmod 600 {}", file.display());
                    assert!(error.contains(&remedy), "{error}");
                    assert!(!error.contains("01234"), "{error}");
                }
            }
            assert_eq!(read().is_ok(), is_secret, "{mode:o}");
        }
    }

    #[test]
    fn only_a_file_of_root_may_be_read_by_its_group() {
        for (mode, owner, expected) in [
            (0o600, 0, true),
            (0o640, 0, true),
            (0o440, 0, true),
            (0o640, 1000, false),
            (0o660, 0, false),
            (0o644, 0, false),
            (0o650, 0, false),
        ] {
            assert_eq!(is_private(mode, owner), expected, "{mode:o} of {owner}");
        }
    }
}
