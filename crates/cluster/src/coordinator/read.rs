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
//! timestamp. The exception is a replica whose store can take nothing: it counts once a majority
//! holds the version.
//!
//! **Copies.** A version that was written for `c` copies belongs on the first `c` replicas of the
//! preference list. Answers of the other replicas count as they are, and those replicas are not
//! repaired. But every read of more than half of the replicas must meet a version that was
//! returned, so it must lie on `from - from / 2` of them. While fewer are known to have it, such
//! reads also repair replicas beyond the first `c`, in the order of the preference list: never
//! going back is more important than the number of copies. A conditional write builds on a version
//! only if `ack` replicas hold it, so a read for one brings it to as many, whatever its copies
//! ([`Read::start_for_condition`]).
//!
//! **While the list of members changes** a key may have two groups of replicas
//! ([`Quorum`](crate::Quorum)). The read replies once `ack` replicas of *each* hold the newest
//! version, by their answers or by repairs that count. If one group were enough, a read of the one
//! and the next of the other could go back. A replica that is in both counts in both, so the shell
//! prefers those. A version belongs on the first `c` replicas of either preference list.
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
use crate::layout::{Group, Quorum};
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
    quorum: Quorum,
    stage: Stage,
    /// How many answers of each list to gather: `ack`, and one more for each replica that was
    /// slow.
    wanted: u8,
    /// How many replicas of each list must hold the freshest version before the reply.
    holders_min: u8,
    /// All replicas in the order in which to ask them.
    preference: SmallVec<[ReplicaIndex; REPLICAS_INLINE]>,
    freshest: Option<Entry>,
    /// Whether the freshest version is dead.
    is_freshest_dead: bool,
    /// The greatest GC threshold that an answer has named.
    gc_threshold: Timestamp,
    /// The greatest GC threshold that an answer with the freshest version has named.
    gc_threshold_of_holders: Timestamp,
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
    /// Begins a read. `preference` holds the replicas of the key, the first choice first and those
    /// known to be down last. In a change, of those that are up, the ones that count in both lists
    /// come first.
    #[must_use]
    pub fn start(
        quorum: impl Into<Quorum>,
        preference: impl IntoIterator<Item = ReplicaIndex>,
        actions: &mut ReadActions,
    ) -> Self {
        let quorum = quorum.into();
        let replicas = quorum.replicas();
        Self::start_with(
            quorum,
            replicas.ack,
            met_by_all(replicas),
            preference,
            actions,
        )
    }

    /// The same, but `ack` replicas of each list hold the freshest version once it replies, however
    /// few copies that was written for: a conditional write can be built on it.
    #[must_use]
    pub fn start_for_condition(
        quorum: impl Into<Quorum>,
        preference: impl IntoIterator<Item = ReplicaIndex>,
        actions: &mut ReadActions,
    ) -> Self {
        let quorum = quorum.into();
        let replicas = quorum.replicas();
        let holders_min = met_by_all(replicas).max(replicas.ack);
        Self::start_with(quorum, replicas.ack, holders_min, preference, actions)
    }

    /// The same as [`start`](Self::start), but it asks all replicas at once, so that it finds and
    /// repairs each that is stale.
    #[must_use]
    pub fn start_asking_all(
        quorum: impl Into<Quorum>,
        preference: impl IntoIterator<Item = ReplicaIndex>,
        actions: &mut ReadActions,
    ) -> Self {
        let quorum = quorum.into();
        let replicas = quorum.replicas();
        Self::start_with(
            quorum,
            replicas.from,
            met_by_all(replicas),
            preference,
            actions,
        )
    }

    fn start_with(
        quorum: Quorum,
        wanted: u8,
        holders_min: u8,
        preference: impl IntoIterator<Item = ReplicaIndex>,
        actions: &mut ReadActions,
    ) -> Self {
        let progress = AllProgress::new(&quorum);
        let mut read = Self {
            quorum,
            stage: Stage::Gathering,
            wanted,
            holders_min,
            preference: preference.into_iter().collect(),
            freshest: None,
            is_freshest_dead: false,
            gc_threshold: Timestamp::ZERO,
            gc_threshold_of_holders: Timestamp::ZERO,
            times_anew: 0,
            progress,
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
                gc_threshold,
            } => self.answered(replica, entry, is_dead, gc_threshold),
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

    /// What the client gets: the freshest version, unless it is dead and collected.
    #[must_use]
    pub fn answer(&self) -> Option<&Entry> {
        self.freshest().filter(|_| !self.is_collected())
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
        gc_threshold: Timestamp,
    ) {
        if self.progress_of(replica) != Some(&mut ReadProgress::Asked) {
            return;
        }
        self.gc_threshold = self.gc_threshold.max(gc_threshold);
        let said = match &entry {
            Some(entry) if entry.kind() == Kind::Value => Fate::Value,
            _ => Fate::Absent,
        };
        let rank = entry.as_ref().map(Entry::rank);
        let holds = match rank.cmp(&self.freshest.as_ref().map(Entry::rank)) {
            Ordering::Less => Version::Older,
            Ordering::Equal => {
                self.gc_threshold_of_holders = self.gc_threshold_of_holders.max(gc_threshold);
                Version::Freshest
            }
            Ordering::Greater => {
                self.age();
                self.freshest = entry;
                self.is_freshest_dead = is_dead;
                self.gc_threshold_of_holders = gc_threshold;
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
            NewerVersion::At(newest)
            | NewerVersion::Overtaken(newest)
            | NewerVersion::Unknown(newest)
                if is_gathering && Some(newest) > freshest =>
            {
                actions.push(ReadAction::Ask { replica });
                ReadProgress::Asked
            }
            NewerVersion::At(_) | NewerVersion::Overtaken(_) | NewerVersion::Unknown(_)
                if is_gathering =>
            {
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
            let acks = self.answers();
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
        let ack = self.quorum.replicas().ack;
        if self.stage == Stage::Gathering {
            self.ask(actions);
            let acks = self.answers();
            if self.may_reply() {
                self.reply(Decision::Enough { acks }, actions);
            } else if acks >= ack {
                self.repair_own(actions);
                self.repair_beyond(actions);
            }
            // Too few answers can still come, or too few replicas could be repaired.
            let is_hopeless = self.least(|progress| progress.is_answer() || progress.is_asked())
                < ack
                || !self.progress.is_underway();
            if self.stage == Stage::Gathering && is_hopeless && !self.begin_anew(actions) {
                self.reply(self.not_enough(), actions);
            }
        }
        if self.stage == Stage::Replied {
            self.repair_own(actions);
            if !self.progress.is_underway() {
                self.stage = Stage::Done;
                actions.push(ReadAction::Done);
            }
        }
    }

    /// Asks anew, now or after a pause, if that can help: a replica was not repaired because
    /// its GC threshold is above those that the holders of the version have named. Returns
    /// whether it can.
    fn begin_anew(&mut self, actions: &mut ReadActions) -> bool {
        let named = self.gc_threshold_of_holders;
        let has_risen = self.progress.iter().any(|progress| {
            matches!(progress, ReadProgress::Unrepaired(Miss::Obsolete { below }) if *below > named)
        });
        let are_enough = self.answers() >= self.quorum.replicas().ack
            && self.progress.iter().any(ReadProgress::is_fresh);
        let may_ask = self.times_anew < TIMES_ANEW_MAX;
        if !has_risen || !are_enough || !may_ask || self.progress.is_underway() {
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
        for replica in self.quorum.indexes() {
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

    /// Asks until enough answers of each list have come or can come, or no replica is left.
    fn ask(&mut self, actions: &mut ReadActions) {
        while let Some(replica) = self.next_to_ask()
            && let Some(progress) = self.progress_of(replica)
        {
            *progress = ReadProgress::Asked;
            actions.push(ReadAction::Ask { replica });
        }
    }

    /// The next replica of a list of which too few answers have come and can come. A replica that
    /// could not be repaired does not count, because it does not hold the version.
    fn next_to_ask(&self) -> Option<ReplicaIndex> {
        let progress = self.progress.as_slice();
        let is_collected = self.is_collected();
        let is_short = |group: &Group<'_>| {
            let may_count = |each: &ReadProgress| each.is_asked() || each.counts(is_collected);
            group.count(progress, may_count) < self.wanted
        };
        let is_untried = |replica: &ReplicaIndex| {
            progress.get(replica.as_usize()) == Some(&ReadProgress::Untried)
        };
        let mut short = self.quorum.groups().filter(is_short);
        short.find_map(|group| {
            let mut preference = self.preference.iter();
            let next = preference.find(|it| is_untried(it) && group.contains(**it));
            next.copied()
        })
    }

    /// Whether the read may reply: in each list `ack` answers are fresh or need no repair, and
    /// enough replicas hold the freshest version for later reads to meet it.
    fn may_reply(&self) -> bool {
        let ack = self.quorum.replicas().ack;
        if self.is_collected() {
            return self.answers() >= ack;
        }
        let copies = self.copies();
        self.quorum
            .groups()
            .all(|group| self.may_reply_by(group, copies))
    }

    /// Whether the replicas of a list suffice for a reply. Once a majority holds the freshest
    /// version, the answer of a replica whose store cannot take it counts as well.
    fn may_reply_by(&self, group: Group<'_>, copies: u8) -> bool {
        let Replicas { ack, from } = self.quorum.replicas();
        let progress = self.progress.as_slice();
        let left_alone = group.of(progress).filter(|(replica, progress)| {
            progress.is_stale() && !self.quorum.is_own(*replica, copies)
        });
        let left_alone = left_alone.count() as u8;
        let fresh = group.count(progress, ReadProgress::is_fresh);
        let spared = if fresh > from / 2 {
            group.count(progress, ReadProgress::is_unable)
        } else {
            0
        };
        fresh >= self.holders_min && fresh + left_alone + spared >= ack
    }

    /// Repairs the stale ones of the replicas that the freshest version is written for.
    fn repair_own(&mut self, actions: &mut ReadActions) {
        let copies = self.copies();
        for replica in self.quorum.indexes() {
            if self.quorum.is_own(replica, copies) {
                self.repair(replica, actions);
            }
        }
    }

    /// Repairs beyond those replicas as long as too few of a list would hold the freshest version.
    fn repair_beyond(&mut self, actions: &mut ReadActions) {
        let copies = self.copies();
        for replica in self.quorum.indexes() {
            // A replica that is being repaired with an older version is checked again
            // after that repair.
            let is_short = |group: Group<'_>| {
                let will_hold = |each: &ReadProgress| each.is_fresh() || each.is_repairing();
                group.contains(replica)
                    && group.count(self.progress.as_slice(), will_hold) < self.holders_min
            };
            if !self.quorum.is_own(replica, copies) && self.quorum.groups().any(is_short) {
                self.repair(replica, actions);
            }
        }
    }

    fn repair(&mut self, replica: ReplicaIndex, actions: &mut ReadActions) {
        if self.is_collected() {
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
    fn is_collected(&self) -> bool {
        self.freshest.as_ref().is_some_and(|freshest| {
            is_absent(
                freshest.timestamp(),
                self.is_freshest_dead,
                self.gc_threshold,
            )
        })
    }

    /// How many replicas of each list have answered.
    fn answers(&self) -> u8 {
        self.least(ReadProgress::is_answer)
    }

    /// How many answers of each list count.
    fn counted(&self) -> u8 {
        let is_collected = self.is_collected();
        self.least(|progress| progress.counts(is_collected))
    }

    /// The least number in a list of replicas for which `is` holds.
    fn least(&self, is: impl Fn(&ReadProgress) -> bool) -> u8 {
        self.quorum.least(self.progress.as_slice(), is)
    }

    /// How many replicas the freshest version is written for: the first of each preference list.
    fn copies(&self) -> u8 {
        let copies = self.freshest.as_ref().map_or(0, Entry::copies);
        copies.min(self.quorum.replicas().from)
    }
}

/// How many replicas of each list must hold a version for no later read of the pair to miss it.
fn met_by_all(replicas: Replicas) -> u8 {
    if replicas.overlap() {
        replicas.from - replicas.from / 2
    } else {
        0
    }
}
