//! The pages of all nodes on their way to a range.

use super::ClusterRangePlan;
use crate::completion_queue::Completion;
use crate::coordinator::Coordinator;
use crate::page_read::PAGE_BYTES_MAX;
use crate::pending::Wait;
use cluster::pages::{NodeSet, Page, PageRequest, RangeMerge};
use cluster::{Miss, NodeNumber};
use peer::{PeerAnswer, PeerRequest};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a page may take, but for the first one.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a range that has begun waits for nodes if too few answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// After how long a node that was missing is asked again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The same, while the range waits for it.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The least size of pages where there are many nodes, and that of the first ones, in bytes.
const PAGE_BYTES_MIN: u32 = 16 << 10;

/// The size of the pages of a range, at most, in bytes: so that four ranges have room.
pub(super) fn page_bytes_max(windows_bytes: usize, nodes: usize) -> u32 {
    let fitting = windows_bytes / (8 * nodes.max(1));
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX)
}

/// The memory of a range: two pages of each node, in bytes.
pub(super) fn window_bytes(page_bytes_max: u32, nodes: usize) -> usize {
    2 * nodes * page_bytes_max as usize
}

/// The pages on their way.
pub(super) struct Feeds {
    coordinator: Rc<Coordinator>,
    end: Option<Vec<u8>>,
    plan: ClusterRangePlan,
    page_bytes_max: u32,
    /// By number.
    feeds: Vec<Feed>,
}

struct Feed {
    /// The page that was asked for.
    asked: Option<AskedPage>,
    /// The size of the next page.
    page_bytes: u32,
    /// When the node is asked again, if it is missing.
    retry_at: Duration,
}

struct AskedPage {
    start: Vec<u8>,
    arrival: Arrival,
    /// Whether it was asked for before it was needed. If it does not come it is asked for once
    /// more.
    is_ahead: bool,
}

/// How a page comes.
enum Arrival {
    /// From the own store. It ends with this.
    Own(OwnPage),
    /// From a peer.
    Peer(Wait),
    /// Not at all.
    Missed(Miss),
}

struct OwnPage(JoinHandle<Result<Page, Miss>>);

impl Drop for OwnPage {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Arrival {
    async fn page(&mut self) -> Result<Page, Miss> {
        match self {
            Self::Own(own) => (&mut own.0).await.unwrap_or(Err(Miss::Failed)),
            Self::Peer(wait) => match wait.next().await {
                Some(Completion::Peer(PeerAnswer::Paged(page))) => page.decode().map_err(|what| {
                    tracing::warn!(what, "a peer has sent a page that is malformed");
                    Miss::Failed
                }),
                Some(Completion::Peer(PeerAnswer::Missed(why))) => Err(why),
                Some(_) => Err(Miss::Failed),
                None => Err(Miss::Timeout),
            },
            Self::Missed(why) => Err(*why),
        }
    }
}

impl Feeds {
    pub(super) fn new(
        coordinator: Rc<Coordinator>,
        end: Option<&[u8]>,
        plan: ClusterRangePlan,
        page_bytes_max: u32,
    ) -> Self {
        let feeds = (0..coordinator.peers.nodes()).map(|_| Feed {
            asked: None,
            page_bytes: PAGE_BYTES_MIN.min(page_bytes_max),
            retry_at: Duration::ZERO,
        });
        Self {
            feeds: feeds.collect(),
            coordinator,
            end: end.map(<[u8]>::to_vec),
            plan,
            page_bytes_max,
        }
    }

    /// Asks all nodes for their first pages.
    pub(super) fn ask_all(&mut self, start: &[u8], deadline: Duration) {
        let peers = Rc::clone(&self.coordinator.peers);
        let senders = peers.numbers().filter(|node| !peers.is_down(*node));
        let senders: NodeSet = senders.collect();
        for node in peers.numbers() {
            self.ask(node, start, senders, deadline, false);
        }
    }

    /// Asks the nodes that are missing and were not asked lately. Takes the pages that have
    /// come of such nodes.
    pub(super) fn ask_missing(&mut self, merge: &mut RangeMerge) {
        let now = self.now();
        let missing: Vec<NodeNumber> = merge.missing().map(|(node, _)| node).collect();
        for node in missing {
            let feed = &mut self.feeds[node.index()];
            let Some(asked) = &mut feed.asked else {
                if feed.retry_at <= now {
                    let senders = self.senders(merge);
                    let position = merge.position().to_vec();
                    self.ask(node, &position, senders, now + PAGE_TIMEOUT, false);
                }
                continue;
            };
            let Poll::Ready(page) = arrived(&mut asked.arrival) else {
                continue;
            };
            let start = std::mem::take(&mut asked.start);
            feed.asked = None;
            match page {
                Ok(page) => self.load(merge, node, &start, page),
                Err(why) => {
                    feed.retry_at = now + RETRY_AFTER;
                    merge.missed(node, why);
                }
            }
        }
    }

