//! Sweeps: the nodes compare what they keep, and send what is missing where it
//! belongs (anti-entropy). What is compared is decided in [`cluster::sweep`].
//!
//! ```text
//! driver                      each node                     two nodes that differ
//!   begin, agree  ---------->   bounds
//!   advance       ---------->   scan ahead, about 8 MiB
//!   digest        ---------->   digests with each peer
//!   reconcile     ------------------------------------->    runs, if one lacks most of it;
//!                                                           symbols, then mends both ways
//!   ... next range ...
//!   sync          ---------->   makes durable what arrived
//!   end           ---------->   which pairs are clean
//! ```
//!
//! - `participant`: what a node keeps of a pass, and what it reads from its store
//!   for it; jobs of [`Lane::Sweep`].
//! - `pass_state`: the scan of one pass, and its last ranges.
//! - `exchange`: makes two nodes equal in a range.
//! - `bulk`: pulls a range of which this node lacks most, as `runs`; `filling` puts them
//!   into tables, and `refill` follows how far that has come.
//! - `driver`: leads a pass.
//! - `schedule`: when this node drives one.
//! - `record`: what this node knows of the passes that it took part in.
//!
//! A mend is an ordinary version: whatever arrives in whatever order, the newest
//! wins. So nothing has to be undone when a pass is cut short anywhere, and two
//! drivers at a time cost work, not correctness.

mod bulk;
mod driver;
mod exchange;
mod filling;
mod participant;
mod pass_state;
mod record;
mod refill;
mod runs;
mod schedule;
#[cfg(test)]
mod tests;

pub use driver::PassReport;
pub use record::{EndedPasses, LastClean, RunningPass, SweepCounts, SweepStatus};
pub use refill::RefillProgress;
pub use schedule::OrderedSweep;

use crate::background::{Background, Pacer, WorkKind};
use crate::completion_queue::Completion;
use crate::membership::Membership;
use crate::peers::Peers;
use crate::pending::{PendingRequests, Wait};
use crate::replicas::ReplicaSet;
use crate::stamping::Stamping;
use base::{Clock, Random, Verdict};
use cluster::sweep::{PassId, PassKind};
use cluster::{Members, Miss, NodeNumber, Placement};
use lsm::{Engine, Executor, Lane};
use participant::{Advance, Participant};
use peer::{PeerAnswer, PeerRequest, Reply, SweepAnswer, SweepRequest};
use profile::lock;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a node waits for the answer to one request of a sweep. Scanning or
/// exchanging 16 MiB takes milliseconds; it is a busy disk that takes long.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// How often a request is sent that an overloaded node turns away.
const TRIES_MAX: u32 = 5;

/// How long a node waits before the second try; before the others, longer.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// What sweeps work with.
pub(crate) struct SweepEnvironment {
    /// All nodes.
    pub(crate) members: Members,
    /// Where keys belong.
    pub(crate) placement: Arc<Placement>,
    /// The store.
    pub(crate) engine: Engine,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Draws the ids of passes.
    pub(crate) random: Arc<dyn Random>,
    /// Runs the jobs.
    pub(crate) executor: Arc<dyn Executor>,
    /// What this node has stamped and seen.
    pub(crate) stamping: Arc<Stamping>,
    /// How the store stands.
    pub(crate) membership: Membership,
    /// The budget of background work.
    pub(crate) background: Arc<Background>,
    /// The deadline of requests.
    pub(crate) timeout: Duration,
    /// How often the nodes compare what has changed, if they do.
    pub(crate) interval: Option<Duration>,
    /// How often they compare everything, if they do.
    pub(crate) full_interval: Option<Duration>,
}

/// A node's part in sweeps. Its runtimes share it.
pub(crate) struct Sweeps {
    environment: SweepEnvironment,
    participant: Arc<Mutex<Participant>>,
    pacer: Arc<Pacer>,
    record: record::Record,
    refill: refill::Refill,
    orders: schedule::Orders,
}

/// What a runtime needs to take part in sweeps.
pub(crate) struct Sweeper {
    pub(crate) sweeps: Arc<Sweeps>,
    pub(crate) peers: Rc<Peers>,
    pub(crate) replicas: Rc<ReplicaSet>,
    pub(crate) pending: Rc<PendingRequests>,
}

impl Sweeps {
    /// No passes yet.
    pub(crate) fn new(environment: SweepEnvironment) -> Arc<Self> {
        let (clock, placement) = (&environment.clock, &environment.placement);
        let record = record::Record::new(Arc::clone(clock), placement.nodes());
        let refill = refill::Refill::new(Arc::clone(clock));
        let participant = Participant::new(
            environment.engine.clone(),
            Arc::clone(clock),
            Arc::clone(placement),
            environment.members.own(),
        );
        Arc::new(Self {
            pacer: Pacer::new(
                Arc::clone(&environment.background),
                WorkKind::Sweep,
                Arc::clone(&environment.executor),
                Lane::Sweep,
            ),
            environment,
            participant: Arc::new(Mutex::new(participant)),
            record,
            refill,
            orders: schedule::Orders::default(),
        })
    }

