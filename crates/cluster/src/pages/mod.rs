//! Scans of the whole cluster: each node sends its part in pages, and the coordinator merges them.
//!
//! A coordinator asks every node for one [`ScanPage`] after the other. A page covers an interval of
//! keys at one moment. It lists the version of each key for which the node is one of the first
//! `from` replicas; one replica of a key also sends the value. A node keeps nothing between two
//! pages: each begins after the last one, with a new snapshot. So a restarted node continues with
//! the next page, and a slow reader holds no snapshot open.
//!
//! [`ScanMerge`] is a state machine. A shell feeds it pages, and carries out its actions:
//!
//! - **Why a scan sees acknowledged writes.** For every key, known or not, the first `from` nodes
//!   of its preference list were asked after the scan had begun. At each position at most
//!   `from - ack` nodes may be missing. So at least `ack` replicas of every key have answered, as
//!   for a read; if more nodes are missing, the scan ends. A node is missing while it does not
//!   answer, and where its answer does not count: it is not a voter, or a damaged block may have
//!   held keys there.
//! - **Where the replicas agree**, the newest version is returned. Replicas beyond its number of
//!   copies may hold an older version or none.
//! - **Where they do not**, the key is read once more, by a read of this pair that asks all
//!   replicas. That read repairs stale replicas before the key is returned, by the rules of reads.
//! - **Tombstones and expired values**, by the coordinator's clock, are left out, whichever replica
//!   lacks them: they hide older versions, and nothing is returned that a repair could contradict.
//!
//! If no page brought the value of a version, it is fetched from a node that has it.
//!
//! **In a change of the members** a scan goes by the list that judges: it has every acknowledged
//! write. A member of it that was declared dead is missing; a node that only joins is not asked. All
//! pages are of one list: a node that has another one makes none, and the scan goes on from where it
//! is with the list that is in force then.

mod page;

pub use page::{PageItem, PageRequest, Part, ScanPage};

use crate::NodeTable;
use crate::members::NodeId;
use crate::placement::Placement;
use crate::replicas::{Miss, Replicas};
use base::Entry;
use std::collections::VecDeque;

/// How many dead keys are passed over in one step.
const PASSED_OVER_MAX: usize = 512;

/// What a scan does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeStep {
    /// It needs the node's page that begins at this key: [`ScanMerge::load`] or
    /// [`ScanMerge::missed`] is to follow.
    Await(NodeId, Vec<u8>),
    /// More nodes are missing than may be. [`ScanMerge::load`] with a page of a missing node
    /// may change that.
    TooFewNodes,
    /// The next live entity. Its value is there if values are wanted.
    Tell(Entry),
    /// The next live entity, whose value this node has.
    Fetch(NodeId, PageItem),
    /// The replicas of this key differ: a read that asks all of them finds what to return.
    Read(Vec<u8>),
    /// Many dead keys were passed over. There is more.
    PassedOver,
    /// Everything was returned.
    End,
}

/// A scan of the cluster, as far as it is merged.
pub struct ScanMerge {
    replicas: Replicas,
    wants_values: bool,
    /// Everything before this key was returned.
    position: Vec<u8>,
    nodes: NodeTable<NodePages>,
    /// Empty; its memory is used again for each key.
    held: Vec<(NodeId, PageItem)>,
}

/// What is known of a node's part.
enum NodePages {
    /// Its next page is awaited.
    Awaited,
    /// It is merged: what is left of its page.
    Loaded(Loaded),
    /// It is not waited for.
    Missing(Miss),
}

struct Loaded {
    items: VecDeque<PageItem>,
    next: Option<Vec<u8>>,
    counts: bool,
}

impl ScanMerge {
    /// A scan over the keys from `start` on, of which no page is there yet. In a change of the
    /// members it asks those of the list that judges: see
    /// [`Placements::for_scans`](crate::layout::Placements::for_scans).
    #[must_use]
    pub fn new(
        replicas: Replicas,
        nodes: impl IntoIterator<Item = NodeId>,
        start: &[u8],
        wants_values: bool,
    ) -> Self {
        Self {
            replicas,
            wants_values,
            position: start.to_vec(),
            nodes: nodes
                .into_iter()
                .map(|node| (node, NodePages::Awaited))
                .collect(),
            held: Vec::new(),
        }
    }

    /// Everything before this key was returned.
    #[must_use]
    pub fn position(&self) -> &[u8] {
        &self.position
    }

