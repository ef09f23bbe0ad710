//! Who may use the folder of a store, and what to do if this process may not.

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The permissions of a new folder: all for its owner and none for others, because
/// no other user of the machine may read a store.
pub(super) const FOLDER_MODE: u32 = 0o700;

/// The permissions of a new file.
pub(super) const FILE_MODE: u32 = 0o600;

/// The permission bits with which others than the owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Checks that a folder is this process's own, and that nobody else can put files or links in
/// it. Others may read names in it, as a group may in folders that packages make.
///
/// # Errors
/// One that says what to do, and those of the system.
pub(super) fn check_folder(folder: &Path) -> io::Result<()> {
    let metadata = match std::fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(explain(folder, error)),
    };
    let own = geteuid().as_raw();
    check_owner(folder, (metadata.uid(), metadata.mode()), own)?;
    let needed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::accessat(CWD, folder, needed, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => Err(explain(folder, Errno::ACCESS.into())),
        // Other errors show when the folder is used.
        _ => Ok(()),
    }
}

/// Checks the owner and the mode of a folder for a process of the user `own`.
fn check_owner(folder: &Path, (owner, mode): (u32, u32), own: u32) -> io::Result<()> {
    let folder = folder.display();
    let what = if owner != own {
        let (owner, own) = (UserName(owner), UserName(own));
        format!(
            "the folder belongs to {owner}, and this process runs as {own}: run it as {owner}, or \
             name a folder of its own, such as one below that does not exist yet"
        )
    } else if mode & WRITABLE_BY_OTHERS != 0 {
        let mode = mode & 0o777;
        format!(
            "users other than its owner may write to the folder (mode {mode:o}): run chmod 700 \
             {folder}"
        )
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// An error of the system on a file or folder, with what to do about it where the system's own
/// words do not say it.
pub(super) fn explain(path: &Path, error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is a symbolic link, which a node does not follow in its folder: put the file \
             itself there",
        ),
        Some(Errno::ACCESS | Errno::PERM) => {
            let own = UserName(geteuid().as_raw());
            // The nearest one that can be seen is what keeps the process out, or tells why.
            let mut above = path.ancestors();
            let seen = above.find_map(|it| Some((it, std::fs::metadata(it).ok()?)));
            let owner = seen.map_or_else(String::new, |(path, metadata)| of_owner(path, &metadata));
            let what = format!("{error}: this process runs as {own}{owner}");
            io::Error::new(error.kind(), what)
        }
        _ => error,
    }
}

/// Whose a path is, and what to do.
fn of_owner(path: &Path, metadata: &Metadata) -> String {
    let (path, owner) = (path.display(), metadata.uid());
    let mode = metadata.mode() & 0o777;
    if owner == geteuid().as_raw() {
        format!(
            ", whose {path} is, with mode {mode:o}: give its owner all rights with chmod u+rwX {path}"
        )
    } else {
        format!(
            ", and {path} belongs to {} (mode {mode:o}): run the node as that user, or make the \
             data folder for this one and give it all files in it (chown -R)",
            UserName(owner)
        )
    }
}

/// A user, by number and, if this machine knows it, by name.
struct UserName(u32);

impl std::fmt::Display for UserName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        match name_of(self.0, &users) {
            Some(name) => write!(out, "{name} (uid {})", self.0),
            None => write!(out, "uid {}", self.0),
        }
    }
}

/// The name of a user in the text of `/etc/passwd`.
fn name_of(uid: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_owners_alone_to_write_to() {
        let check = |owner, mode| check_owner(Path::new("/data"), (owner, mode), 7);
        for mode in [0o700, 0o750, 0o755, 0o40700, 0o711] {
            check(7, mode).unwrap();
        }
        for mode in [0o770, 0o775, 0o777, 0o702, 0o1777] {
            let error = check(7, mode).unwrap_err().to_string();
            assert!(error.contains("chmod 700 /data"), "{error}");
        }
        let error = check(8, 0o700).unwrap_err().to_string();
        assert!(
            error.contains("uid 8") && error.contains("uid 7"),
            "{error}"
        );
    }

    #[test]
    fn a_user_is_named_as_the_machine_knows_it() {
        let users = "root:x:0:0:root:/root:/bin/sh\nmalformed\nkvorum:x:998:998::/:/bin/false\n";
        assert_eq!(name_of(998, users), Some("kvorum"));
        assert_eq!(name_of(9, users), None);
    }
}
