//! The tokens of a local cluster: a tokens file for its nodes, a token with all rights for its
//! user, and a secret by which the nodes recognize each other, because nodes use no tokens. All are
//! kept, so that the user may add tokens to the file.

use super::write;
use crate::failure::Failure;
use crate::files;
use base::OsRandom;
use std::io;
use std::path::{Path, PathBuf};
use tokens::{NewToken, Stanza};

/// The name of the token in logs.
const NAME: &str = "dev-admin";

/// The files of the tokens.
pub(in crate::dev) struct AdminToken {
    /// The tokens file of all nodes.
    pub(in crate::dev) tokens_file: PathBuf,
    /// The file with the token.
    pub(in crate::dev) token_file: PathBuf,
    /// The file with the field of requests that has the token, for curl.
    pub(in crate::dev) header_file: PathBuf,
    /// The file with the secret of the cluster.
    pub(in crate::dev) secret_file: PathBuf,
}

impl AdminToken {
    /// Those of the cluster in `data`. They need not exist yet.
    pub(in crate::dev) fn of(data: &Path) -> Self {
        Self {
            tokens_file: data.join("tokens.toml"),
            token_file: data.join("admin-token"),
            header_file: data.join("admin-token.header"),
            secret_file: data.join("cluster-secret"),
        }
    }

    /// What the file of the secret holds; some secret before it is made.
    ///
    /// # Errors
    /// Those of the system.
    pub(in crate::dev) fn read_secret(&self) -> io::Result<String> {
        match files::read(&self.secret_file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok("not made yet".repeat(3)),
            read => read,
        }
    }

    /// Makes the files, unless they exist. The tokens file comes last, so that a token
    /// whose hash it has is never lost.
    ///
    /// # Errors
    /// The token is gone; a file cannot be written; the system has no randomness.
    pub(in crate::dev) fn make_files(&self) -> Result<(), Failure> {
        let random = OsRandom::new().map_err(|error| {
            Failure::failed(format!("the system provides no random numbers: {error}"))
        })?;
        if !self.secret_file.exists() {
            write(
                &self.secret_file,
                &format!("{}\n", NewToken::draw(&random).text()),
            )?;
        }
        let shown = self.token_file.display();
        match (self.tokens_file.exists(), self.token_file.exists()) {
            (true, true) => return self.make_header(),
            (true, false) => {
                return Err(Failure::failed(format!(
                    "{shown} is missing, and {} has only the hash of its token: remove that file, \
                     too, to make new tokens",
                    self.tokens_file.display()
                )));
            }
            (false, _) => {}
        }
        let token = NewToken::draw(&random);
        let stanza = Stanza {
            name: NAME.to_owned(),
            hash: token.hash(),
            read: true,
            write: true,
            prefixes: Vec::new(),
            admin: true,
            metrics: true,
            expires_unix_s: None,
        };
        write(&self.token_file, &format!("{}\n", token.text()))?;
        self.make_header()?;
        write(&self.tokens_file, &stanza.to_string())
    }

    /// Makes the file of the field, from that of the token.
    fn make_header(&self) -> Result<(), Failure> {
        let token = files::read(&self.token_file).map_err(|error| {
            Failure::failed(format!(
                "cannot read {}: {error}",
                self.token_file.display()
            ))
        })?;
        let field = format!("Authorization: Bearer {}\n", token.trim());
        write(&self.header_file, &field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_token_is_kept_and_only_its_owner_may_read_it() {
        let data = tempfile::tempdir().unwrap();
        let files = AdminToken::of(data.path());
        let made = || {
            files.make_files().ok().unwrap();
            std::fs::read_to_string(&files.token_file).unwrap()
        };
        let first = made();
        assert_eq!(made(), first);
        let text = std::fs::read_to_string(&files.tokens_file).unwrap();
        assert!(tokens::read(&text).is_ok());
        assert!(!text.contains(first.trim()));
        let header = std::fs::read_to_string(&files.header_file).unwrap();
        assert_eq!(header, format!("Authorization: Bearer {first}"));
        for file in [
            &files.token_file,
            &files.header_file,
            &files.tokens_file,
            &files.secret_file,
        ] {
            let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", file.display());
        }
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a file that is no part of a store"
    )]
    fn a_token_that_is_gone_is_told_and_a_start_that_was_cut_short_is_repeated() {
        let data = tempfile::tempdir().unwrap();
        let files = AdminToken::of(data.path());
        files.make_files().ok().unwrap();
        let first = std::fs::read_to_string(&files.token_file).unwrap();
        // A crash between the two files.
        std::fs::remove_file(&files.tokens_file).unwrap();
        files.make_files().ok().unwrap();
        assert_ne!(std::fs::read_to_string(&files.token_file).unwrap(), first);
        std::fs::remove_file(&files.token_file).unwrap();
        let failure = files.make_files().unwrap_err();
        assert!(
            failure.line().contains("admin-token is missing"),
            "{}",
            failure.line()
        );
    }
}
