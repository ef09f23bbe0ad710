//! What operators ask for, and why not.

use super::{
    ClusterId, Epoch, JoinedStore, LIST_BYTES_MAX, ListedMember, Lists, MemberList, Phase,
};
use crate::members::{Member, MemberError, NODES_MAX, NodeId, NodeSet, NodeUrl};
use crate::replicas::Replicas;

/// By how many epochs a list that is forced is later than the one before it: more than may have been
/// decided since without this node.
const FORCED_EPOCHS: u64 = 1000;

/// A change of the list of members that an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nodes join, others leave, or both at once. `are_dead` says that those which leave never come
    /// back, so that nothing waits for them. While a change is under way, members can only be
    /// declared dead; they leave after it.
    Members {
        /// Who joins.
        join: Vec<Joiner>,
        /// The names of those that leave.
        leave: Vec<String>,
        /// Whether those that leave are dead.
        are_dead: bool,
    },
    /// A member is reached at another URL, with its store or with an empty one.
    Move {
        /// Its name.
        name: String,
        /// Its new URL.
        url: NodeUrl,
    },
    /// Requests that do not say otherwise have this pair.
    Pair(Replicas),
    /// The change that is under way is undone.
    Abort,
}

/// A node that is to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joiner {
    /// Its name and its URL.
    pub member: Member,
    /// Its zone.
    pub zone: Option<String>,
    /// Its store, which is empty.
    pub store: JoinedStore,
}

/// Why a change is refused, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A change is under way.
    #[error("a change is under way ({}): wait until it ends, or abort it", .phase.word())]
    UnderWay {
        /// How far it is.
        phase: Phase,
    },
    /// No change is under way.
    #[error("no change is under way, so there is nothing to abort")]
    NothingToAbort,
    /// It is being aborted already.
    #[error("the change is being aborted already: wait until all members have reported that")]
    AbortsAlready,
    /// The list would be the same.
    #[error("that changes nothing: the list of members is so already")]
    NoChange,
    /// No member has the name.
    #[error("no member is called {name}: see the list of members")]
    NoMember {
        /// The name.
        name: String,
    },
    /// A member has the name.
    #[error("a member is called {name} already: give the node that joins a name of its own")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A member has the URL.
    #[error(
        "{url} is the address of the member {name}: use another one, or let {name} leave first"
    )]
    UrlTaken {
        /// The URL.
        url: NodeUrl,
        /// The name of the member.
        name: String,
    },
    /// The URL has no port.
    #[error("{url} has port 0: give the port that other nodes use")]
    NoPort {
        /// The URL.
        url: NodeUrl,
    },
    /// The zone has no valid name.
    #[error("the zone cannot be called so: {0}")]
    Zone(MemberError),
    /// Too few members would be left for the default pair.
    #[error(
        "{left} members would be left, but requests ask {from} replicas: change the default pair \
         first"
    )]
    TooFew {
        /// How many would be left.
        left: usize,
        /// The `from` of the default pair.
        from: u8,
    },
    /// There would be too many members.
    #[error("a cluster has at most {max} members, counting those that leave", max = NODES_MAX)]
    TooMany,
    /// The list would have too many bytes.
    #[error(
        "the list of members would have more than {LIST_BYTES_MAX} bytes: use shorter names, URLs \
         and zones"
    )]
    TooLong,
    /// All members that are not dead would be gone.
    #[error("no member would be left that is not dead: let others join first")]
    NoneLeft,
    /// A member that answers was declared dead.
    #[error(
        "{name} answers, so it is not dead: let it leave without that, or stop it and try again"
    )]
    Answers {
        /// Its name.
        name: String,
    },
    /// A majority answers, so that nothing has to be forced.
    #[error(
        "a majority of the members answers, so none has to be forced: let those leave that never \
         come back, with --dead"
    )]
    Majority,
    /// It was declared dead already.
    #[error("{name} has been declared dead already; it leaves once the change has ended")]
    DeadAlready {
        /// Its name.
        name: String,
    },
    /// The pair asks more replicas than there are members.
    #[error("the pair asks {from} replicas of {members} members: use a smaller number")]
    WidePair {
        /// The `from` of the pair.
        from: u8,
        /// How many members there are, in the smaller list.
        members: u8,
    },
}

