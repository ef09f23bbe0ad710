//! The pages that all nodes send to a scan.

use super::ClusterScanPlan;
use crate::coordinator::Coordinator;
use crate::scans::window::{PAGE_BYTES_MIN, ScanWindow};
use base::{Kind, LimitedLog};
use cluster::pages::{PageRequest, ScanMerge, ScanPage};
use cluster::{Layout, Miss, NodeId, NodeSet, NodeTable};
use peer::{PeerAnswer, PeerRequest};
use replica::Completion;
use replica::pending::Wait;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a page may take, but for the first one.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a scan that has begun waits for nodes if too few answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a node with another list of members may take to adopt that of the scan, or this node to
/// adopt the later one. Lists are handed over at once.
const ADOPTING: Duration = Duration::from_secs(2);

/// After how long a node that was missing is asked again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The same, while the scan waits for it.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The pages on their way.
pub(super) struct Feeds {
    coordinator: Rc<Coordinator>,
    /// The layout by which the scan goes.
    layout: Arc<Layout>,
    end: Option<Vec<u8>>,
    plan: ClusterScanPlan,
    /// How many entities the scan still wants.
    wanted: u64,
    /// Bounds the size of the pages.
    window: Rc<ScanWindow>,
    feeds: NodeTable<Feed>,
}