    /// What this node knows of sweeps.
    pub(crate) fn status(&self) -> SweepStatus {
        self.record.status(&self.refill)
    }

    /// Has this node drive a pass, unless it is alone.
    pub(crate) fn order(&self, kind: PassKind) -> Option<OrderedSweep> {
        let is_alone = self.environment.members.is_single_node();
        (!is_alone).then(|| self.orders.order(kind))
    }
}

impl peer::RequestHandler for Sweeper {
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply) {
        match request {
            PeerRequest::Write(entry) => self.replicas.own().write_for_peer(entry, reply),
            PeerRequest::Mend { entry, .. } => {
                self.sweeps.record.mend_received();
                self.replicas.own().mend_for_peer(entry, reply);
            }
            PeerRequest::Read(key) => self.replicas.own().read_for_peer(key, reply),
            PeerRequest::Sweep(request) => self.serve_sweep(request, reply),
        }
    }
}

/// A request on its way to a peer.
enum PeerCall {
    Asked(Wait),
    Missed(Miss),
}

impl PeerCall {
    async fn answer(self) -> PeerAnswer {
        match self {
            Self::Asked(wait) => match wait.only().await {
                Some(Completion::Peer(answer)) => answer,
                Some(_) => PeerAnswer::Missed(Miss::Failed),
                None => PeerAnswer::Missed(Miss::Timeout),
            },
            Self::Missed(why) => PeerAnswer::Missed(why),
        }
    }

    /// Waits until a version is stored, by a witness or not. Returns whether the peer
    /// may hold a newer one.
    async fn stored(self) -> Result<bool, Miss> {
        match self.answer().await {
            PeerAnswer::Stored { verdict } => Ok(verdict != Verdict::Clean),
            PeerAnswer::Missed(why) => Err(why),
            PeerAnswer::Found(_) | PeerAnswer::Swept(_) | PeerAnswer::Pulled(_) => {
                Err(Miss::Failed)
            }
        }
    }
}

