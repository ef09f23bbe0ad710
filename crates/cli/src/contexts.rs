//! Contexts: clusters by name, so that a command need not be told each time where the nodes are and
//! whom to trust. They stand in a file of the user, which `kvorum context` writes:
//!
//! ```toml
//! current = "prod"
//!
//! [context.prod]
//! url = ["https://10.0.0.1:8080", "https://10.0.0.2:8080"]
//! ca = "/etc/kvorum/ca.pem"
//! token-file = "/home/ada/.kvorum-token"
//! ```
//!
//! It names files of secrets and holds none. Two commands that write it at once leave it whole, with
//! the change of one of them.

use crate::failure::Failure;
use crate::values;
use cluster::NodeUrl;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The longest name of a context, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The one that commands use whose nodes are not named otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// All of them, by name.
    #[serde(default)]
    pub context: BTreeMap<String, Context>,
}

/// A cluster, and how to reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Context {
    /// The URLs of its nodes.
    #[serde(rename = "url")]
    pub urls: Vec<String>,
    /// As `--ca`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// As `--client-cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    /// As `--client-key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// As `--token-file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// As `--token-in-clear`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub token_in_clear: bool,
}

impl Context {
    /// Its nodes.
    ///
    /// # Errors
    /// What stands there is no URL of a node, or there is none; a certificate without its key.
    pub fn nodes(&self) -> Result<Vec<NodeUrl>, Failure> {
        let nodes = self.urls.iter().map(|url| values::url(url));
        let nodes: Vec<NodeUrl> = nodes.collect::<Result<_, _>>().map_err(Failure::usage)?;
        if nodes.is_empty() {
            return Err(Failure::usage("it names no URL"));
        }
        if self.client_cert.is_some() != self.client_key.is_some() {
            return Err(Failure::usage(
                "client-cert and client-key belong together: name both, or none",
            ));
        }
        Ok(nodes)
    }
}

impl Contexts {
    /// Reads the user's contexts; there are none where the file is missing.
    ///
    /// # Errors
    /// A file that cannot be read, or has something else in it.
    pub fn read() -> Result<Self, Failure> {
        match file() {
            Some(file) => Self::read_file(&file),
            None => Ok(Self::default()),
        }
    }

    fn read_file(file: &Path) -> Result<Self, Failure> {
        let refused =
            |problem: String| Failure::usage(problem).with_origin(&file.to_string_lossy());
        match std::fs::read_to_string(file) {
            Ok(text) => toml::from_str(&text).map_err(|error| {
                let text = error.to_string();
                let place = text.lines().next().unwrap_or_default();
                refused(format!("{place}: {}", error.message()))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(refused(format!("cannot read it: {error}"))),
        }
    }

    /// Writes them, whole or not at all.
    ///
    /// # Errors
    /// No folder for it is known, or it cannot be written.
    pub fn write(&self) -> Result<(), Failure> {
        let file = file().ok_or_else(|| {
            Failure::usage("no place for contexts is known: set HOME or XDG_CONFIG_HOME")
        })?;
        self.write_file(&file)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display())))
    }

    fn write_file(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let mut folders = std::fs::DirBuilder::new();
        folders.recursive(true).mode(0o700).create(folder)?;
        let mut written = tempfile::NamedTempFile::new_in(folder)?;
        let text = toml::to_string(self).map_err(io::Error::other)?;
        written.write_all(text.as_bytes())?;
        written.as_file().sync_all()?;
        written.persist(file)?;
        Ok(())
    }

    /// The context of this name.
    ///
    /// # Errors
    /// There is none; the line names those that there are.
    pub fn get(&self, name: &str) -> Result<&Context, Failure> {
        self.context.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.context.keys().map(String::as_str).collect();
            Failure::usage(if names.is_empty() {
                format!("there is no context {name}: make it with 'kvorum context add'")
            } else {
                format!("there is no context {name}, only {}", names.join(", "))
            })
        })
    }
}

/// Parses the name of a context.
///
/// # Errors
/// A sentence that says what a name is.
pub fn name(text: &str) -> Result<String, String> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    if (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(is_part) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a name has up to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.'"
    ))
}

/// The file of the user's contexts; none where the user has no home.
fn file() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = named("XDG_CONFIG_HOME").map(PathBuf::from);
    // A relative path there is invalid by the specification.
    let config = config.filter(|folder| folder.is_absolute());
    let config = config.or_else(|| Some(PathBuf::from(named("HOME")?).join(".config")));
    Some(config?.join("kvorum").join("contexts.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kvorum").join("contexts.toml");
        assert_eq!(Contexts::read_file(&file), Ok(Contexts::default()));
        let mut contexts = Contexts {
            current: Some("prod".to_owned()),
            ..Contexts::default()
        };
        let prod = Context {
            urls: vec!["https://a:1".to_owned(), "https://b:1".to_owned()],
            ca: Some("/ca.pem".into()),
            token_in_clear: true,
            ..Context::default()
        };
        contexts.context.insert("prod".to_owned(), prod);
        contexts.write_file(&file).unwrap();
        assert_eq!(Contexts::read_file(&file), Ok(contexts.clone()));

        assert_eq!(contexts.get("prod").unwrap().nodes().unwrap().len(), 2);
        let unknown = contexts.get("test").unwrap_err();
        assert_eq!(unknown.line(), "there is no context test, only prod");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "contexts are no part of a store")]
    fn a_file_with_something_else_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("contexts.toml");
        for text in [
            "current = 1",
            "urls = 1",
            "[context.a]\nurl = []\ntoken = ''",
            "[",
        ] {
            std::fs::write(&file, text).unwrap();
            let refused = Contexts::read_file(&file).unwrap_err();
            assert_eq!(refused.code(), 2, "{text}");
            let begin = file.display().to_string();
            assert!(refused.line().starts_with(&begin), "{}", refused.line());
        }
        let no_url = Context::default().nodes().unwrap_err();
        assert_eq!(no_url.line(), "it names no URL");
        for text in ["", "a b", "a/b", &"a".repeat(65)] {
            assert!(name(text).is_err(), "{text}");
        }
        assert_eq!(name("prod-1.eu_2"), Ok("prod-1.eu_2".to_owned()));
    }
}
