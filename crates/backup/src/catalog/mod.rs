//! The backups at a target: begun, completed, listed, verified and pruned.

mod listing;
mod notes;
mod prune;
mod verify;

pub(crate) use listing::read_nodes;
pub use listing::{Listed, Listing, Unreadable};
pub(crate) use notes::is_running;
pub use notes::{NoteWatch, Running};
pub use prune::{Prune, Pruned};
pub use verify::{Verified, Verify};

use crate::contents::{BackupContents, ClusterContents, User, get, put, put_new};
use crate::error::BackupError;
use crate::layout::{self, BackupId, FORMAT};
use crate::target::Target;
use base::Clock;
use listing::{list_backups, remove};
use notes::NotePlace;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The backups at a target. All calls block.
pub struct Catalog {
    target: Arc<dyn Target>,
    clock: Arc<dyn Clock>,
    watch: Arc<NoteWatch>,
}

impl Catalog {
    /// The backups at this target.
    #[must_use]
    pub fn new(target: Arc<dyn Target>, clock: Arc<dyn Clock>) -> Self {
        Self {
            target,
            clock,
            watch: Arc::default(),
        }
    }

    /// The same, with what was seen of its notes before.
    #[must_use]
    pub fn watching(self, watch: Arc<NoteWatch>) -> Self {
        Self { watch, ..self }
    }

    fn place(&self) -> NotePlace {
        NotePlace {
            target: Arc::clone(&self.target),
            clock: Arc::clone(&self.clock),
            watch: Arc::clone(&self.watch),
        }
    }

    fn target(&self) -> &dyn Target {
        &*self.target
    }

    /// Finds that the target belongs to the cluster of `user`. One that belongs to none does then.
    fn claim(&self, user: &User) -> Result<(), BackupError> {
        let target = self.target();
        let mut known: Option<ClusterContents> = get(target, layout::CLUSTER)?;
        if known.is_none() {
            put_new(target, layout::CLUSTER, &ClusterContents::of(user, None))?;
            known = get(target, layout::CLUSTER)?;
        }
        let missing = || BackupError::damaged(layout::CLUSTER, "it is not there");
        let known = known.ok_or_else(missing)?;
        known.check(user)?;
        // Stores come and go one by one.
        let next = ClusterContents::of(user, Some(&known));
        if next != known {
            put(target, layout::CLUSTER, &next)?;
        }
        Ok(())
    }

    /// Gives the target to the cluster of `user`, whomever it belongs to. What runs there for another
    /// cluster completes nothing any more.
    ///
    /// # Errors
    /// Those of the target.
    pub fn adopt(&self, user: &User) -> Result<(), BackupError> {
        let contents = ClusterContents::of(user, None);
        put(self.target(), layout::CLUSTER, &contents).map(|_| ())
    }

    /// Looks at the notes of those who use the target, so that it is known which of them are dead, and
    /// takes back what earlier starts of the user have noted.
    ///
    /// # Errors
    /// Those of the target.
    pub fn look_at_notes(&self, user: &User) -> Result<(), BackupError> {
        let known: Option<ClusterContents> = get(self.target(), layout::CLUSTER)?;
        if known.is_some_and(|known| known.check(user).is_ok()) {
            let now = self.clock.monotonic();
            notes::look(self.target(), &self.watch, now, (user, ""), |_| None)?;
        }
        Ok(())
    }

    /// Begins a backup.
    ///
    /// # Errors
    /// [`BackupError::Busy`] while tables are removed, [`BackupError::OtherCluster`]; those of the
    /// target.
    pub fn begin(&self, user: &User, random: u64) -> Result<Running, BackupError> {
        self.claim(user)?;
        let unix_ms = self.clock.unix_ms();
        let id = BackupId::new(unix_ms, random);
        let note = (layout::running(&id), id);
        Running::begin(self.place(), user, note, unix_ms, |other| {
            let text = "backups are being pruned at this target; try again later";
            layout::is_pruning(other).then_some(text)
        })
    }

    /// All backups.
    ///
    /// # Errors
    /// Those of the target.
    pub fn list(&self) -> Result<Listing, BackupError> {
        list_backups(self.target())
    }

