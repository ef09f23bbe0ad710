//! What is in force on a node: who the nodes of the cluster are, and which of them keep a key.
//!
//! A [`Layout`] never changes. Each request, session, page and scan keeps the one that it began
//! with, so that it counts over the same nodes from begin to end.
//!
//! `list` is the list of members, `paxos` how nodes agree on the next one, `transitions` which may
//! follow which and what a change waits for, `driver` what takes a change forward, `plans` what
//! operators ask for, and why not. `placements` says where keys lie while a list changes, and
//! `quorum` which replicas a request needs then.

pub mod driver;
mod list;
pub mod paxos;
mod placements;
mod plans;
mod quorum;
mod transitions;

pub use list::{ClusterId, JoinedStore, LIST_BYTES_MAX, ListedMember, Lists, MemberList, Phase};
pub use placements::Placements;
pub use plans::{Change, Joiner, Refusal};
pub(crate) use quorum::Group;
pub use quorum::{Quorum, WhichList};
pub use transitions::{ChangeProgress, MemberReport, Reports, WaitsFor};

use crate::members::{Member, Members, NodeId, NodeTable};
use crate::placement::PreferenceList;
use crate::replicas::Replicas;

/// The number of a list of members: 0 for the nodes that form the cluster, and one more with each
/// change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// The nodes of the cluster in one epoch, as one of them sees them.
#[derive(Clone, Debug)]
pub struct Layout {
    epoch: Epoch,
    change: Epoch,
    phase: Phase,
    members: Members,
    placements: Placements,
    /// The greatest `from` of a request.
    from_max: u8,
    /// The pair of the list; none in the founding one, whose nodes may be told others.
    default_pair: Option<Replicas>,
}

impl Layout {
    /// That of the nodes which form the cluster.
    #[must_use]
    pub fn founding(members: Members) -> Self {
        Self {
            epoch: Epoch::default(),
            change: Epoch::default(),
            phase: Phase::Stable,
            placements: Placements::from(&members),
            from_max: members.count(),
            default_pair: None,
            members,
        }
    }

    /// That of a list, as its member `own` sees it. Its [members](Self::members) are those that are
    /// not dead: nobody asks or serves a dead one, though keys are placed on it until it has left.
    /// `None` if `own` is no member, or dead.
    #[must_use]
    pub fn of(list: &MemberList, own: NodeId) -> Option<Self> {
        let live = list.members().iter().filter(|member| !member.is_dead);
        let members = live.map(|member| (member.id, member.member.clone()));
        let has_changed = list.epoch() > Epoch::default();
        Some(Self {
            epoch: list.epoch(),
            change: list.change(),
            phase: list.phase(),
            members: Members::with_ids(members.collect(), own)?,
            placements: Placements::from(list),
            from_max: list.from_max(),
            default_pair: has_changed.then(|| list.default_pair()),
        })
    }

    /// That of nodes with these names on this machine, whose IDs are their places, as `own` sees
    /// them; for tests. `None` if a name is none, or `own` has no name.
    #[must_use]
    pub fn named(names: &[&str], own: NodeId) -> Option<Self> {
        let nodes = (0..=u8::MAX).map(NodeId::new).zip(names);
        let nodes = nodes.map(|(id, name)| {
            let url = format!("http://[::1]:{}", id.index() + 1).parse().ok()?;
            Some((id, Member::named(name, url).ok()?))
        });
        let nodes: Option<NodeTable<Member>> = nodes.collect();
        Members::with_ids(nodes?, own).map(Self::founding)
    }

    /// The number of this list of members.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The epoch in which the present change of the members began; without one, the last change.
    #[must_use]
    pub fn change(&self) -> Epoch {
        self.change
    }

    /// How far a change of the members is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How many replicas a request can have: the number of members, of the smaller list in a change.
    #[must_use]
    pub fn from_max(&self) -> u8 {
        self.from_max
    }

    /// How many replicas a request has that does not say so, and how many must answer: the pair of the
    /// list. `None` before the first change: each node has the pair of its configuration.
    #[must_use]
    pub fn default_pair(&self) -> Option<Replicas> {
        self.default_pair
    }

    /// The nodes that talk to each other: the members of either list that are not dead.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Where keys lie; a key may lie on a dead member, which is not among the
    /// [members](Self::members).
    #[must_use]
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// The first `from` nodes of the key's preference list; all nodes when there are fewer. In a
    /// change of the members, those of the old list, and behind them the others of the new one.
    #[must_use]
    pub fn preference_list(&self, key: &[u8], from: u8) -> PreferenceList {
        self.placements.preference_list(key, from)
    }

    /// The replicas of a key, for those who need no order: all nodes, without a hash, when there
    /// are no more than `from`.
    #[must_use]
    pub fn replicas(&self, key: &[u8], from: u8) -> PreferenceList {
        self.placements.replicas(key, from)
    }

    /// Whether a node is one of the first `from` of the key's preference list. Without a hash when
    /// all nodes are.
    #[must_use]
    pub fn is_replica(&self, node: NodeId, key: &[u8], from: u8) -> bool {
        self.placements.is_replica(node, key, from)
    }

    /// Whether two nodes are both among the first `from` of the key's preference list. Without a
    /// hash when all nodes are.
    #[must_use]
    pub fn are_replicas(&self, both: [NodeId; 2], key: &[u8], from: u8) -> bool {
        self.placements.are_replicas(both, key, from)
    }
}