    /// The nodes that are missing, and why.
    pub fn missing(&self) -> impl Iterator<Item = (NodeId, Miss)> + '_ {
        self.nodes.iter().filter_map(|(node, pages)| match pages {
            NodePages::Missing(why) => Some((node, *why)),
            // Its word does not count here, because it may have lost something.
            NodePages::Loaded(Loaded { counts: false, .. }) => Some((node, Miss::Learner)),
            NodePages::Loaded(_) | NodePages::Awaited => None,
        })
    }

    /// Takes a page of a node that is awaited or missing. It was asked for from `start` on.
    /// Returns whether it is of use: the page of a node that was missing may come when the
    /// scan is behind it.
    ///
    /// # Errors
    /// What is wrong with the page; the node is missing then.
    pub fn load(
        &mut self,
        node: NodeId,
        start: &[u8],
        page: ScanPage,
    ) -> Result<bool, &'static str> {
        let Some(pages) = self.nodes.get_mut(node) else {
            return Err("a page of an unknown node");
        };
        if matches!(pages, NodePages::Loaded(_)) {
            return Ok(false);
        }
        if let Err(what) = check(start, &page) {
            *pages = NodePages::Missing(Miss::Failed);
            return Err(what);
        }
        let is_behind = page
            .next
            .as_ref()
            .is_some_and(|next| *next <= self.position);
        if start > self.position.as_slice() || is_behind {
            return Ok(false);
        }
        let mut items = VecDeque::from(page.items);
        while items
            .front()
            .is_some_and(|item| item.entry.key() < self.position.as_slice())
        {
            items.pop_front();
        }
        *pages = NodePages::Loaded(Loaded {
            items,
            next: page.next,
            counts: page.counts,
        });
        Ok(true)
    }

    /// Takes note that a node's next page does not come.
    pub fn missed(&mut self, node: NodeId, why: Miss) {
        if let Some(pages @ (NodePages::Awaited | NodePages::Missing(_))) = self.nodes.get_mut(node)
        {
            *pages = NodePages::Missing(why);
        }
    }

    /// Waits again for a node that was missing, and that has answered.
    pub fn rejoin(&mut self, node: NodeId) {
        if let Some(pages @ NodePages::Missing(_)) = self.nodes.get_mut(node) {
            *pages = NodePages::Awaited;
        }
    }

    /// Goes on as far as the pages that are there allow.
    pub fn step(&mut self, placement: &Placement, now_unix_ms: u64) -> MergeStep {
        for _ in 0..PASSED_OVER_MAX {
            if let Some((node, _)) = self
                .nodes
                .iter()
                .find(|(_, pages)| matches!(pages, NodePages::Awaited))
            {
                return MergeStep::Await(node, self.position.clone());
            }
            if self.missing().count() > usize::from(self.replicas.from - self.replicas.ack) {
                return MergeStep::TooFewNodes;
            }
            let Some(first) = self.next_item() else {
                if self.turn_pages() {
                    continue;
                }
                return MergeStep::End;
            };
            let mut held = std::mem::take(&mut self.held);
            self.take_same(first, &mut held);
            let step = self.decide(&held, placement, now_unix_ms);
            held.clear();
            self.held = held;
            if let Some(step) = step {
                return step;
            }
        }
        MergeStep::PassedOver
    }

    /// Takes the first item of the least key that a page has, if all pages reach behind it.
    fn next_item(&mut self) -> Option<(NodeId, PageItem)> {
        let mut least: Option<(NodeId, &[u8])> = None;
        for (node, pages) in self.nodes.iter() {
            if let NodePages::Loaded(Loaded { items, .. }) = pages
                && let Some(key) = items.front().map(|item| item.entry.key())
                && least.is_none_or(|(_, least)| key < least)
            {
                least = Some((node, key));
            }
        }
        let (node, key) = least?;
        if self.frontier().is_some_and(|frontier| frontier <= key) {
            return None;
        }
        let item = self.pop(node)?;
        Some((node, item))
    }

    fn pop(&mut self, node: NodeId) -> Option<PageItem> {
        match self.nodes.get_mut(node)? {
            NodePages::Loaded(loaded) => loaded.items.pop_front(),
            NodePages::Awaited | NodePages::Missing(_) => None,
        }
    }

    /// Takes what the pages have of the key of the first item, and leaves the key behind.
    fn take_same(&mut self, first: (NodeId, PageItem), held: &mut Vec<(NodeId, PageItem)>) {
        let key = first.1.entry.key();
        self.position.clear();
        self.position.extend_from_slice(key);
        for (node, pages) in self.nodes.iter_mut() {
            if let NodePages::Loaded(loaded) = pages
                && loaded
                    .items
                    .front()
                    .is_some_and(|item| item.entry.key() == key)
                && let Some(item) = loaded.items.pop_front()
            {
                held.push((node, item));
            }
        }
        self.position.push(0);
        held.push(first);
    }

    /// Up to which key the pages of all nodes reach; [`None`] for the end of the scan.
    fn frontier(&self) -> Option<&[u8]> {
        let nexts = self.loaded().filter_map(|loaded| loaded.next.as_deref());
        nexts.min()
    }

    /// Goes to the frontier, where pages end: the next ones are awaited. Returns whether there
    /// are any.
    fn turn_pages(&mut self) -> bool {
        let Some(frontier) = self.frontier().map(<[u8]>::to_vec) else {
            return false;
        };
        for pages in self.nodes.values_mut() {
            if matches!(pages, NodePages::Loaded(loaded) if loaded.next.as_ref() == Some(&frontier))
            {
                *pages = NodePages::Awaited;
            }
        }
        self.position = frontier;
        true
    }

    fn loaded(&self) -> impl Iterator<Item = &Loaded> {
        self.nodes.values().filter_map(|pages| match pages {
            NodePages::Loaded(loaded) => Some(loaded),
            NodePages::Awaited | NodePages::Missing(_) => None,
        })
    }

    /// What the scan returns of a key of which the nodes hold this; [`None`] if nothing is.
    fn decide(
        &self,
        held: &[(NodeId, PageItem)],
        placement: &Placement,
        now_unix_ms: u64,
    ) -> Option<MergeStep> {
        let from = self.replicas.from;
        let items = held.iter().map(|(_, item)| item);
        let newest = items.max_by_key(|item| freshness(item))?;
        let copies = newest.entry.copies();
        let key = newest.entry.key();
        // The order of the replicas matters only if the version has fewer copies.
        let preference_list = if copies < from {
            placement.preference_list(key, from)
        } else {
            placement.replicas(key, from)
        };
        let mut differ = false;
        let mut holder = None;
        let mut sender = None;
        for (index, node) in preference_list.iter().enumerate() {
            let item = held.iter().find(|(holder, _)| holder == node);
            let item = item.map(|(_, item)| item);
            match item {
                Some(item) if item.is_same(newest) => {
                    holder = holder.or(Some((*node, item)));
                    sender = sender.or(item.has_value.then_some(item));
                }
                // Of the same timestamp, but another content: only whole values can tell.
                Some(item) if freshness(item) == freshness(newest) => differ = true,
                None if !self.counts(*node) => {}
                _ => differ |= index < usize::from(copies),
            }
        }
        if !newest.entry.is_live(now_unix_ms) {
            return None;
        }
        // Without a holder, only a node that is no replica of the key has this version.
        let Some((node, item)) = holder.filter(|_| !differ) else {
            return Some(MergeStep::Read(key.to_vec()));
        };
        Some(match sender {
            Some(sender) => MergeStep::Tell(sender.entry.clone()),
            None if self.wants_values => MergeStep::Fetch(node, item.clone()),
            None => MergeStep::Tell(item.entry.clone()),
        })
    }

    /// Whether the word of a node counts at the present position.
    fn counts(&self, node: NodeId) -> bool {
        matches!(
            self.nodes.get(node),
            Some(NodePages::Loaded(Loaded { counts: true, .. }))
        )
    }
}

/// What decides which of two versions is newer, without their values.
fn freshness(item: &PageItem) -> impl Ord + use<> {
    let entry = &item.entry;
    let is_tombstone = entry.kind() == base::Kind::Tombstone;
    (entry.timestamp(), is_tombstone, entry.expiry())
}

/// Checks that a page is what was asked for: its keys ascend, and lie before the next page.
fn check(start: &[u8], page: &ScanPage) -> Result<(), &'static str> {
    let keys = page.items.iter().map(|item| item.entry.key());
    let first = page.items.first().map(|item| item.entry.key());
    let last = page.items.last().map(|item| item.entry.key());
    if first.is_some_and(|first| first < start) || !keys.is_sorted_by(|one, two| one < two) {
        return Err("a page whose keys are not in order");
    }
    match &page.next {
        Some(next) if next.as_slice() <= start || last >= Some(next) => {
            Err("a page that does not end where it says")
        }
        _ => Ok(()),
    }
}
