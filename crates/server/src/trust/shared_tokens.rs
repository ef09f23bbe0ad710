//! Tokens that all nodes of a cluster share, beside those of each node's own tokens file.
//!
//! `kvorum admin token` brings each change to all members, one by one; a node that is down gets it when
//! the command runs again. So a record says which change of its name it is. Of two the later change
//! counts; of two that are the same change the revocation, and otherwise the greater hash. Nodes that
//! have been told the same records share the same tokens, in whatever order they were told, and a
//! revoked token does not come back by a record of before.
//!
//! ```text
//! TOKENS   { "version": 1, "tokens": [ records ] }, in the data folder
//! ```

use api::tokens::SharedToken;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lsm::Disk;
use lsm::disk::{read_small_file, replace_file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokens::{Stanza, TOKENS_MAX, TokenHash, TokenTable};

/// The name of the file.
const FILE: &str = "TOKENS";

/// The longest file that is read, in bytes: far above that of as many tokens as there may be.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The version of its format.
const VERSION: u32 = 1;

/// The versions that are read.
pub(crate) const TOKENS_VERSIONS: RangeInclusive<u32> = VERSION..=VERSION;

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    tokens: Vec<SharedToken>,
}

/// The records, of each name the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Records(BTreeMap<String, SharedToken>);

impl Records {
    /// All, by their names.
    pub(super) fn list(&self) -> Vec<SharedToken> {
        self.0.values().cloned().collect()
    }

