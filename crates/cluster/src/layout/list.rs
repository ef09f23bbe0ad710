//! The list of members: which nodes the cluster has, and how far a change of them is.
//!
//! There is one list for each epoch, decided by a majority of the old members of the list before
//! ([`paxos`](super::paxos)). Which list may follow which is said in
//! [`transitions`](super::transitions).
//!
//! ```text
//! list   = cluster ID u64 | epoch u64 | change u64 | phase u8 | ack u8 | from u8
//!        | greatest ID u8 | count u8 | cluster ID before u64, if forced | member*
//! phase  = 0 stable | 1 copying | 2 settling | 3 aborting, and 128 more if forced
//! member = ID u8 | flags u8 | name | URL | zone, if named | store id u64, start u64, if joined
//! flags  = 1 only in the old list | 2 only in the new list | 4 dead | 8 zone named | 16 joined
//! name, URL, zone = bytes u16 | UTF-8
//! ```
//!
//! Integers are little-endian. Members ascend by ID. `change` is the epoch that began the present
//! or the last change.

use super::{Epoch, WhichList};
use crate::members::{Member, MemberError, NODES_MAX, NodeId, NodeSet};
use crate::replicas::Replicas;
use base::ByteReader;
use std::collections::BTreeSet;

/// The most bytes of a list: 255 members whose names, URLs and zones have 200 bytes together. It
/// travels in one frame.
pub const LIST_BYTES_MAX: usize = 60_000;

/// In the byte of the phase.
const FLAG_FORCED: u8 = 128;

const FLAG_OLD: u8 = 1;
const FLAG_NEW: u8 = 2;
const FLAG_DEAD: u8 = 4;
const FLAG_ZONE: u8 = 8;
const FLAG_JOINED: u8 = 16;

/// Which cluster: a random number, drawn when the cluster forms and when its members are forced.
/// Nodes of different clusters refuse each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(u64);

impl ClusterId {
    /// The cluster with this number.
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

/// How far a change of the members is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No change is under way.
    Stable = 0,
    /// Repair sessions bring the data to their new replicas. Requests need a quorum of the old and
    /// of the new list; the old one judges.
    Copying = 1,
    /// The new replicas have the data. The same, but the new list judges.
    Settling = 2,
    /// The way back from `Settling` to the old list, with the rules of `Copying`.
    Aborting = 3,
}

impl Phase {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Copying => "copying",
            Self::Settling => "settling",
            Self::Aborting => "aborting",
        }
    }

    /// The list that judges the first timestamps of writes, and that scans ask.
    #[must_use]
    pub const fn judge(self) -> WhichList {
        match self {
            Self::Stable | Self::Copying | Self::Aborting => WhichList::Old,
            Self::Settling => WhichList::New,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Stable, Self::Copying, Self::Settling, Self::Aborting];
        all.into_iter().find(|phase| *phase as u8 == code)
    }
}

/// In which lists a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lists {
    /// In both: it stays.
    Both,
    /// It leaves.
    Old,
    /// It joins.
    New,
}

impl Lists {
    /// Whether it is in that list.
    #[must_use]
    pub const fn contain(self, list: WhichList) -> bool {
        match self {
            Self::Both => true,
            Self::Old => matches!(list, WhichList::Old),
            Self::New => matches!(list, WhichList::New),
        }
    }
}

/// The store with which a node joined, so that a store that replaces it is noticed even by members
/// that never met the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedStore {
    /// The id of the store.
    pub store_id: u64,
    /// The number of its start when it joined.
    pub start: u64,
}

/// A member of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMember {
    /// Its ID, which is given once.
    pub id: NodeId,
    /// Its name and its URL.
    pub member: Member,
    /// What it fails together with, for example a rack; a member without one fails alone. A
    /// preference list has no second node of a zone before each other zone has its first.
    pub zone: Option<String>,
    /// The store that it joined with; `None` for a node that formed the cluster.
    pub store: Option<JoinedStore>,
    /// In which lists it is; in both without a change.
    pub lists: Lists,
    /// Whether an operator has declared it dead. Nobody serves or asks it, and nothing waits for
    /// it. That holds until it has left the list.
    pub is_dead: bool,
}

impl ListedMember {
    /// Whether a zone may be called so: as a node, and not longer than
    /// [`Member::ZONE_BYTES_MAX`].
    ///
    /// # Errors
    /// Those of [`Member::check_name`], and [`MemberError::LongZone`].
    pub fn check_zone(zone: &str) -> Result<(), MemberError> {
        Member::check_name(zone)?;
        let bytes = zone.len();
        if bytes > Member::ZONE_BYTES_MAX {
            return Err(MemberError::LongZone { bytes });
        }
        Ok(())
    }
}

