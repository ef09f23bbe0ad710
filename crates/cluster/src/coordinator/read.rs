//! A read: asks `ack` replicas, and one more for each that fails or is slow.
//!
//! The read returns the newest version among the answers, and sends it to each replica whose answer
//! is stale.
//!
//! **Why a read sees acknowledged writes.** It waits for `ack` answers. When the acks of reads and
//! writes overlap, one of those replicas has the write.
//!
//! **Why reads never go back.** A read replies only when the replicas that it counts hold the
//! newest version. Any later read with overlapping acks meets one of them. Stale replicas beyond
//! these are repaired in the background.
//!
//! **Repairs count like acks.** A repaired replica holds the version. If it held nothing newer when
//! the version first arrived there, it acks the write of that version, and that write counts it
//! (see [`Write`](super::Write)). A replica that held something newer, or does not know, is asked
//! once more, and the read continues with its new answer. So a read never returns a version of its
//! pair that fewer than `ack` replicas ack, and the write of such a version may still take a second
//! timestamp.
//!
//! **Copies.** A version that was written for `c` copies belongs on the first `c` replicas of the
//! preference list. Answers of the other replicas count as they are, and those replicas are not
//! repaired. But every read of more than half of the replicas must meet a version that was
//! returned, so it must lie on `from - from / 2` of them. While fewer are known to have it, such
//! reads also repair replicas beyond the first `c`, in the order of the preference list: never
//! going back is more important than the number of copies.
//!
//! **Tombstone GC.** Each answer names the GC threshold of its store, below which
//! stores may have dropped what is dead. A dead version below the greatest threshold named is as
//! good as no version: the read answers that there is none, and repairs nobody with it,
//! because the others would refuse it. But it still hides older versions from this read.
//!
//! **Below its closed timestamp** a replica takes a repair only with a version that a store of
//! the cluster has answered with, so the shell names that store. A replica that refuses
//! nevertheless ([`Miss::Obsolete`]) is not repaired, and is not tried again. If it names a
//! greater timestamp than the holders of the version, the GC threshold may have risen, and the
//! holders are about to hear of it. Then the read asks all replicas anew:
//!
//! - the first time at once, then after a pause each time;
//! - until the holders of the version name that timestamp, too;
//! - at most [`TIMES_ANEW_MAX`] times, because what was named may be a closed timestamp, which
//!   no answer names.

use super::Decision;
use super::read_progress::{AllProgress, ReadProgress, Version};
use super::read_steps::{ReadAction, ReadActions, ReadEvent};
use crate::placement::REPLICAS_INLINE;
use crate::repair::is_absent;
use crate::replicas::{Fate, Miss, ReplicaIndex, Replicas};
use base::{Entry, Kind, NewerVersion, Timestamp};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// How often a read asks all replicas anew, at most.
pub const TIMES_ANEW_MAX: u8 = 12;

/// The coordination of one read.
#[derive(Clone, Debug)]
pub struct Read {
    replicas: Replicas,
    stage: Stage,
    /// How many answers to gather: `ack`, and one more for each replica that was slow.
    wanted: u8,
    /// The replicas to ask when one is needed.
    untried: smallvec::IntoIter<[ReplicaIndex; REPLICAS_INLINE]>,
    freshest: Option<Entry>,
    /// Whether the freshest version is dead.
    is_freshest_dead: bool,
    /// The greatest GC threshold that an answer has named.
    forgotten: Timestamp,
    /// The greatest GC threshold that an answer with the freshest version has named.
    forgotten_by_holders: Timestamp,
    /// How often all replicas were asked anew, because the GC threshold has risen.
    times_anew: u8,
    /// What is known of each replica.
    progress: AllProgress,
}

/// How far the read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Too few replicas have answered, or too few of them hold the freshest version.
    Gathering,
    /// The same, and nothing is under way: those that hold the freshest version have yet to
    /// hear of a greater GC threshold.
    Pausing,
    /// The client has its answer.
    Replied,
    /// Nothing is left to do.
    Done,
}

impl Read {
    /// Begins a read. `preference` holds the replicas of the key, the first
    /// choice first and those known to be down last.
    #[must_use]
    pub fn start(
        replicas: Replicas,
        preference: impl IntoIterator<Item = ReplicaIndex>,
        actions: &mut ReadActions,
    ) -> Self {
        Self::start_with(replicas, replicas.ack, preference, actions)
    }

