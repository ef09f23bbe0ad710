//! Scans of the whole cluster: asks all nodes for pages, and returns the versions on which they
//! agree.
//!
//! [`ScanMerge`] decides; the code here does it. It holds at most two pages of each node: the one
//! that is being merged, and the next, which it requests as soon as the first arrives (`feeds`). It
//! requests a page only when it has memory for it, so a client that does not read stops all nodes.
//! Keys that pages leave open are read one by one (`singles`), many at a time; the entities still
//! come in the order of their keys.
//!
//! Once the node has another list of members, the scan goes on from where it is with that one.
//!
//! A node that does not answer is missing from then on. It is asked again periodically, and takes
//! part again once it answers. If too many nodes are missing, the scan waits a while for one of
//! them, and then ends with an error.

mod feeds;
mod singles;

use super::batch::{Batch, BatchFailure, BatchMemory};
use super::window::ScanWindow;
use crate::coordinator::{Coordinator, Receipt, ReplicaLine};
use base::Entry;
use cluster::pages::{MergeStep, ScanMerge};
use cluster::{Fate, Layout, Replicas};
use feeds::Feeds;
use singles::Singles;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How many entities a batch has at most.
const BATCH_ENTITIES_MAX: usize = 1024;

/// How many bytes of keys and values a batch has, about.
const BATCH_BYTES: usize = 64 << 10;

/// How many keys are read singly at a time.
const SINGLES_MAX: usize = 32;

/// How long a key that is read alone waits for memory that others hold. A client that does not
/// read what it has got is cut off by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many pages a batch waits for at most. So a scan that finds nothing but dead keys still
/// returns batches, although empty ones.
const PAGES_AWAITED_MAX: usize = 64;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterScanPlan {
    /// How many replicas each key has for this scan, and how many of them must answer.
    pub replicas: Replicas,
    /// Whether values are wanted.
    pub wants_values: bool,
    /// The greatest number of entities.
    pub limit: u64,
}

/// A scan of the whole cluster that is under way.
pub struct ClusterScan {
    coordinator: Rc<Coordinator>,
    /// The layout by which the scan goes.
    layout: Arc<Layout>,
    plan: ClusterScanPlan,
    merge: ScanMerge,
    feeds: Feeds,
    /// What comes next, before the merge goes on: an entity whose long value is fetched alone, or
    /// what the last batch had no memory for.
    postponed: VecDeque<MergeStep>,
    /// Whether the next batch reads one key alone, because there was no memory for all of the
    /// last one.
    is_cramped: bool,
    /// The memory of its pages.
    window: Rc<ScanWindow>,
    has_begun: bool,
}

impl ClusterScan {
    /// Begins a scan, and asks all nodes.
    pub(super) fn begin(
        coordinator: &Rc<Coordinator>,
        start: &[u8],
        end: Option<&[u8]>,
        plan: ClusterScanPlan,
        window: ScanWindow,
        deadline: Duration,
    ) -> Self {
        let layout = coordinator.peers.layout();
        let window = Rc::new(window);
        let merge = merge_from(&layout, start, plan);
        let mut feeds = Feeds::new(
            Rc::clone(coordinator),
            Arc::clone(&layout),
            end,
            plan,
            Rc::clone(&window),
        );
        feeds.ask_all(start, deadline);
        Self {
            coordinator: Rc::clone(coordinator),
            layout,
            plan,
            merge,
            feeds,
            postponed: VecDeque::new(),
            is_cramped: false,
            window,
            has_begun: false,
        }
    }

    /// Passes over all keys before this one, which lies behind the last one that was returned: asks
    /// all nodes anew from there.
    pub(super) fn skip_to(&mut self, key: &[u8]) {
        self.postponed.clear();
        self.go_on_from(key, None);
    }

    /// Asks all nodes anew from a key on, with the list of members that is in force now.
    fn go_on_from(&mut self, key: &[u8], deadline: Option<Duration>) {
        self.layout = self.coordinator.peers.layout();
        self.merge = merge_from(&self.layout, key, self.plan);
        self.feeds.ask_anew(&self.layout, key, deadline);
    }

