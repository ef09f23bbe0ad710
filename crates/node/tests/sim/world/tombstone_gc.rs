//! What must be true of tombstone GC: once all is healed the GC threshold rises above all versions,
//! and then no tombstone is left, and each store keeps the copies that its versions ask for and no
//! others. What was deleted does not come back: reads
//! check that all the time, and once more at the end.

use super::stores::KeyCopies;
use super::{PATIENCE, World};
use crate::dice::Dice;
use crate::scenario::TombstoneGc;
use base::{Clock, Entry, Kind, Timestamp};
use checker::{Action, Outcome, Request};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the GC threshold may take to rise above a timestamp, besides the GC grace: until
/// the slowest clock is there, a session whose coordinator does not go on is known to be over, and
/// some others have ended.
const RISING: Duration = Duration::from_secs(40);

/// How often to look.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

impl World {
    /// Waits until the GC threshold is above all versions, and has the stores compacted one after
    /// another: then no tombstone is left and no non-owned copy, and meanwhile all can be read,
    /// although some nodes have dropped what others still have. Those reads bring non-owned
    /// copies back, until the next compaction.
    pub(super) async fn collect_all(
        &self,
        tombstone_gc: TombstoneGc,
        dice: &Dice,
    ) -> Result<(), String> {
        self.write_all(dice).await?;
        self.rise_above_all(tombstone_gc).await?;
        let members = self.members();
        let all = members.len() as u8;
        let first = dice.place(members.len());
        let (before, behind) = members.split_at(first);
        for host in behind.iter().chain(before) {
            self.hosts[*host].compact();
            self.read_all(all, None, dice).await?;
        }
        for host in &members {
            self.hosts[*host].compact();
        }
        for key_copies in self.copies_of_all_keys()? {
            if key_copies.non_owned().next().is_some() {
                return Err(format!(
                    "a copy of key {} below the GC threshold is left where it does not belong:\n{}",
                    key_copies.key(),
                    key_copies.describe()
                ));
            }
            let mut entries = key_copies.entries();
            if entries.any(|entry| entry.kind() == Kind::Tombstone) {
                return Err(format!(
                    "a tombstone below the GC threshold is left of key {}:\n{}",
                    key_copies.key(),
                    key_copies.describe()
                ));
            }
        }
        Ok(())
    }

    /// Puts and deletes, of any number of copies: no closed timestamp may be in the way of what is
    /// written now.
    async fn write_all(&self, dice: &Dice) -> Result<(), String> {
        let members = self.members();
        let all = members.len() as u8;
        for key in 0..self.scenario.keys {
            let action = if dice.percent(50) {
                Action::Put { ttl_seconds: None }
            } else {
                Action::Delete
            };
            let copies = if dice.percent(50) {
                all
            } else {
                dice.within(&(1..=u64::from(all))) as u8
            };
            let request = Request {
                client: self.scenario.clients,
                node: *dice.pick(&members),
                key,
                action,
                ack: copies,
                from: copies,
            };
            let outcome = self.ask(request, PATIENCE).await;
            if !matches!(outcome, Some(Outcome::Written { .. })) {
                return Err(format!("all faults are healed, yet {request}: {outcome:?}"));
            }
        }
        Ok(())
    }

    async fn rise_above_all(&self, tombstone_gc: TombstoneGc) -> Result<(), String> {
        let began = Instant::now();
        let copies = self.copies_of_all_keys()?;
        let entries = copies.iter().flat_map(KeyCopies::entries);
        let newest = entries.map(Entry::timestamp).max();
        let newest = newest.unwrap_or(Timestamp::ZERO);
        let members = self.members();
        let hosts = members.iter().map(|host| &self.hosts[*host]);
        while let Some(host) = hosts.clone().find(|host| {
            let known = host.gc_status();
            known.is_none_or(|known| known.gc_threshold.min(known.non_owned_below) <= newest)
        }) {
            if began.elapsed() > tombstone_gc.gc_grace + RISING {
                return Err(format!(
                    "the GC threshold of node {} does not rise above {newest}\n{}",
                    host.number(),
                    self.describe_stores()
                ));
            }
            sleep(LOOK_PERIOD).await;
        }
        let _greatest = self.gc_threshold();
        self.trace
            .note(format_args!("the GC threshold is above all versions"));
        Ok(())
    }

    /// A copy, unless it is dead below the GC threshold: another node may have dropped it.
    pub(super) fn not_collected<'a>(&self, entry: &'a Option<Entry>) -> Option<&'a Entry> {
        let gc_threshold = self.gc_threshold();
        let is_collected = |entry: &Entry| entry.timestamp() < gc_threshold && self.is_dead(entry);
        entry.as_ref().filter(|entry| !is_collected(entry))
    }

    /// Whether two copies are the same version: compaction turns one that has expired long
    /// ago into a tombstone.
    pub(super) fn is_the_same(&self, one: &Entry, other: &Entry) -> bool {
        let are_dead = || self.is_dead(one) && self.is_dead(other);
        one == other || one.timestamp() == other.timestamp() && are_dead()
    }

    /// Whether a copy is a tombstone, or has expired by every clock.
    fn is_dead(&self, entry: &Entry) -> bool {
        let clocks = self.hosts.iter().map(|host| host.clock.unix_ms());
        entry.kind() == Kind::Tombstone || !entry.is_live(clocks.min().unwrap_or(0))
    }
}