impl Sweeper {
    /// Does as a peer asks, and replies.
    fn serve_sweep(self: &Rc<Self>, request: SweepRequest, reply: Reply) {
        let sweeper = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = match request {
                SweepRequest::Pull {
                    pass,
                    range,
                    asker,
                    after,
                    held,
                } => sweeper.answer_pull((pass, range), asker, after, held).await,
                request => PeerAnswer::Swept(sweeper.answer(request).await),
            };
            reply.send(answer);
        });
    }

    /// Asks a node, which may be this one.
    async fn ask(&self, node: NodeNumber, request: SweepRequest) -> Result<SweepAnswer, Miss> {
        match self.peers.is_own(node) {
            true => Ok(self.answer(request).await),
            false => self.ask_peer(node, request).await,
        }
    }

    async fn ask_peer(&self, node: NodeNumber, request: SweepRequest) -> Result<SweepAnswer, Miss> {
        match self.call_patiently(node, PeerRequest::Sweep(request)).await {
            PeerAnswer::Swept(answer) => Ok(answer),
            PeerAnswer::Missed(why) => Err(why),
            PeerAnswer::Stored { .. } | PeerAnswer::Found(_) | PeerAnswer::Pulled(_) => {
                Err(Miss::Failed)
            }
        }
    }

    /// Asks again if the peer has too much to do. One request that is turned away must
    /// not cost a pass of gigabytes a node.
    async fn call_patiently(&self, node: NodeNumber, request: PeerRequest) -> PeerAnswer {
        for tries in 1..TRIES_MAX {
            match self.call(node, request.clone()).await {
                PeerAnswer::Missed(Miss::Overloaded) => {}
                answer => return answer,
            }
            tokio::time::sleep(RETRY_PAUSE * tries).await;
        }
        self.call(node, request).await
    }

    async fn call(&self, node: NodeNumber, request: PeerRequest) -> PeerAnswer {
        self.start_call(node, request).answer().await
    }

    /// Asks a peer, without waiting for its answer.
    fn start_call(&self, node: NodeNumber, request: PeerRequest) -> PeerCall {
        let deadline = self
            .sweeps
            .environment
            .clock
            .monotonic()
            .saturating_add(REQUEST_MAX);
        let wait = self.pending.wait(deadline);
        let called = match self.peers.link(node) {
            Some(link) => link.call(request, deadline, wait.address()),
            None => Err(Miss::Failed),
        };
        match called {
            Ok(()) => PeerCall::Asked(wait),
            Err(why) => PeerCall::Missed(why),
        }
    }

    /// What this node answers. The requests of a pass come one after another.
    async fn answer(&self, request: SweepRequest) -> SweepAnswer {
        match request {
            SweepRequest::Begin { pass, kind } => {
                let greatest_seen = self.sweeps.environment.stamping.greatest();
                let begin = self.background(move |own| own.begin(pass, kind, greatest_seen));
                let answer = begin.await;
                if matches!(answer, SweepAnswer::Begun { .. }) {
                    self.sweeps.record.began(pass, kind);
                }
                answer
            }
            SweepRequest::Agree { pass, cut, bounds } => {
                self.background(move |own| own.agree(pass, cut, bounds))
                    .await
            }
            SweepRequest::Advance { pass, start } => self.advance(pass, &start).await,
            SweepRequest::Digest { pass, range, end } => {
                let digest = self.background(move |own| own.digest(pass, range, end.as_deref()));
                let answer = digest.await;
                if matches!(answer, SweepAnswer::Digests { .. }) {
                    self.sweeps.record.range_compared(pass);
                    self.push_pulled(pass);
                }
                answer
            }
            SweepRequest::Reconcile {
                pass,
                range,
                with,
                theirs,
            } => {
                self.sweeps.record.range_differs();
                self.reconcile((pass, range), with, theirs).await
            }
            SweepRequest::Symbols {
                pass,
                range,
                asker,
                first,
                count,
            } => {
                if first == 0 {
                    // The other node has found that the two differ.
                    self.sweeps.record.range_differs();
                }
                self.background(move |own| own.symbols((pass, range), asker, first, count))
                    .await
            }
            SweepRequest::Send {
                pass,
                range,
                asker,
                key_hashes,
            } => self.send((pass, range), asker, key_hashes).await,
            // No node pulls from itself; `serve_sweep` answers the others.
            SweepRequest::Pull { .. } => SweepAnswer::Unknown,
            SweepRequest::Announce { pass, range } => self.announce((pass, range)).await,
            SweepRequest::Sync { pass } => {
                match self.in_background(move |own| own.sync(pass)).await {
                    Some(Ok(true)) => SweepAnswer::Done,
                    Some(Ok(false)) => SweepAnswer::Unknown,
                    Some(Err(error)) => {
                        tracing::error!(%error, "a sweep cannot sync the store");
                        SweepAnswer::Unknown
                    }
                    None => SweepAnswer::Unknown,
                }
            }
            SweepRequest::End { pass, clean_with } => {
                let with = clean_with.clone();
                let ended = self.in_background(move |own| own.end(pass, &with)).await;
                let Some(kind) = ended.flatten() else {
                    return SweepAnswer::Unknown;
                };
                self.sweeps.record.ended(pass, kind, &clean_with);
                self.sweeps.refill.ended(pass);
                let is_full = kind == PassKind::Full;
                let peers = &mut self.sweeps.environment.members.peers();
                if is_full && peers.all(|peer| clean_with.contains(&peer)) {
                    self.sweeps.environment.membership.refilled();
                }
                SweepAnswer::Done
            }
        }
    }

    async fn advance(&self, pass: PassId, start: &bytes::Bytes) -> SweepAnswer {
        loop {
            let start = start.clone();
            let advance = self.in_background(move |own| own.advance(pass, &start));
            match advance.await {
                Some(Ok(Advance::GoOn)) => {}
                Some(Ok(Advance::Reached(end))) => return SweepAnswer::Advanced(end),
                Some(Ok(Advance::Unknown)) | None => return SweepAnswer::Unknown,
                Some(Err(error)) => {
                    tracing::error!(%error, "a sweep cannot read the store");
                    return SweepAnswer::Unknown;
                }
            }
        }
    }

    async fn background(
        &self,
        job: impl FnOnce(&mut Participant) -> SweepAnswer + Send + 'static,
    ) -> SweepAnswer {
        self.in_background(job)
            .await
            .unwrap_or(SweepAnswer::Unknown)
    }

    /// Has a job done by the lane of sweeps, once the lane has rested from the one
    /// before; [`None`] if the node is closed.
    async fn in_background<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Participant) -> T + Send + 'static,
    ) -> Option<T> {
        self.paced(job).await.ok()
    }

    /// Has a job done for which nobody waits.
    fn spawn_in_background(&self, job: impl FnOnce(&mut Participant) + Send + 'static) {
        let _nobody_waits = self.paced(job);
    }

    fn paced<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Participant) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let participant = Arc::clone(&self.sweeps.participant);
        let job = move || job(&mut lock(&participant));
        self.sweeps.pacer.spawn(job)
    }
}