    /// A backup; the newest one without an `id`.
    ///
    /// # Errors
    /// [`BackupError::NotFound`], [`BackupError::Damaged`], [`BackupError::Newer`]; without an `id`
    /// [`BackupError::Invalid`] if one cannot be read, which may be the newest; those of the target.
    pub fn find(&self, id: Option<&BackupId>) -> Result<Listed, BackupError> {
        match id {
            Some(id) => {
                let contents = get(self.target(), &layout::backup(id))?;
                let contents = contents.ok_or_else(|| BackupError::NotFound(id.to_string()))?;
                let id = id.clone();
                Ok(Listed { id, contents })
            }
            None => {
                let listing = self.list()?;
                if let Some(Unreadable { why, .. }) = listing.unreadable.first() {
                    let what = "it may be the newest backup: name the one that you mean";
                    return Err(BackupError::Invalid(format!("{why}; {what}")));
                }
                let newest = listing.backups.into_iter().next();
                newest.ok_or_else(|| BackupError::NotFound("at the target".to_owned()))
            }
        }
    }

    /// Begins to read everything of a backup.
    #[must_use]
    pub fn verify(&self, backup: Listed) -> Verify {
        Verify::new(Arc::clone(&self.target), backup)
    }

    /// Begins to remove all complete backups but the newest `keep`, at least one, and what no backup
    /// needs that is left.
    ///
    /// # Errors
    /// [`BackupError::Busy`] while a backup runs, [`BackupError::OtherCluster`]; those of the target.
    pub fn prune(&self, user: &User, keep: usize, random: u64) -> Result<Prune, BackupError> {
        self.claim(user)?;
        let unix_ms = self.clock.unix_ms();
        let id = BackupId::new(unix_ms, random);
        let note = (layout::pruning(&id), id);
        let running = Running::begin(self.place(), user, note, unix_ms, |other| {
            Some(if layout::is_pruning(other) {
                "backups are being pruned at this target already"
            } else {
                "a backup runs at this target: prune it later"
            })
        })?;
        match self.list() {
            Ok(listing) => Ok(Prune::new(running, listing, keep)),
            Err(error) => {
                running.end()?;
                Err(error)
            }
        }
    }
}

impl ClusterContents {
    /// The stores of the cluster of a user. Those that it does not know are as they were.
    fn of(user: &User, known: Option<&Self>) -> Self {
        let stores = user.stores.iter().filter_map(|(name, id)| {
            let id = id.map(|id| format!("{id:016x}"));
            let id = id.or_else(|| known?.stores.get(name).cloned())?;
            Some((name.clone(), id))
        });
        Self {
            format: FORMAT,
            stores: stores.collect(),
        }
    }

    /// Checks that the cluster of a user has one of the stores.
    fn check(&self, user: &User) -> Result<(), BackupError> {
        let own = Self::of(user, None);
        let is_own = |(name, id): (&String, &String)| own.stores.get(name) == Some(id);
        if self.stores.iter().any(is_own) {
            return Ok(());
        }
        let nodes: Vec<&str> = self.stores.keys().map(String::as_str).collect();
        let nodes = nodes.join(", ");
        Err(BackupError::OtherCluster { nodes })
    }
}

impl Running {
    /// Makes what the nodes have stored a backup: with this there is one. Its number is what it
    /// becomes.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if something is missing, [`BackupError::TakenForDead`],
    /// [`BackupError::OtherCluster`]; those of the target.
    pub fn complete(&self, contents: &BackupContents) -> Result<Listed, BackupError> {
        let target = &*self.target;
        let listed = target.list(layout::TABLES);
        let listed = listed.map_err(|error| BackupError::target("list", layout::TABLES, error))?;
        let stored = listed.into_iter().map(|object| (object.name, object.bytes));
        let stored: BTreeMap<String, u64> = stored.collect();
        let mut backup = Listed {
            id: self.id.clone(),
            contents: contents.clone(),
        };
        for (name, node) in read_nodes(target, &backup)? {
            for table in &node.tables {
                let object = layout::table(&table.sha256);
                if stored.get(&object) != Some(&table.bytes) {
                    let what =
                        format!("{name} names it, and it is not there or has another length");
                    return Err(BackupError::damaged(&object, what));
                }
            }
        }
        let others = list_backups(target)?.backups;
        let last = others.iter().map(|other| other.contents.number).max();
        backup.contents.number = last.map_or(1, |last| last.saturating_add(1));
        let known: Option<ClusterContents> = get(target, layout::CLUSTER)?;
        if let Some(known) = known {
            known.check(&self.user)?;
        }
        self.check_noted()?;
        let name = layout::backup(&self.id);
        // One that is there may be this: what was put by a request whose answer was lost.
        if !put_new(target, &name, &backup.contents)?
            && get(target, &name)?.as_ref() != Some(&backup.contents)
        {
            return Err(BackupError::Invalid(format!("{name} is there already")));
        }
        // Whoever has removed the note meanwhile may have listed the backups before.
        if let Err(error) = self.check_noted() {
            remove(target, &name)?;
            return Err(error);
        }
        self.end()?;
        Ok(backup)
    }
}