/// The members of the cluster in one epoch.
///
/// It has at most [`LIST_BYTES_MAX`] bytes. Members ascend by ID; no ID, no name, and no host with its port occurs twice; the old and the
/// new list have a member each that is not dead, and at least `from` members of the default pair;
/// without a change every member is in both, and in a change some member is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberList {
    pub(super) cluster: ClusterId,
    /// The cluster that it was until an operator forced its members, if one did.
    pub(super) forced_from: Option<ClusterId>,
    pub(super) epoch: Epoch,
    pub(super) change: Epoch,
    pub(super) phase: Phase,
    pub(super) members: Vec<ListedMember>,
    pub(super) default_pair: Replicas,
    pub(super) greatest_id: NodeId,
}

impl MemberList {
    /// The first list of a cluster, whose members have IDs in the order of their names. [`None`] if
    /// that is no list: see [`MemberList`].
    #[must_use]
    pub fn founding(
        cluster: ClusterId,
        mut members: Vec<Member>,
        default_pair: Replicas,
    ) -> Option<Self> {
        members.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        let listed = (0..=u8::MAX).map(NodeId::new).zip(members);
        let members: Vec<ListedMember> = listed
            .map(|(id, member)| ListedMember {
                id,
                member,
                zone: None,
                store: None,
                lists: Lists::Both,
                is_dead: false,
            })
            .collect();
        let greatest_id = members.last()?.id;
        Self {
            cluster,
            forced_from: None,
            epoch: Epoch::default(),
            change: Epoch::default(),
            phase: Phase::Stable,
            members,
            default_pair,
            greatest_id,
        }
        .checked()
    }

    /// A list of one member, with its zone: it has all keys in any zone. A list with others does not
    /// change, because keys would lie elsewhere.
    #[must_use]
    pub fn in_zone(mut self, zone: Option<&str>) -> Self {
        if let [member] = &mut *self.members {
            member.zone = zone.map(str::to_owned);
        }
        self
    }

    /// Which cluster.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The cluster that it was until an operator forced its members, if one did
    /// ([`Self::forced`]). Members of that cluster take this list over from who has it.
    #[must_use]
    pub fn forced_from(&self) -> Option<ClusterId> {
        self.forced_from
    }

    /// The number of the list.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The epoch in which the present change began; without one, the last change.
    #[must_use]
    pub fn change(&self) -> Epoch {
        self.change
    }

    /// How far the change is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How many replicas a request has, and how many must answer, unless it says otherwise.
    #[must_use]
    pub fn default_pair(&self) -> Replicas {
        self.default_pair
    }

    /// The greatest ID that a member ever had.
    #[must_use]
    pub fn greatest_id(&self) -> NodeId {
        self.greatest_id
    }

    /// The members of either list, by ascending IDs.
    #[must_use]
    pub fn members(&self) -> &[ListedMember] {
        &self.members
    }

    /// The members of one list, by ascending IDs.
    pub fn members_of(&self, list: WhichList) -> impl Iterator<Item = &ListedMember> {
        let members = self.members.iter();
        members.filter(move |member| member.lists.contain(list))
    }