    /// Waits for the page of a node that the range needs.
    pub(super) async fn take_page(
        &mut self,
        merge: &mut RangeMerge,
        node: NodeNumber,
        start: &[u8],
        deadline: Option<Duration>,
    ) {
        let now = self.now();
        let deadline = deadline.unwrap_or(now + PAGE_TIMEOUT);
        loop {
            let asked = self.feeds[node.index()].asked.take();
            let Some(mut asked) = asked.filter(|asked| asked.start == start) else {
                let senders = self.senders(merge);
                self.ask(node, start, senders, deadline, false);
                continue;
            };
            match asked.arrival.page().await {
                Ok(page) => return self.load(merge, node, start, page),
                Err(_) if asked.is_ahead => {}
                Err(Miss::Overloaded) if self.now() + RETRY_PAUSE < deadline => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(why) => {
                    self.feeds[node.index()].retry_at = self.now() + RETRY_AFTER;
                    return merge.missed(node, why);
                }
            }
        }
    }

    /// Waits for one of the nodes that are missing. Returns whether one has answered.
    pub(super) async fn wait_for_missing(&mut self, merge: &mut RangeMerge) -> bool {
        let patient_until = self.now() + PATIENCE;
        let missing = merge.missing().count();
        while self.now() < patient_until {
            for feed in &mut self.feeds {
                feed.retry_at = Duration::ZERO;
            }
            self.ask_missing(merge);
            if merge.missing().count() < missing {
                return true;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        false
    }

    /// Takes a page, and asks for the next one.
    fn load(&mut self, merge: &mut RangeMerge, node: NodeNumber, start: &[u8], page: Page) {
        let next = page.next.clone();
        match merge.load(node, start, page) {
            Ok(true) => {
                if let Some(next) = next {
                    let senders = self.senders(merge);
                    self.ask(node, &next, senders, self.now() + PAGE_TIMEOUT, true);
                }
            }
            // It answers, but the range is behind the page by now.
            Ok(false) => merge.rejoin(node),
            Err(what) => {
                tracing::warn!(node = %node, what, "a page of a range is not what was asked for");
                self.feeds[node.index()].retry_at = self.now() + RETRY_AFTER;
            }
        }
    }

    /// Whose values are wanted: those of the nodes that take part.
    fn senders(&self, merge: &RangeMerge) -> NodeSet {
        let missing: NodeSet = merge.missing().map(|(node, _)| node).collect();
        let nodes = self.coordinator.peers.numbers();
        nodes.filter(|node| !missing.contains(*node)).collect()
    }

    fn ask(
        &mut self,
        node: NodeNumber,
        start: &[u8],
        senders: NodeSet,
        deadline: Duration,
        is_ahead: bool,
    ) {
        let coordinator = &self.coordinator;
        let feed = &mut self.feeds[node.index()];
        let request = PageRequest {
            start: start.to_vec(),
            end: self.end.clone(),
            from: self.plan.replicas.from,
            bytes: feed.page_bytes,
            coordinator: coordinator.peers.own(),
            senders: match self.plan.wants_values {
                true => senders,
                false => NodeSet::default(),
            },
        };
        feed.page_bytes = feed.page_bytes.saturating_mul(2).min(self.page_bytes_max);
        let arrival = match coordinator.peers.link(node) {
            None => Arrival::Own(own_page(coordinator, request, deadline)),
            Some(link) => {
                let wait = coordinator.pending.wait(deadline);
                let request = PeerRequest::Page(request);
                match link.call(request, deadline, wait.address()) {
                    Ok(()) => Arrival::Peer(wait),
                    Err(why) => Arrival::Missed(why),
                }
            }
        };
        feed.asked = Some(AskedPage {
            start: start.to_vec(),
            arrival,
            is_ahead,
        });
    }

    fn now(&self) -> Duration {
        self.coordinator.clock.monotonic()
    }
}

fn own_page(coordinator: &Rc<Coordinator>, request: PageRequest, deadline: Duration) -> OwnPage {
    let coordinator = Rc::clone(coordinator);
    OwnPage(tokio::task::spawn_local(async move {
        let (turns, bytes) = (&coordinator.ranges, coordinator.range_batch_bytes);
        let own = coordinator.replicas.own();
        own.page(request, turns, bytes, deadline).await
    }))
}

/// What has come so far.
fn arrived(arrival: &mut Arrival) -> Poll<Result<Page, Miss>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    pin!(arrival.page()).poll(&mut context)
}
