//! Appends lines to a tokens file.
//!
//! A node may read the file at any moment, and a crash may come at any moment. So the new
//! file is written beside the old one and takes its place in one step. The file beside it
//! also keeps two commands from appending at a time, of which one would be lost.

use crate::failure::Failure;
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Appends lines to a tokens file, which is made for its owner only if there is none. It
/// keeps its owner and its mode.
///
/// # Errors
/// The file cannot be read or written, is not a right tokens file, or would not be one.
#[expect(
    clippy::disallowed_methods,
    reason = "the file belongs to the operator and is not part of a store"
)]
pub(super) fn append(file: &Path, lines: &str) -> Result<(), Failure> {
    let failed = |what: &str, error: &dyn fmt::Display| {
        Failure::failed(format!("--append: {what}: {error}"))
    };
    // The file may be a link, which is to stay one.
    let file = match fs::canonicalize(file) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(failed(&format!("cannot find {}", file.display()), &error)),
    };
    let shown = file.display();
    let beside = beside(&file);
    let mut options = OpenOptions::new();
    let created = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside);
    let created = created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::failed(format!(
            "--append: {} exists: another command appends to {shown} now, or was cut short; \
             remove the file if none does",
            beside.display()
        )),
        _ => failed(&format!("cannot write {}", beside.display()), &error),
    })?;
    let replaced = replace(&file, created, &beside, lines);
    if replaced.is_err() {
        // What failed is reported; a file that stays is named by the next command.
        let _ = fs::remove_file(&beside);
    }
    replaced.map_err(|problem| failed(&shown.to_string(), &problem))
}

/// The name of the file that is written first.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the file belongs to the operator and is not part of a store"
)]
fn replace(file: &Path, mut next: File, next_path: &Path, lines: &str) -> Result<(), String> {
    let system = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let old = match fs::read_to_string(file) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read it: {error}")),
    };
    if !old.trim().is_empty() {
        tokens::read(&old).map_err(|error| format!("{error}; correct that first"))?;
    }
    let gap = match old.as_str() {
        "" => "",
        old if old.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let text = format!("{old}{gap}{lines}");
    tokens::read(&text).map_err(|error| error.to_string())?;
    if let Ok(metadata) = fs::metadata(file) {
        let own = next.metadata().map_err(system("cannot look at it"))?;
        if (metadata.uid(), metadata.gid()) != (own.uid(), own.gid()) {
            std::os::unix::fs::fchown(&next, Some(metadata.uid()), Some(metadata.gid()))
                .map_err(system("cannot keep its owner"))?;
        }
        let mode = Permissions::from_mode(metadata.mode() & 0o7777);
        next.set_permissions(mode)
            .map_err(system("cannot keep its mode"))?;
    }
    next.write_all(text.as_bytes())
        .and_then(|()| next.sync_all())
        .and_then(|()| fs::rename(next_path, file))
        .and_then(|()| sync_folder_of(file))
        .map_err(system("cannot write it"))
}

/// Makes the new name durable.
#[expect(
    clippy::disallowed_methods,
    reason = "the file belongs to the operator and is not part of a store"
)]
fn sync_folder_of(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the file belongs to the operator and is not part of a store"
)]
mod tests {
    use super::*;

    fn lines(name: &str) -> String {
        format!(
            "[[token]]\nname = \"{name}\"\nsha256 = \"{:064x}\"\n",
            name.len()
        )
    }

    #[test]
    fn lines_are_appended_and_the_file_stays_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        append(&file, &lines("a")).unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        append(&link, &lines("bb")).unwrap();
        assert_eq!(mode(&file), 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{}\n{}", lines("a"), lines("bb")));
        // A file without a last line end.
        fs::write(&file, lines("a").trim_end()).unwrap();
        append(&file, &lines("bb")).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{}\n{}", lines("a"), lines("bb")));
        assert!(!beside(&file).exists());
    }

    #[test]
    fn a_file_that_would_be_wrong_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        for (old, new, part) in [
            ("broken", lines("a"), "correct that first"),
            (&*lines("a"), lines("a"), "two tokens"),
        ] {
            fs::write(&file, old).unwrap();
            let failure = append(&file, &new).unwrap_err();
            assert!(failure.line().contains(part), "{}", failure.line());
            assert!(failure.line().contains("tokens.toml"), "{}", failure.line());
            assert_eq!(fs::read_to_string(&file).unwrap(), old);
            assert!(!beside(&file).exists());
        }
    }

    #[test]
    fn two_commands_do_not_append_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        fs::write(beside(&file), "").unwrap();
        let failure = append(&file, &lines("a")).unwrap_err();
        assert!(
            failure.line().contains("tokens.toml.new"),
            "{}",
            failure.line()
        );
        assert!(!file.exists() && beside(&file).exists());
    }
}
