//! The tokens of the tokens file.
//!
//! The file is reread when it changes. If it vanishes or cannot be used, the previous tokens stay
//! valid: a half-edited file or a failing disk must lock nobody out, least of all the operator. The
//! log says so once, and a metric shows it while it lasts.

use super::reloading::Reload;
use super::shared_tokens::{Records, TokensStore};
use api::tokens::SharedToken;
use arc_swap::ArcSwap;
use base::Clock;
use node::metrics::Family;
use profile::lock;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokens::{FILE_BYTES_MAX, Token, TokenHash, TokenTable};

/// The permission bits with which others than a file's owner may change it.
const MODE_OF_CHANGES: u32 = 0o022;

/// The tokens of a file, as they were last read.
pub(crate) struct TokensInForce {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    /// What the nodes share, and where it is kept.
    shared: Mutex<Records>,
    store: TokensStore,
    table: ArcSwap<TokenTable>,
    /// What the last look at the file found.
    seen: Mutex<Seen>,
    /// Whether the file cannot be used now.
    is_stale: AtomicBool,
    /// How often tokens were taken from the file.
    loads: AtomicU64,
}

/// What a look at the file found: its text, or why it cannot be read.
type Seen = Result<String, String>;

impl TokensInForce {
    /// Reads a file for the first time.
    ///
    /// # Errors
    /// Why it cannot be used, in a sentence that names it.
    pub(super) fn read(
        file: &Path,
        store: TokensStore,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let text = read_text(file)?;
        let shared = store.load()?;
        let table = table_of(file, &text, &shared)?.at(clock.unix_ms());
        Ok(Self {
            file: file.to_owned(),
            clock: Arc::clone(clock),
            shared: Mutex::new(shared),
            store,
            table: ArcSwap::from_pointee(table),
            seen: Mutex::new(Ok(text)),
            is_stale: AtomicBool::new(false),
            loads: AtomicU64::new(1),
        })
    }

    /// How many tokens are in force.
    pub(crate) fn count(&self) -> usize {
        self.table.load().len()
    }

    /// Whether the file cannot be used now.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// The token in force whose hash this is.
    pub(crate) fn find(&self, hash: &TokenHash) -> Option<Arc<Token>> {
        self.table.load().find(hash).map(Arc::clone)
    }

    /// The names of the tokens in the file, and what the nodes share.
    pub(crate) fn list(&self) -> (Vec<String>, Vec<SharedToken>) {
        let seen = lock(&self.seen).clone();
        let own = seen.and_then(|text| own_table_of(&self.file, &text));
        let mut names: Vec<String> = own.map_or_else(
            |_| Vec::new(),
            |own| own.names().map(str::to_owned).collect(),
        );
        names.sort_unstable();
        (names, lock(&self.shared).list())
    }

    /// Takes a record of a shared token, makes it durable and puts it in force. Blocks.
    ///
    /// # Errors
    /// What is wrong with the record or the tokens file; those of the disk. Then nothing changes.
    pub(crate) fn share(&self, record: SharedToken) -> Result<(), String> {
        let text = lock(&self.seen).clone()?;
        let mut shared = lock(&self.shared);
        let mut next = shared.clone();
        if !next.merge(record)? {
            return Ok(());
        }
        let table = table_of(&self.file, &text, &next)?;
        self.store.store(&next)?;
        *shared = next;
        self.replace(table.at(self.clock.unix_ms()));
        Ok(())
    }

    /// Takes a table into force.
    fn replace(&self, mut table: TokenTable) {
        let earlier = self.table.load_full();
        let replaced = table.take_over(&earlier);
        let names =
            |table: &TokenTable| -> BTreeSet<String> { table.names().map(str::to_owned).collect() };
        let (old, new) = (names(&earlier), names(&table));
        let added: Vec<&str> = new.difference(&old).map(String::as_str).collect();
        let removed: Vec<&str> = old.difference(&new).map(String::as_str).collect();
        let tokens = table.len();
        // In this order: a caller whose token is superseded must find what is in force now.
        self.table.store(Arc::new(table));
        for token in replaced {
            token.supersede();
        }
        self.loads.fetch_add(1, Ordering::Relaxed);
        tracing::info!(
            file = %self.file.display(), tokens, added = added.join(","),
            removed = removed.join(","), "the tokens in force have changed"
        );
    }
}