    /// The member with this ID.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&ListedMember> {
        let index = self.members.binary_search_by_key(&id, |member| member.id);
        self.members.get(index.ok()?)
    }

    /// The member with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&ListedMember> {
        let mut members = self.members.iter();
        members.find(|member| member.member.name() == name)
    }

    /// The members of either list that are not dead: whom nodes serve and ask.
    #[must_use]
    pub fn live(&self) -> NodeSet {
        let live = self.members.iter().filter(|member| !member.is_dead);
        live.map(|member| member.id).collect()
    }

    /// The members that an operator has declared dead.
    #[must_use]
    pub fn dead(&self) -> NodeSet {
        let dead = self.members.iter().filter(|member| member.is_dead);
        dead.map(|member| member.id).collect()
    }

    /// Those who decide the next list: the members of the old one.
    #[must_use]
    pub fn voters(&self) -> NodeSet {
        let old = self.members_of(WhichList::Old);
        old.map(|member| member.id).collect()
    }

    /// Whether these nodes are a majority of those who decide the next list. Dead ones count as
    /// members, unless an operator has declared so many dead that no majority is left: then that of
    /// the others decides. All who vote have the same list, so they count alike.
    #[must_use]
    pub fn is_majority(&self, nodes: NodeSet) -> bool {
        let voters = self.voters();
        let live = voters.without(self.dead());
        let is_most = |some: NodeSet, of: NodeSet| 2 * some.iter().count() > of.iter().count();
        let deciding = if is_most(live, voters) { voters } else { live };
        is_most(deciding.without(deciding.without(nodes)), deciding)
    }

    /// How many replicas a request can have: the number of members of the smaller list.
    #[must_use]
    pub fn from_max(&self) -> u8 {
        let count = |list| self.members_of(list).count();
        let least = count(WhichList::Old).min(count(WhichList::New));
        u8::try_from(least).unwrap_or(u8::MAX)
    }

    /// Adds the bytes of the list, at most [`LIST_BYTES_MAX`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.cluster.0, self.epoch.as_u64(), self.change.as_u64()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let Replicas { ack, from } = self.default_pair;
        // There are at most 255 members and IDs.
        let [greatest, count] =
            [self.greatest_id.index(), self.members.len()].map(|number| number as u8);
        let forced = self.forced_from.map_or(0, |_| FLAG_FORCED);
        out.extend_from_slice(&[self.phase as u8 | forced, ack, from, greatest, count]);
        if let Some(cluster) = self.forced_from {
            out.extend_from_slice(&cluster.0.to_le_bytes());
        }
        for member in &self.members {
            let flag = |is_set, flag| if is_set { flag } else { 0 };
            let flags = flag(member.lists == Lists::Old, FLAG_OLD)
                | flag(member.lists == Lists::New, FLAG_NEW)
                | flag(member.is_dead, FLAG_DEAD)
                | flag(member.zone.is_some(), FLAG_ZONE)
                | flag(member.store.is_some(), FLAG_JOINED);
            out.extend_from_slice(&[member.id.index() as u8, flags]);
            encode_text(member.member.name(), out);
            encode_text(&member.member.url().to_string(), out);
            if let Some(zone) = &member.zone {
                encode_text(zone, out);
            }
            if let Some(JoinedStore { store_id, start }) = member.store {
                out.extend_from_slice(&store_id.to_le_bytes());
                out.extend_from_slice(&start.to_le_bytes());
            }
        }
    }

    /// Takes a list off the front of bytes; [`None`] if no node wrote them.
    pub fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        let cluster = ClusterId(reader.u64()?);
        let [epoch, change] = [Epoch::new(reader.u64()?), Epoch::new(reader.u64()?)];
        let [phase, ack, from, greatest, count] = reader.array()?;
        let forced_from = match phase & FLAG_FORCED {
            0 => None,
            _ => Some(ClusterId(reader.u64()?)),
        };
        let members = (0..count).map(|_| decode_member(reader));
        Self {
            cluster,
            forced_from,
            epoch,
            change,
            phase: Phase::from_code(phase & !FLAG_FORCED)?,
            members: members.collect::<Option<_>>()?,
            default_pair: Replicas::new(ack, from)?,
            greatest_id: NodeId::new(greatest),
        }
        .checked()
    }

    /// The list, if it is one: see [`MemberList`].
    pub(super) fn checked(self) -> Option<Self> {
        let ids = self.members.iter().map(|member| member.id);
        let ascend = ids.clone().is_sorted_by(|one, other| one < other);
        let are_given = ids
            .clone()
            .chain([self.greatest_id])
            .all(|id| id <= self.greatest_id && id.index() < NODES_MAX);
        let mut names = BTreeSet::new();
        let mut places = BTreeSet::new();
        let are_distinct = self.members.iter().all(|member| {
            let name = member.member.name();
            names.insert(name) && places.insert(member.member.url().authority())
        });
        let is_stable = self.members.iter().all(|it| it.lists == Lists::Both);
        let is_of_phase = is_stable == (self.phase == Phase::Stable);
        let is_alive = |list| self.members_of(list).any(|member| !member.is_dead);
        let is_inhabited = is_alive(WhichList::Old) && is_alive(WhichList::New);
        let has_pair = self.default_pair.from <= self.from_max();
        let is_change_past = self.change <= self.epoch;
        let is_other_cluster = self.forced_from != Some(self.cluster);
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        let is_short = bytes.len() <= LIST_BYTES_MAX;
        let is_list = ascend
            && is_short
            && are_given
            && are_distinct
            && is_of_phase
            && is_inhabited
            && has_pair
            && is_other_cluster
            && is_change_past;
        is_list.then_some(self)
    }
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    // Names, URLs and zones are shorter than 64 KiB.
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn decode_text<'a>(reader: &mut ByteReader<'a>) -> Option<&'a str> {
    let bytes = usize::from(reader.u16()?);
    std::str::from_utf8(reader.bytes(bytes)?).ok()
}

fn decode_member(reader: &mut ByteReader<'_>) -> Option<ListedMember> {
    let [id, flags] = reader.array()?;
    if flags & !(FLAG_OLD | FLAG_NEW | FLAG_DEAD | FLAG_ZONE | FLAG_JOINED) != 0 {
        return None;
    }
    let lists = match flags & (FLAG_OLD | FLAG_NEW) {
        0 => Lists::Both,
        FLAG_OLD => Lists::Old,
        FLAG_NEW => Lists::New,
        _ => return None,
    };
    let name = decode_text(reader)?;
    let url = decode_text(reader)?.parse().ok()?;
    let zone = if flags & FLAG_ZONE == 0 {
        None
    } else {
        let zone = decode_text(reader)?;
        ListedMember::check_zone(zone).ok()?;
        Some(zone.to_owned())
    };
    let store = if flags & FLAG_JOINED == 0 {
        None
    } else {
        let [store_id, start] = [reader.u64()?, reader.u64()?];
        Some(JoinedStore { store_id, start })
    };
    Some(ListedMember {
        id: NodeId::new(id),
        member: Member::named(name, url).ok()?,
        zone,
        store,
        lists,
        is_dead: flags & FLAG_DEAD != 0,
    })
}
