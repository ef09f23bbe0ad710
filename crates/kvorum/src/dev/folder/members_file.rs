//! The file of the nodes of a local cluster, from the first change of its members on: before that
//! the options say who they are.
//!
//! Nodes keep their URLs from then on, because the list of members has them. A founder is always
//! started with the list that formed the cluster, and a node that has joined with the URL of
//! another one: then each comes back with what it has in its folder, and also with an empty one.

use super::write;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The name of the file in the folder of the cluster.
const FILE: &str = "members.json";

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(in crate::dev) struct KnownNode {
    pub(in crate::dev) number: u8,
    pub(in crate::dev) url: String,
    /// Whether it has joined the cluster, which others have formed.
    pub(in crate::dev) has_joined: bool,
}

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(in crate::dev) struct MembersFile {
    /// The list that formed the cluster, as the option has it.
    pub(in crate::dev) founders: String,
    /// The nodes now, by ascending numbers.
    pub(in crate::dev) nodes: Vec<KnownNode>,
}

impl MembersFile {
    /// Reads the file of a cluster; none if its members have not changed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(in crate::dev) fn read(data: &Path) -> Result<Option<Self>, Failure> {
        let path = data.join(FILE);
        let failed = |error: String| {
            Failure::failed(format!(
                "cannot read the members of the cluster in {}: {error}",
                path.display()
            ))
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // What is no folder is reported when it is locked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        let file: Self = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if file.nodes.is_empty() {
            return Err(failed("it names none".to_owned()));
        }
        Ok(Some(file))
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub(in crate::dev) fn write(&self, data: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
        write(&data.join(FILE), &format!("{text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_are_read_as_they_were_written_and_damage_is_reported() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(MembersFile::read(data.path()).ok().unwrap(), None);
        let file = MembersFile {
            founders: "node-1=http://127.0.0.1:8080".to_owned(),
            nodes: vec![KnownNode {
                number: 4,
                url: "http://127.0.0.1:8083".to_owned(),
                has_joined: true,
            }],
        };
        file.write(data.path()).ok().unwrap();
        assert_eq!(MembersFile::read(data.path()).ok().unwrap(), Some(file));
        write(&data.path().join(FILE), "{}").ok().unwrap();
        let failure = MembersFile::read(data.path()).unwrap_err();
        assert!(failure.line().contains(FILE), "{}", failure.line());
    }
}