struct Feed {
    /// The page that was asked for.
    asked: Option<AskedPage>,
    /// The size of the page that was asked for last.
    page_bytes: u32,
    /// The size of the next one, if there is room for it.
    next_bytes: u32,
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

struct OwnPage(JoinHandle<Result<ScanPage, Miss>>);

impl Drop for OwnPage {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Arrival {
    async fn page(&mut self, log: &LimitedLog) -> Result<ScanPage, Miss> {
        match self {
            Self::Own(own) => (&mut own.0).await.unwrap_or(Err(Miss::Failed)),
            Self::Peer(wait) => match wait.next().await {
                Some(Completion::Peer(PeerAnswer::Paged(page))) => page.decode().map_err(|what| {
                    log.line("malformed page", |left_out| {
                        tracing::warn!(what, left_out, "a peer has sent a page that is malformed");
                    });
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

impl Feed {
    /// Sets the size of the next page after one with so many live entities, if so many more are
    /// wanted: about as much as they take, and at most twice the last.
    fn expect(&mut self, live: u64, left: u64) {
        let doubled = self.page_bytes.saturating_mul(2);
        let needed = u64::from(self.page_bytes)
            .saturating_mul(left)
            .checked_div(live);
        // A quarter more, because entities differ.
        let needed = needed.map(|bytes| bytes.saturating_add(bytes / 4));
        let needed = needed.and_then(|bytes| u32::try_from(bytes).ok());
        self.next_bytes = needed.map_or(doubled, |bytes| bytes.max(PAGE_BYTES_MIN).min(doubled));
    }
}

impl Feeds {
    pub(super) fn new(
        coordinator: Rc<Coordinator>,
        layout: Arc<Layout>,
        end: Option<&[u8]>,
        plan: ClusterScanPlan,
        window: Rc<ScanWindow>,
    ) -> Self {
        Self {
            feeds: NodeTable::default(),
            coordinator,
            layout,
            end: end.map(<[u8]>::to_vec),
            plan,
            wanted: plan.limit,
            window,
        }
    }

    /// Takes note of how many entities the scan still wants.
    pub(super) fn want(&mut self, entities: u64) {
        self.wanted = entities;
    }

    /// Asks all nodes for their first pages.
    pub(super) fn ask_all(&mut self, start: &[u8], deadline: Duration) {
        let (peers, layout) = (Rc::clone(&self.coordinator.peers), Arc::clone(&self.layout));
        let nodes = || layout.placements().for_scans().ids();
        let is_up = |node: &NodeId| {
            let link = peers.link(*node);
            peers.is_own(*node) || link.is_some_and(|link| !link.is_down())
        };
        let senders: NodeSet = nodes().filter(is_up).collect();
        for node in nodes() {
            self.ask(node, start, senders, deadline, false);
        }
    }

    /// Asks all nodes of a layout for short pages from a key on. What was asked for before is dropped.
    pub(super) fn ask_anew(
        &mut self,
        layout: &Arc<Layout>,
        start: &[u8],
        deadline: Option<Duration>,
    ) {
        self.layout = Arc::clone(layout);
        self.feeds = NodeTable::default();
        let deadline = deadline.unwrap_or_else(|| self.now() + PAGE_TIMEOUT);
        self.ask_all(start, deadline);
    }

    /// Whether this node has adopted another list of members than that of the scan.
    pub(super) fn is_outdated(&self) -> bool {
        self.coordinator.peers.epoch() != self.layout.epoch()
    }

    /// Asks the nodes that are missing and were not asked lately. Takes the pages that have
    /// come of such nodes.
    pub(super) fn ask_missing(&mut self, merge: &mut ScanMerge) {
        let now = self.now();
        let coordinator = Rc::clone(&self.coordinator);
        let missing: Vec<NodeId> = merge.missing().map(|(node, _)| node).collect();
        for node in missing {
            let feed = feed_of(&mut self.feeds, node);
            let Some(asked) = &mut feed.asked else {
                if feed.retry_at <= now {
                    let senders = self.senders(merge);
                    let position = merge.position().to_vec();
                    self.ask(node, &position, senders, now + PAGE_TIMEOUT, false);
                }
                continue;
            };
            let log = &coordinator.replicas.own().log;
            let Poll::Ready(page) = arrived(&mut asked.arrival, log) else {
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

    /// Waits for the page of a node that the scan needs. If nodes have different lists of members, it
    /// waits until that is over; then the scan may be [outdated](Self::is_outdated).
    pub(super) async fn take_page(
        &mut self,
        merge: &mut ScanMerge,
        node: NodeId,
        start: &[u8],
        deadline: Option<Duration>,
    ) {
        let now = self.now();
        let deadline = deadline.unwrap_or(now + PAGE_TIMEOUT);
        let adopted_by = deadline.min(now + ADOPTING);
        loop {
            if self.is_outdated() {
                return;
            }
            let asked = feed_of(&mut self.feeds, node).asked.take();
            let Some(mut asked) = asked.filter(|asked| asked.start == start) else {
                let senders = self.senders(merge);
                self.ask(node, start, senders, deadline, false);
                continue;
            };
            match asked.arrival.page(self.log()).await {
                Ok(page) => return self.load(merge, node, start, page),
                Err(_) if asked.is_ahead => {}
                Err(Miss::Overloaded) if self.now() + RETRY_PAUSE < deadline => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(Miss::OtherEpoch) if self.now() + RETRY_PAUSE < adopted_by => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(why) => {
                    feed_of(&mut self.feeds, node).retry_at = self.now() + RETRY_AFTER;
                    return merge.missed(node, why);
                }
            }
        }
    }

    /// Waits for one of the nodes that are missing. Returns whether one has answered, or the scan is
    /// [outdated](Self::is_outdated) meanwhile.
    pub(super) async fn wait_for_missing(&mut self, merge: &mut ScanMerge) -> bool {
        let patient_until = self.now() + PATIENCE;
        let missing = merge.missing().count();
        while self.now() < patient_until {
            for feed in self.feeds.values_mut() {
                feed.retry_at = Duration::ZERO;
            }
            self.ask_missing(merge);
            if merge.missing().count() < missing || self.is_outdated() {
                return true;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        false
    }

    /// Takes a page, and asks for the next one unless this one has as much as is wanted.
    fn load(&mut self, merge: &mut ScanMerge, node: NodeId, start: &[u8], page: ScanPage) {
        let next = page.next.clone();
        let live = page.items.iter();
        let live = live.filter(|item| item.entry.kind() == Kind::Value).count();
        let left = self.wanted.saturating_sub(live as u64);
        feed_of(&mut self.feeds, node).expect(live as u64, left);
        match merge.load(node, start, page) {
            Ok(true) => {
                if let Some(next) = next.filter(|_| left > 0) {
                    let senders = self.senders(merge);
                    self.ask(node, &next, senders, self.now() + PAGE_TIMEOUT, true);
                }
            }
            // It answers, but the scan is behind the page by now.
            Ok(false) => merge.rejoin(node),
            Err(what) => {
                self.log().line("wrong page", |left_out| {
                    tracing::warn!(
                        node = %node,
                        what,
                        left_out,
                        "a page of a scan does not match its request"
                    );
                });
                feed_of(&mut self.feeds, node).retry_at = self.now() + RETRY_AFTER;
            }
        }
    }

    /// Whose values are wanted: those of the nodes that take part.
    fn senders(&self, merge: &ScanMerge) -> NodeSet {
        let missing: NodeSet = merge.missing().map(|(node, _)| node).collect();
        let nodes = self.layout.placements().for_scans().ids();
        nodes.filter(|node| !missing.contains(*node)).collect()
    }

    fn ask(
        &mut self,
        node: NodeId,
        start: &[u8],
        senders: NodeSet,
        deadline: Duration,
        is_ahead: bool,
    ) {
        let coordinator = &self.coordinator;
        let feed = feed_of(&mut self.feeds, node);
        let request = PageRequest {
            epoch: self.layout.epoch(),
            start: start.to_vec(),
            end: self.end.clone(),
            from: self.plan.replicas.from,
            bytes: self.window.page_bytes(feed.next_bytes),
            coordinator: coordinator.peers.own(),
            senders: if self.plan.wants_values {
                senders
            } else {
                NodeSet::default()
            },
        };
        feed.page_bytes = request.bytes;
        feed.next_bytes = request.bytes.saturating_mul(2);
        let arrival = match coordinator.peers.link(node) {
            None if coordinator.peers.is_own(node) => {
                Arrival::Own(own_page(coordinator, request, deadline))
            }
            // It is declared dead, or has left the cluster meanwhile.
            None => Arrival::Missed(Miss::Refused),
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

    fn log(&self) -> &LimitedLog {
        &self.coordinator.replicas.own().log
    }
}

/// What comes of a node.
fn feed_of(feeds: &mut NodeTable<Feed>, node: NodeId) -> &mut Feed {
    feeds.get_or_insert_with(node, || Feed {
        asked: None,
        page_bytes: 0,
        next_bytes: PAGE_BYTES_MIN,
        retry_at: Duration::ZERO,
    })
}

fn own_page(coordinator: &Rc<Coordinator>, request: PageRequest, deadline: Duration) -> OwnPage {
    let coordinator = Rc::clone(coordinator);
    OwnPage(tokio::task::spawn_local(async move {
        let (turns, bytes) = (&coordinator.scans, coordinator.scan_batch_bytes);
        let own = coordinator.replicas.own();
        own.page(request, turns, bytes, deadline).await
    }))
}

/// What has come so far.
fn arrived(arrival: &mut Arrival, log: &LimitedLog) -> Poll<Result<ScanPage, Miss>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    pin!(arrival.page(log)).poll(&mut context)
}