impl MemberList {
    /// The list that would follow this one if an operator's change is decided. `answer` holds the
    /// members that answer at the moment.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn plan(&self, change: &Change, answer: NodeSet) -> Result<Self, Refusal> {
        match change {
            Change::Members {
                join,
                leave,
                are_dead,
            } => {
                let leaving = self.leaving(leave, *are_dead, answer)?;
                if self.phase == Phase::Stable {
                    self.plan_members(join, leaving, *are_dead)
                } else if *are_dead && join.is_empty() && !leaving.is_empty() {
                    self.plan_dead(leaving)
                } else {
                    Err(self.under_way())
                }
            }
            Change::Move { name, url } => {
                self.check_stable()?;
                self.plan_move(name, url)
            }
            Change::Pair(pair) => {
                self.check_stable()?;
                self.plan_pair(*pair)
            }
            Change::Abort => match self.phase {
                Phase::Stable => Err(Refusal::NothingToAbort),
                Phase::Aborting => Err(Refusal::AbortsAlready),
                // Nobody has ever judged by the new list.
                Phase::Copying => Ok(self.stable(super::WhichList::Old)),
                Phase::Settling => Ok(self.in_phase(Phase::Aborting)),
            },
        }
    }

    /// The list with which these members go on by themselves, because a majority never comes back:
    /// all others are declared dead, and nobody has voted. It is of another cluster, so that nodes
    /// which did not know of it, and decide otherwise, are refused. Its epoch is above any that may
    /// have been decided. `answer` holds the members that answer at the moment.
    ///
    /// A change that is under way goes on. Requests still need their quorums of each list, so none
    /// is answered with less than was promised until the dead have left the list.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn forced(
        &self,
        names: &[String],
        cluster: ClusterId,
        answer: NodeSet,
    ) -> Result<Self, Refusal> {
        if self.is_majority(answer) {
            return Err(Refusal::Majority);
        }
        let left = self.leaving(names, false, answer)?;
        for member in self.members() {
            let name = || member.member.name().to_owned();
            if left.contains(member.id) && member.is_dead {
                return Err(Refusal::DeadAlready { name: name() });
            }
            if !left.contains(member.id) && answer.contains(member.id) {
                return Err(Refusal::Answers { name: name() });
            }
        }
        let mut next = self.in_phase(self.phase);
        next.cluster = cluster;
        next.forced_from = Some(self.cluster);
        next.epoch = Epoch::new(self.epoch.as_u64().saturating_add(FORCED_EPOCHS));
        for member in &mut next.members {
            member.is_dead |= !left.contains(member.id);
        }
        next.check()
    }

    fn check_stable(&self) -> Result<(), Refusal> {
        match self.phase {
            Phase::Stable => Ok(()),
            _ => Err(self.under_way()),
        }
    }

    /// Why nothing else can be ordered now.
    fn under_way(&self) -> Refusal {
        match self.phase {
            Phase::Aborting => Refusal::AbortsAlready,
            phase => Refusal::UnderWay { phase },
        }
    }

    fn find(&self, name: &str) -> Result<&ListedMember, Refusal> {
        let name_of = || name.to_owned();
        self.named(name)
            .ok_or_else(|| Refusal::NoMember { name: name_of() })
    }

    /// The members with these names.
    fn leaving(
        &self,
        names: &[String],
        are_dead: bool,
        answer: NodeSet,
    ) -> Result<NodeSet, Refusal> {
        let mut leaving = NodeSet::default();
        for name in names {
            let member = self.find(name)?;
            let name = || name.clone();
            if are_dead && member.is_dead && self.phase != Phase::Stable {
                return Err(Refusal::DeadAlready { name: name() });
            }
            if are_dead && !member.is_dead && answer.contains(member.id) {
                return Err(Refusal::Answers { name: name() });
            }
            leaving.insert(member.id);
        }
        Ok(leaving)
    }

    /// Begins a change.
    fn plan_members(
        &self,
        join: &[Joiner],
        leaving: NodeSet,
        are_dead: bool,
    ) -> Result<Self, Refusal> {
        if join.is_empty() && leaving.is_empty() {
            return Err(Refusal::NoChange);
        }
        // Who was declared dead in the change before leaves with the next one.
        let leaving = leaving.union(self.dead());
        let mut next = self.copying(|member| {
            if leaving.contains(member.id) {
                Lists::Old
            } else {
                Lists::Both
            }
        });
        for member in &mut next.members {
            member.is_dead |= are_dead && leaving.contains(member.id);
        }
        for joiner in join {
            next.add(joiner)?;
        }
        next.members.sort_unstable_by_key(|member| member.id);
        next.check_size()?;
        next.check()
    }

    /// What is wrong with a list that is none, though it has as many members as it must.
    fn check(self) -> Result<Self, Refusal> {
        let are_dead = |list| self.members_of(list).all(|member| member.is_dead);
        if are_dead(super::WhichList::Old) || are_dead(super::WhichList::New) {
            return Err(Refusal::NoneLeft);
        }
        self.checked().ok_or(Refusal::TooLong)
    }

    /// Declares members dead while a change is under way.
    fn plan_dead(&self, dead: NodeSet) -> Result<Self, Refusal> {
        let mut next = self.in_phase(self.phase);
        for member in &mut next.members {
            member.is_dead |= dead.contains(member.id);
        }
        next.check()
    }

    fn plan_move(&self, name: &str, url: &NodeUrl) -> Result<Self, Refusal> {
        let id = self.find(name)?.id;
        self.check_url(url, Some(id))?;
        let mut next = self.in_phase(Phase::Stable);
        for member in &mut next.members {
            if member.id == id
                && let Ok(moved) = Member::named(name, url.clone())
            {
                member.member = moved;
            }
        }
        if next.members == self.members {
            return Err(Refusal::NoChange);
        }
        next.check()
    }

    fn plan_pair(&self, pair: Replicas) -> Result<Self, Refusal> {
        let (from, members) = (pair.from, self.from_max());
        if from > members {
            return Err(Refusal::WidePair { from, members });
        }
        if pair == self.default_pair {
            return Err(Refusal::NoChange);
        }
        let mut next = self.in_phase(Phase::Stable);
        next.default_pair = pair;
        Ok(next)
    }

    /// Adds a node that joins.
    fn add(&mut self, joiner: &Joiner) -> Result<(), Refusal> {
        let name = joiner.member.name();
        if self.named(name).is_some() {
            let name = name.to_owned();
            return Err(Refusal::NameTaken { name });
        }
        self.check_url(joiner.member.url(), None)?;
        if let Some(zone) = &joiner.zone {
            ListedMember::check_zone(zone).map_err(Refusal::Zone)?;
        }
        let id = self.next_id().ok_or(Refusal::TooMany)?;
        self.greatest_id = self.greatest_id.max(id);
        self.members.push(ListedMember {
            id,
            member: joiner.member.clone(),
            zone: joiner.zone.clone(),
            store: Some(joiner.store),
            lists: Lists::New,
            is_dead: false,
        });
        Ok(())
    }

    /// The next ID to give: the one after the greatest that was ever given; once there is none, the
    /// least that no member has.
    fn next_id(&self) -> Option<NodeId> {
        let next = self.greatest_id.index() + 1;
        if next < NODES_MAX {
            return u8::try_from(next).ok().map(NodeId::new);
        }
        // The members are not sorted while nodes are added.
        let taken: NodeSet = self.members.iter().map(|member| member.id).collect();
        let mut ids = (0..u8::MAX).map(NodeId::new);
        ids.find(|id| !taken.contains(*id))
    }

    fn check_url(&self, url: &NodeUrl, own: Option<NodeId>) -> Result<(), Refusal> {
        if url.port() == 0 {
            return Err(Refusal::NoPort { url: url.clone() });
        }
        let mut members = self.members.iter();
        let is_there = |it: &&ListedMember| {
            Some(it.id) != own && it.member.url().authority() == url.authority()
        };
        match members.find(is_there) {
            None => Ok(()),
            Some(member) => Err(Refusal::UrlTaken {
                url: url.clone(),
                name: member.member.name().to_owned(),
            }),
        }
    }

    fn check_size(&self) -> Result<(), Refusal> {
        if self.members.len() > NODES_MAX {
            return Err(Refusal::TooMany);
        }
        let left = self.members_of(super::WhichList::New).count();
        let from = self.default_pair.from;
        if left == 0 {
            return Err(Refusal::NoneLeft);
        }
        if left < usize::from(from) {
            return Err(Refusal::TooFew { left, from });
        }
        Ok(())
    }
}