    /// The same, but it asks all replicas at once, so that it finds and repairs each that is
    /// stale.
    #[must_use]
    pub fn start_asking_all(
        replicas: Replicas,
        preference: impl IntoIterator<Item = ReplicaIndex>,
        actions: &mut ReadActions,
    ) -> Self {
        Self::start_with(replicas, replicas.from, preference, actions)
    }

    fn start_with(
        replicas: Replicas,
        wanted: u8,
        preference: impl IntoIterator<Item = ReplicaIndex>,
        actions: &mut ReadActions,
    ) -> Self {
        let untried: SmallVec<[ReplicaIndex; REPLICAS_INLINE]> = preference.into_iter().collect();
        let mut read = Self {
            replicas,
            stage: Stage::Gathering,
            wanted,
            untried: untried.into_iter(),
            freshest: None,
            is_freshest_dead: false,
            forgotten: Timestamp::ZERO,
            forgotten_by_holders: Timestamp::ZERO,
            times_anew: 0,
            progress: AllProgress::new(replicas),
        };
        read.advance(actions);
        read
    }

    /// Takes an event, and adds what follows from it to `actions`.
    pub fn step(&mut self, event: ReadEvent, actions: &mut ReadActions) {
        match event {
            ReadEvent::Answered {
                replica,
                entry,
                is_dead,
                forgotten,
            } => self.answered(replica, entry, is_dead, forgotten),
            ReadEvent::Missed { replica, why } => {
                if let Some(progress @ ReadProgress::Asked) = self.progress_of(replica) {
                    *progress = ReadProgress::Missed(why);
                }
            }
            ReadEvent::Repaired {
                replica,
                newer_version,
            } => self.repaired(replica, newer_version, actions),
            ReadEvent::RepairMissed { replica, why } => {
                if let Some(progress @ ReadProgress::Repairing { .. }) = self.progress_of(replica) {
                    *progress = ReadProgress::Unrepaired(why);
                }
            }
            ReadEvent::Slow { replica } => {
                if let Some(ReadProgress::Asked | ReadProgress::Repairing { .. }) =
                    self.progress_of(replica)
                {
                    self.wanted = self.wanted.saturating_add(1);
                }
            }
            ReadEvent::Resumed => {
                if self.stage == Stage::Pausing {
                    self.stage = Stage::Gathering;
                    self.ask_anew(actions);
                }
            }
            ReadEvent::Deadline => self.end(actions),
        }
        self.advance(actions);
    }

    /// The freshest version of all answers, which may be a tombstone or expired.
    #[must_use]
    pub fn freshest(&self) -> Option<&Entry> {
        self.freshest.as_ref()
    }

    /// What the client gets: the freshest version, unless it is dead and forgotten.
    #[must_use]
    pub fn answer(&self) -> Option<&Entry> {
        self.freshest().filter(|_| !self.is_forgotten())
    }

    /// What became of it at each replica, in the order of the preference list.
    pub fn fates(&self) -> impl Iterator<Item = Fate> {
        self.progress.iter().map(|progress| match progress {
            ReadProgress::Untried | ReadProgress::Asked => Fate::Unanswered,
            ReadProgress::Answered { said, .. } | ReadProgress::Repairing { said, .. } => *said,
            ReadProgress::Unrepaired(why) | ReadProgress::Missed(why) => Fate::Missed(*why),
        })
    }

    fn progress_of(&mut self, replica: ReplicaIndex) -> Option<&mut ReadProgress> {
        self.progress.get_mut(replica)
    }

    /// Notes an answer, if one is awaited.
    fn answered(
        &mut self,
        replica: ReplicaIndex,
        entry: Option<Entry>,
        is_dead: bool,
        forgotten: Timestamp,
    ) {
        if self.progress_of(replica) != Some(&mut ReadProgress::Asked) {
            return;
        }
        self.forgotten = self.forgotten.max(forgotten);
        let said = match &entry {
            Some(entry) if entry.kind() == Kind::Value => Fate::Value,
            _ => Fate::Absent,
        };
        let rank = entry.as_ref().map(Entry::rank);
        let holds = match rank.cmp(&self.freshest.as_ref().map(Entry::rank)) {
            Ordering::Less => Version::Older,
            Ordering::Equal => {
                self.forgotten_by_holders = self.forgotten_by_holders.max(forgotten);
                Version::Freshest
            }
            Ordering::Greater => {
                self.age();
                self.freshest = entry;
                self.is_freshest_dead = is_dead;
                self.forgotten_by_holders = forgotten;
                Version::Freshest
            }
        };
        if let Some(progress) = self.progress_of(replica) {
            *progress = ReadProgress::Answered { holds, said };
        }
    }