    /// Takes a record, unless a later one is there. Returns whether it was taken.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn merge(&mut self, record: SharedToken) -> Result<bool, String> {
        stanza_of(&record)?;
        let order = |it: &SharedToken| (it.change, it.revoked, it.sha256.to_ascii_lowercase());
        let known = self.0.get(&record.name);
        if known.is_some_and(|known| order(known) >= order(&record)) {
            return Ok(false);
        }
        if known.is_none() && self.0.len() >= TOKENS_MAX {
            return Err(format!("the nodes share {TOKENS_MAX} tokens, and no more"));
        }
        self.0.insert(record.name.clone(), record);
        Ok(true)
    }

    /// The parts of a tokens file for those that are not revoked, and that such a file does not have by
    /// its own `table`.
    pub(super) fn stanzas_beside(&self, table: &TokenTable) -> Result<String, String> {
        let mut text = String::new();
        for record in self.0.values().filter(|record| !record.revoked) {
            let stanza = stanza_of(record)?;
            let is_own = table.names().any(|name| name == stanza.name);
            if !is_own && table.find(&stanza.hash).is_none() {
                text.push_str(&format!("\n{stanza}"));
            }
        }
        Ok(text)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if content.version != VERSION {
            return Err(format!(
                "it has version {}, and this release reads {VERSION}",
                content.version
            ));
        }
        let mut records = Self::default();
        for record in content.tokens {
            records.merge(record)?;
        }
        Ok(records)
    }

    fn bytes(&self) -> Vec<u8> {
        let content = Content {
            version: VERSION,
            tokens: self.list(),
        };
        // Strings and numbers always have a JSON form.
        let mut bytes = serde_json::to_vec_pretty(&content).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// A record as the part of a tokens file that it stands for.
fn stanza_of(record: &SharedToken) -> Result<Stanza, String> {
    let prefixes = record
        .prefixes_base64
        .iter()
        .map(|prefix| BASE64.decode(prefix));
    let prefixes: Result<Vec<_>, _> = prefixes.collect();
    let expires = record.expires.as_deref().map(str::parse::<jiff::Timestamp>);
    let expires = expires
        .transpose()
        .map_err(|error| format!("expires: {error}"))?;
    let stanza = Stanza {
        name: record.name.clone(),
        hash: TokenHash::parse(&record.sha256).ok_or("sha256 has to be 64 hexadecimal digits")?,
        read: record.read,
        write: record.write,
        prefixes: prefixes.map_err(|error| format!("prefixes_base64: {error}"))?,
        admin: record.admin,
        metrics: record.metrics,
        expires_unix_s: expires.map(jiff::Timestamp::as_second),
    };
    tokens::read(&stanza.to_string()).map_err(|error| error.to_string())?;
    Ok(stanza)
}

/// The file of the records.
pub(super) struct TokensStore {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

impl TokensStore {
    pub(super) fn new(disk: &Arc<dyn Disk>, folder: &Path) -> Self {
        Self {
            disk: Arc::clone(disk),
            folder: folder.to_owned(),
        }
    }

    /// What the file has; nothing if there is none.
    ///
    /// # Errors
    /// It cannot be read, or has something else.
    pub(super) fn load(&self) -> Result<Records, String> {
        let path = self.folder.join(FILE);
        let failed = |problem: String| {
            format!(
                "{}: {problem}. Remove it, and run kvorum admin token sync once the node is up",
                path.display()
            )
        };
        let found = read_small_file(&*self.disk, &path, FILE_BYTES_MAX);
        let Some(bytes) = found.map_err(|error| failed(error.to_string()))? else {
            return Ok(Records::default());
        };
        Records::parse(&bytes).map_err(failed)
    }

    /// Makes the records durable. Blocks.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn store(&self, records: &Records) -> Result<(), String> {
        replace_file(&*self.disk, &self.folder, FILE, &records.bytes())
            .map_err(|error| format!("cannot write the file {FILE}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, change: u64, token: &str) -> SharedToken {
        SharedToken {
            name: name.to_owned(),
            change,
            revoked: false,
            sha256: TokenHash::of(token.as_bytes()).to_string(),
            read: true,
            write: false,
            prefixes_base64: vec![BASE64.encode("cart/")],
            admin: false,
            metrics: false,
            expires: Some("2027-02-28T00:00:00Z".to_owned()),
        }
    }

    fn revoked(name: &str, change: u64) -> SharedToken {
        SharedToken {
            revoked: true,
            ..record(name, change, "gone")
        }
    }

    #[test]
    fn nodes_that_are_told_the_same_in_any_order_share_the_same() {
        let told = [
            record("a", 1, "first"),
            record("a", 2, "second"),
            record("a", 2, "at the same time"),
            revoked("b", 1),
            record("b", 1, "b"),
            record("c", 3, "c"),
            revoked("c", 4),
        ];
        let mut expected: Option<Records> = None;
        // Each one is the last once.
        for first in 0..told.len() {
            let mut records = Records::default();
            for index in (first..told.len()).chain(0..first).chain(0..told.len()) {
                records.merge(told[index].clone()).unwrap();
            }
            assert_eq!(expected.get_or_insert(records.clone()), &records, "{first}");
        }
        let text = expected
            .unwrap()
            .stanzas_beside(&TokenTable::default())
            .unwrap();
        let table = tokens::read(&text).unwrap();
        assert_eq!(table.names().collect::<Vec<_>>(), ["a"]);
        let hash = |token: &str| TokenHash::of(token.as_bytes());
        let winner = hash("second")
            .to_string()
            .max(hash("at the same time").to_string());
        assert_eq!(table.tokens().next().unwrap().hash.to_string(), winner);
    }

    #[test]
    fn what_a_nodes_own_file_has_is_not_there_twice() {
        let mut records = Records::default();
        for name in ["own", "other name", "shared"] {
            // The second name is none.
            let taken = records.merge(record(name, 1, name));
            assert_eq!(taken.is_err(), name == "other name", "{taken:?}");
        }
        records.merge(record("same", 1, "hash")).unwrap();
        let of_file = |name: &str, token: &str| {
            let hash = TokenHash::of(token.as_bytes());
            format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n")
        };
        let own = tokens::read(&(of_file("own", "x") + &of_file("its", "hash"))).unwrap();
        let table = tokens::read(&records.stanzas_beside(&own).unwrap()).unwrap();
        assert_eq!(table.names().collect::<Vec<_>>(), ["shared"]);
    }

    #[test]
    fn the_file_has_the_form_of_the_fixture() {
        const FIXTURE: &str = include_str!("../../tests/fixtures/TOKENS");
        let mut records = Records::default();
        records.merge(record("shop", 2, "abc")).unwrap();
        records.merge(revoked("ops", 3)).unwrap();
        assert_eq!(String::from_utf8(records.bytes()).unwrap(), FIXTURE);
        assert_eq!(Records::parse(FIXTURE.as_bytes()), Ok(records));
        let later = FIXTURE.replace("\"version\": 1", "\"version\": 2");
        let problem = Records::parse(later.as_bytes()).unwrap_err();
        assert!(problem.contains("version 2"), "{problem}");
    }
}
