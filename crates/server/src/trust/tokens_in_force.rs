//! The tokens of the tokens file.
//!
//! The file is reread when it changes. If it vanishes or cannot be used, the previous tokens stay
//! valid: a half-edited file or a failing disk must lock nobody out, least of all the operator. The
//! log says so once, and a metric shows it while it lasts.

use super::reloading::Reload;
use arc_swap::ArcSwap;
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
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = read_text(file)?;
        let table = table_of(file, &text)?;
        Ok(Self {
            file: file.to_owned(),
            table: ArcSwap::from_pointee(table),
            seen: Mutex::new(Ok(text)),
            is_stale: AtomicBool::new(false),
            loads: AtomicU64::new(1),
        })
    }

    /// Whether the file cannot be used now.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// The token in force whose hash this is.
    pub(crate) fn find(&self, hash: &TokenHash) -> Option<Arc<Token>> {
        self.table.load().find(hash).map(Arc::clone)
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
            removed = removed.join(","), "the tokens file has changed and was loaded"
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
            tokens.map_or(0, |tokens| tokens.table.load().len()) as f64,
        ),
        Family::gauge(
            "kvorum_tokens_file_stale",
            "1 while the tokens file cannot be used and the previous tokens stay valid",
            f64::from(u8::from(is_stale)),
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
        let now = read_text(&self.file);
        let mut seen = lock(&self.seen);
        let is_same = now == *seen;
        if is_same && !is_ordered {
            return;
        }
        *seen = now.clone();
        drop(seen);
        let table = now.and_then(|text| table_of(&self.file, &text));
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

fn table_of(file: &Path, text: &str) -> Result<TokenTable, String> {
    tokens::read(text).map_err(|error| format!("the tokens file {}: {error}", file.display()))
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