/// The metrics of the tokens, also of a node that has none.
pub(super) fn families(tokens: Option<&TokensInForce>) -> Vec<Family> {
    let is_stale = tokens.is_some_and(TokensInForce::is_stale);
    let loads = tokens.map_or(0, |tokens| tokens.loads.load(Ordering::Relaxed));
    vec![
        Family::gauge(
            "kvorum_tokens",
            "Tokens in force",
            tokens.map_or(0, TokensInForce::count) as f64,
        ),
        Family::gauge(
            "kvorum_tokens_file_stale",
            "1 while the tokens file cannot be used and the previous tokens stay valid",
            f64::from(u8::from(is_stale)),
        ),
        Family::gauge(
            "kvorum_tokens_next_expiry_timestamp_seconds",
            "When the next token expires; 0 if none does",
            tokens
                .and_then(|tokens| tokens.table.load().next_expiry_unix_ms())
                .map_or(0.0, |unix_ms| unix_ms as f64 / 1000.0),
        ),
        Family::counters(
            "kvorum_tokens_file_loads",
            "How often the tokens file was loaded",
            [(Vec::new(), loads)],
        ),
    ]
}

impl Reload for TokensInForce {
    fn reload(&self, is_ordered: bool) {
        let found = read_text(&self.file);
        let now_unix_ms = self.clock.unix_ms();
        let mut seen = lock(&self.seen);
        let is_same = found == *seen;
        let earlier = self.table.load_full();
        let expires = earlier.next_expiry_unix_ms();
        let is_expired = expires.is_some_and(|at| at <= now_unix_ms);
        if is_same && !is_ordered && !is_expired {
            return;
        }
        seen.clone_from(&found);
        drop(seen);
        let shared = lock(&self.shared);
        let table = found.and_then(|text| table_of(&self.file, &text, &shared));
        if table.is_err() && is_expired {
            // Expiry does not wait for a file that is right.
            self.replace(TokenTable::clone(&earlier).at(now_unix_ms));
        }
        let table = table.map(|table| table.at(now_unix_ms));
        self.is_stale.store(table.is_err(), Ordering::Relaxed);
        match table {
            Ok(table) => self.replace(table),
            Err(problem) => tracing::error!(
                "{problem}; the previous tokens stay valid, and none can be added or revoked \
                 until the file is corrected"
            ),
        }
    }
}

/// The tokens of the file alone.
fn own_table_of(file: &Path, text: &str) -> Result<TokenTable, String> {
    tokens::read(text).map_err(|error| format!("the tokens file {}: {error}", file.display()))
}

/// The tokens of the file, and those that the nodes share.
fn table_of(file: &Path, text: &str, shared: &Records) -> Result<TokenTable, String> {
    let own = own_table_of(file, text)?;
    let stanzas = shared.stanzas_beside(&own)?;
    if stanzas.is_empty() {
        return Ok(own);
    }
    tokens::read(&format!("{text}\n{stanzas}")).map_err(|error| {
        format!(
            "the shared tokens with the file {}: {error}",
            file.display()
        )
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the file belongs to the operator and is not part of a store"
)]
fn read_text(file: &Path) -> Result<String, String> {
    let cannot = |what: String| format!("the tokens file {}: {what}", file.display());
    let system = |error: io::Error| cannot(format!("cannot read it: {error}"));
    // A pipe would block.
    if !std::fs::metadata(file).map_err(system)?.is_file() {
        return Err(cannot("it is not a file".to_owned()));
    }
    let open = File::open(file).map_err(system)?;
    let metadata = open.metadata().map_err(system)?;
    let mode = metadata.permissions().mode() & 0o777;
    let own = rustix::process::geteuid().as_raw();
    if mode & MODE_OF_CHANGES != 0 {
        return Err(cannot(format!(
            "users other than its owner can change it (mode {mode:o}) and give themselves rights: \
             run chmod go-w {}",
            file.display()
        )));
    }
    if metadata.uid() != own && metadata.uid() != 0 {
        return Err(cannot(format!(
            "it belongs to another user ({}), who can give themselves rights: it must belong to \
             the user of the node ({own}) or to root",
            metadata.uid()
        )));
    }
    let mut text = String::new();
    let mut limited = open.take(FILE_BYTES_MAX as u64 + 1);
    limited.read_to_string(&mut text).map_err(system)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