    /// Notes that a replica was repaired. If it held a version that is newer than all
    /// answers so far, it is asked for that version, unless the client has its reply.
    fn repaired(
        &mut self,
        replica: ReplicaIndex,
        newer_version: NewerVersion,
        actions: &mut ReadActions,
    ) {
        let freshest = self.freshest.as_ref().map(Entry::timestamp);
        let is_gathering = self.stage == Stage::Gathering;
        let Some(progress) = self.progress_of(replica) else {
            return;
        };
        let ReadProgress::Repairing { with, said } = *progress else {
            return;
        };
        *progress = match newer_version {
            NewerVersion::At(newest) | NewerVersion::Unknown(newest)
                if is_gathering && Some(newest) > freshest =>
            {
                actions.push(ReadAction::Ask { replica });
                ReadProgress::Asked
            }
            NewerVersion::At(_) | NewerVersion::Unknown(_) if is_gathering => {
                let holds = Version::Older;
                ReadProgress::Answered { holds, said }
            }
            _ => ReadProgress::Answered { holds: with, said },
        };
    }

    /// A fresher version has come: all replicas that hold another one are stale.
    fn age(&mut self) {
        for progress in self.progress.iter_mut() {
            if let ReadProgress::Answered { holds: version, .. }
            | ReadProgress::Repairing { with: version, .. } = progress
            {
                *version = Version::Older;
            }
        }
    }

    /// Ends the read: nothing is awaited any more, and no repair begins.
    fn end(&mut self, actions: &mut ReadActions) {
        for progress in self.progress.iter_mut() {
            match progress {
                ReadProgress::Asked => *progress = ReadProgress::Missed(Miss::Timeout),
                ReadProgress::Repairing { .. } => {
                    *progress = ReadProgress::Unrepaired(Miss::Timeout);
                }
                _ => {}
            }
        }
        if matches!(self.stage, Stage::Gathering | Stage::Pausing) {
            let acks = self.progress.answers();
            let decision = if self.may_reply() {
                Decision::Enough { acks }
            } else {
                self.not_enough()
            };
            self.reply(decision, actions);
        }
        if self.stage == Stage::Replied {
            self.stage = Stage::Done;
            actions.push(ReadAction::Done);
        }
    }

    /// Goes on as far as what is known allows.
    fn advance(&mut self, actions: &mut ReadActions) {
        let ack = self.replicas.ack;
        if self.stage == Stage::Gathering {
            self.ask(actions);
            let acks = self.progress.answers();
            if self.may_reply() {
                self.reply(Decision::Enough { acks }, actions);
            } else if acks >= ack {
                self.repair_own(actions);
                self.repair_beyond(actions);
            }
            // Too few answers can still come, or too few replicas could be repaired.
            let is_hopeless = acks + self.progress.asked() < ack
                || self.progress.asked() + self.progress.repairing() == 0;
            if self.stage == Stage::Gathering && is_hopeless && !self.begin_anew(actions) {
                self.reply(self.not_enough(), actions);
            }
        }
        if self.stage == Stage::Replied {
            self.repair_own(actions);
            if self.progress.asked() + self.progress.repairing() == 0 {
                self.stage = Stage::Done;
                actions.push(ReadAction::Done);
            }
        }
    }

    /// Asks anew, now or after a pause, if that can help: a replica was not repaired because
    /// it forgets more than those that hold the version have named. Returns whether it can.
    fn begin_anew(&mut self, actions: &mut ReadActions) -> bool {
        let named = self.forgotten_by_holders;
        let has_risen = self.progress.iter().any(|progress| {
            matches!(progress, ReadProgress::Unrepaired(Miss::Obsolete { below }) if *below > named)
        });
        let are_enough = self.progress.answers() >= self.replicas.ack && self.progress.fresh() > 0;
        let may_ask = self.times_anew < TIMES_ANEW_MAX;
        if !has_risen
            || !are_enough
            || !may_ask
            || self.progress.asked() + self.progress.repairing() > 0
        {
            return false;
        }
        self.times_anew += 1;
        match self.times_anew {
            1 => self.ask_anew(actions),
            _ => {
                self.stage = Stage::Pausing;
                actions.push(ReadAction::Pause);
            }
        }
        true
    }