    /// The next entities. There may be none although more follow. `deadline` is that of the
    /// first batch.
    ///
    /// # Errors
    /// [`BatchFailure::TooFewNodes`]; the scan is lost.
    pub(super) async fn next_batch(
        mut self: Box<Self>,
        deadline: Duration,
    ) -> Result<Batch<Box<Self>>, BatchFailure> {
        let first_deadline = (!std::mem::replace(&mut self.has_begun, true)).then_some(deadline);
        self.feeds.want(self.plan.limit);
        self.feeds.ask_missing(&mut self.merge);
        let mut told: Vec<Told> = Vec::new();
        // Whoever reads alone waits for memory that others hold, but not for ever.
        let now = self.coordinator.clock.monotonic();
        let patient_until = first_deadline.unwrap_or(now + PATIENCE);
        let mut singles = Singles::new(&self.coordinator, self.plan, patient_until);
        let is_cramped = std::mem::take(&mut self.is_cramped);
        let (mut bytes, mut awaited, mut is_at_end) = (0, 0, false);
        // The answer begins once all nodes have sent their first pages, whatever is in them.
        let awaited_max = match first_deadline {
            Some(_) => self.layout.placements().for_scans().nodes(),
            None => PAGES_AWAITED_MAX,
        };
        while told.len() < BATCH_ENTITIES_MAX
            && bytes < BATCH_BYTES
            && singles.len() < SINGLES_MAX
            && (told.len() as u64) < self.plan.limit
        {
            let now_unix_ms = self.coordinator.clock.unix_ms();
            let placement = self.layout.placements().for_scans();
            let merge = &mut self.merge;
            let step = self.postponed.pop_front();
            match step.unwrap_or_else(|| merge.step(placement, now_unix_ms)) {
                MergeStep::Tell(entry) => {
                    bytes += entry.data_bytes();
                    told.push(Told::Entity(entry));
                }
                MergeStep::Fetch(node, item) => {
                    // A long value is returned alone, so that the scan holds no two of them.
                    let is_long = item.value_bytes as usize > base::LONG_VALUE_BYTES;
                    if is_long && !told.is_empty() {
                        self.postponed.push_front(MergeStep::Fetch(node, item));
                        break;
                    }
                    let is_alone = is_long || is_cramped;
                    let number = singles.fetch(node, item.clone(), is_alone);
                    told.push(Told::Single(number, MergeStep::Fetch(node, item)));
                    if is_alone {
                        break;
                    }
                }
                MergeStep::Read(key) => {
                    let number = singles.read(key.clone(), is_cramped);
                    told.push(Told::Single(number, MergeStep::Read(key)));
                    if is_cramped {
                        break;
                    }
                }
                MergeStep::PassedOver => tokio::task::yield_now().await,
                // What is known already is returned before anything is waited for.
                MergeStep::Await(..) | MergeStep::TooFewNodes if !told.is_empty() => break,
                MergeStep::Await(..) | MergeStep::TooFewNodes if self.feeds.is_outdated() => {
                    let position = self.merge.position().to_vec();
                    self.go_on_from(&position, first_deadline);
                    awaited = 0;
                }
                MergeStep::Await(..) if awaited == awaited_max => break,
                MergeStep::Await(node, start) => {
                    awaited += 1;
                    self.feeds
                        .want(self.plan.limit.saturating_sub(told.len() as u64));
                    self.feeds
                        .take_page(&mut self.merge, node, &start, first_deadline)
                        .await;
                }
                MergeStep::TooFewNodes => {
                    // A client that has nothing yet is told at once, as with any request.
                    let is_first = first_deadline.is_some();
                    if is_first || !self.feeds.wait_for_missing(&mut self.merge).await {
                        return Err(BatchFailure::TooFewNodes(Box::new(self.receipt())));
                    }
                }
                MergeStep::End => {
                    is_at_end = true;
                    break;
                }
            }
        }
        let singles_read = singles.len();
        let mut read = singles.finish().await;
        let mut values = Vec::new();
        let mut entries = Vec::with_capacity(told.len());
        let mut told = told.into_iter();
        while let Some(next) = told.next() {
            let (number, step) = match next {
                Told::Entity(entry) => {
                    entries.push(entry);
                    continue;
                }
                Told::Single(number, step) => (number, step),
            };
            match read.get_mut(number).and_then(Option::take) {
                Some(Ok((entry, reservation))) => {
                    entries.extend(entry);
                    values.extend(reservation);
                }
                Some(Err(failure)) if failure.lacks_memory() && singles_read > 1 => {
                    // Other values of this batch may have it: what is left comes later, one at
                    // a time.
                    let left = std::iter::once(step).chain(told.by_ref().map(Told::into_step));
                    let behind = std::mem::take(&mut self.postponed);
                    self.postponed = left.chain(behind).collect();
                    self.is_cramped = true;
                    is_at_end = false;
                }
                Some(Err(failure)) => return Err(failure.into()),
                None => return Err(BatchFailure::TimedOut),
            }
        }
        self.plan.limit = self.plan.limit.saturating_sub(entries.len() as u64);
        let memory = BatchMemory::of_cluster(Rc::clone(&self.window), values);
        let is_over = is_at_end || self.plan.limit == 0;
        Ok(Batch {
            rest: (!is_over).then_some(self),
            entries,
            memory,
        })
    }

    /// What became of the scan at each node.
    fn receipt(&self) -> Receipt {
        let missing: Vec<_> = self.merge.missing().collect();
        let nodes = self.layout.placements().for_scans().ids();
        let lines = nodes.map(|node| {
            let missed = missing.iter().find(|(missing, _)| *missing == node);
            ReplicaLine {
                url: self.coordinator.peers.url_of(node),
                outcome: missed.map_or(Fate::Answered, |(_, why)| Fate::Missed(*why)),
            }
        });
        Receipt {
            acks: 0,
            timestamp: None,
            replicas: lines.collect(),
        }
    }
}

/// The pages from `start` on of the nodes of a layout.
fn merge_from(layout: &Layout, start: &[u8], plan: ClusterScanPlan) -> ScanMerge {
    let nodes = layout.placements().for_scans().ids();
    ScanMerge::new(plan.replicas, nodes, start, plan.wants_values)
}

/// An entity in the order of the keys.
enum Told {
    /// It is known.
    Entity(Entry),
    /// It is read singly: which of the singles it is, and how it came to that.
    Single(usize, MergeStep),
}

impl Told {
    /// The step of the merge from which it came.
    fn into_step(self) -> MergeStep {
        match self {
            Self::Entity(entry) => MergeStep::Tell(entry),
            Self::Single(_, step) => step,
        }
    }
}
