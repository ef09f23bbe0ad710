//! Reads the file of `--cluster-secret-file`, at the start and when it changes.

use crate::files::{self, ReadFile};
use crate::private_file;
use profile::lock;
use server::{Reload, Secret, Secrets};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Reads the secrets of a file: its first line, and its second one while the secret
/// changes, without the white space around them. Empty lines after the first, and those
/// that begin with `#`, are comments.
///
/// # Errors
/// A sentence that names the file and never its contents.
pub(crate) fn read(file: &Path, read_file: ReadFile<'_>) -> Result<Secrets, String> {
    let name = file.display();
    let text = private_file::read(file, read_file)?;
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let others = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut secrets = Vec::new();
    for (line, number) in std::iter::once(first).chain(others).zip(1..) {
        secrets.push(Secret::new(line.as_bytes()).map_err(|error| {
            let which = match number {
                1 => "the first line of",
                _ => "a line after the first of",
            };
            let hint = match number {
                1 => "",
                _ => ", or begin the line with # if it is a comment",
            };
            format!("{which} {name} cannot be a secret: {}{hint}", error.problem)
        })?);
    }
    Secrets::new(secrets).map_err(|error| format!("{name} cannot be used: {}", error.problem))
}

/// Reads the file again while the node runs, and puts its secrets in force.
pub(super) struct SecretReload {
    file: PathBuf,
    /// Those in force.
    secrets: Secrets,
    /// Why the file could not be used the last time, if it could not.
    problem: Mutex<Option<String>>,
}

impl SecretReload {
    /// Reads `file` again, for a node with these secrets.
    pub(super) fn new(file: PathBuf, secrets: Secrets) -> Arc<Self> {
        Arc::new(Self {
            file,
            secrets,
            problem: Mutex::default(),
        })
    }
}

impl Reload for SecretReload {
    fn reload(&self, _is_ordered: bool) {
        let problem = match read(&self.file, &files::read) {
            Ok(read) => {
                if self.secrets.replace(&read) {
                    tracing::info!(
                        accepted = read.list().len(),
                        "the cluster's secret has changed: new peer connections use it"
                    );
                }
                None
            }
            Err(problem) => Some(problem),
        };
        let mut last = lock(&self.problem);
        if let Some(problem) = &problem
            && last.as_ref() != Some(problem)
        {
            tracing::error!(
                problem,
                "the secret file cannot be used: the node keeps the previous secret"
            );
        }
        *last = problem;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_first_line_is_the_secret_and_the_second_is_accepted_too() {
        let (one, two) = ("0123456789abcdef", "another secret of the cluster");
        for (text, secrets) in [
            (one, &[one][..]),
            (&format!("{one}\n"), &[one]),
            (&format!(" \t{one} \r\n\n# not this"), &[one]),
            (&format!("{one}\n{two}\n"), &[one, two]),
            (&format!("{two}\n# since May\n\n {one}"), &[two, one]),
        ] {
            let read = read(Path::new("s"), &|_| Ok(text.to_owned())).unwrap();
            let expected: Vec<_> = secrets
                .iter()
                .map(|secret| Secret::new(secret.as_bytes()).unwrap())
                .collect();
            assert_eq!(read.list(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_refusal_does_not_show_the_secret() {
        let long = "0123456789abcdef".repeat(1000);
        for (text, words) in [
            ("", "0 bytes"),
            ("\n0123456789abcdef", "0 bytes"),
            ("0123456789abcde", "15 bytes"),
            (&long, "16000 bytes"),
            ("0123456789abcdef\n0123456789", "begin the line with #"),
        ] {
            let error = read(Path::new("s.txt"), &|_| Ok(text.to_owned())).unwrap_err();
            for word in ["s.txt", words, "give 16 to 4096"] {
                assert!(error.contains(word), "{text:?}: {error}");
            }
            assert!(!error.contains("01234"), "{error}");
        }
        let three = "0123456789abcdef\n".repeat(3);
        let error = read(Path::new("s.txt"), &|_| Ok(three.clone())).unwrap_err();
        assert!(error.contains("3 secrets"), "{error}");
        let error = read(Path::new("s.txt"), &|_| Err(io::ErrorKind::NotFound.into()));
        assert!(error.unwrap_err().contains("cannot read s.txt"));
    }
}