    /// Asks all replicas that have answered.
    fn ask_anew(&mut self, actions: &mut ReadActions) {
        for replica in self.replicas.indexes() {
            if let Some(progress @ (ReadProgress::Answered { .. } | ReadProgress::Unrepaired(_))) =
                self.progress_of(replica)
            {
                *progress = ReadProgress::Asked;
                actions.push(ReadAction::Ask { replica });
            }
        }
    }

    /// The failure of the read. A replica that could not be repaired does not count.
    fn not_enough(&self) -> Decision {
        let acks = self.counted();
        Decision::NotEnough { acks }
    }

    fn reply(&mut self, decision: Decision, actions: &mut ReadActions) {
        self.stage = Stage::Replied;
        actions.push(ReadAction::Reply(decision));
    }

    /// Asks until enough answers have come or can come, or no replica is left. A replica
    /// that could not be repaired does not count, because it does not hold the version.
    fn ask(&mut self, actions: &mut ReadActions) {
        while self.counted() + self.progress.asked() < self.wanted
            && let Some(replica) = self.untried.next()
        {
            if let Some(progress @ ReadProgress::Untried) = self.progress_of(replica) {
                *progress = ReadProgress::Asked;
                actions.push(ReadAction::Ask { replica });
            }
        }
    }

    /// Whether the read may reply: `ack` answers are fresh or need no repair, and enough
    /// replicas hold the freshest version for later reads to meet it. Once a majority
    /// holds it, the answer of a replica that cannot be repaired counts as well.
    fn may_reply(&self) -> bool {
        if self.is_forgotten() {
            return self.progress.answers() >= self.replicas.ack;
        }
        let beyond = self.progress.iter().skip(self.copies());
        let left_alone = beyond.filter(|progress| progress.is_stale()).count() as u8;
        let fresh = self.progress.fresh();
        let spared = if fresh > self.replicas.from / 2 {
            self.progress.unrepaired()
        } else {
            0
        };
        fresh >= self.holders_min() && fresh + left_alone + spared >= self.replicas.ack
    }

    /// Repairs the stale ones of the replicas that the freshest version is written for.
    fn repair_own(&mut self, actions: &mut ReadActions) {
        for replica in self.replicas.indexes().take(self.copies()) {
            self.repair(replica, actions);
        }
    }

    /// Repairs beyond those replicas as long as too few would hold the freshest version.
    fn repair_beyond(&mut self, actions: &mut ReadActions) {
        for replica in self.replicas.indexes().skip(self.copies()) {
            // A replica that is being repaired with an older version is checked again
            // after that repair.
            if self.progress.fresh() + self.progress.repairing() >= self.holders_min() {
                return;
            }
            self.repair(replica, actions);
        }
    }

    fn repair(&mut self, replica: ReplicaIndex, actions: &mut ReadActions) {
        if self.is_forgotten() {
            return;
        }
        if let Some(progress) = self.progress.get_mut(replica)
            && let ReadProgress::Answered {
                holds: Version::Older,
                said,
            } = *progress
        {
            let with = Version::Freshest;
            *progress = ReadProgress::Repairing { with, said };
            actions.push(ReadAction::Repair { replica });
        }
    }

    /// Whether the freshest version is dead below the greatest GC threshold named.
    fn is_forgotten(&self) -> bool {
        self.freshest.as_ref().is_some_and(|freshest| {
            is_absent(freshest.timestamp(), self.is_freshest_dead, self.forgotten)
        })
    }

    /// How many answers count: a replica that could not be repaired does not, unless
    /// there is nothing to repair it with.
    fn counted(&self) -> u8 {
        if self.is_forgotten() {
            self.progress.answers()
        } else {
            self.progress.answers() - self.progress.unrepaired()
        }
    }

    /// How many replicas the freshest version is written for: the first of the preference list.
    fn copies(&self) -> usize {
        let copies = self.freshest.as_ref().map_or(0, Entry::copies);
        usize::from(copies.min(self.replicas.from))
    }

    /// How many replicas must hold the freshest version for no later read to miss it.
    fn holders_min(&self) -> u8 {
        let Replicas { from, .. } = self.replicas;
        if self.replicas.overlap() {
            from - from / 2
        } else {
            0
        }
    }
}
