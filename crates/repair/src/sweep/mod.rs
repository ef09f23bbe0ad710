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
//!   sync          ---------->   makes durable what arrived; in a full pass now and then,
//!                               and then a checkpoint is stored
//!   end           ---------->   which pairs are clean
//! ```
//!
//! - `participant`: what a node keeps of a pass, and what it reads from its store
//!   for it; jobs of [`JobClass::Scan`].
//! - `pass_state`: the scan of one pass, and its last ranges.
//! - `exchange`: makes two nodes equal in a range.
//! - `announcing`: offers versions to nodes that do not compare them.
//! - `bulk`: pulls a range of which this node lacks most, as `runs`; `filling` puts them
//!   into tables, and `refill` follows how far that has come.
//! - `joining`: how a node joins passes, and gives them up.
//! - `driver`: leads a pass; `comparing`: has a range of it compared; `settling`: how long
//!   it waits before; `resuming`: lets it go on from a checkpoint; `calls`: how a node asks
//!   another one.
//! - `fencing`: fences all nodes before a full pass, which lets the forget bound rise.
//! - `leftovers`: buries what a store holds only because it has missed the tombstone.
//! - `serving`: what a node does as its peers ask.
//! - `schedule`: when this node drives one; `overdue`: how late the forget bound is.
//! - `record`: what this node knows of the passes that it took part in.
//! - `journal`: what of it survives a restart, and how far a full pass has come.
//!
//! A mend is an ordinary version: whatever arrives in whatever order, the newest
//! wins. So nothing has to be undone when a pass is cut short anywhere, and two
//! drivers at a time cost work, not correctness.

mod announcing;
mod bulk;
#[cfg(test)]
mod bulk_tests;
mod calls;
mod comparing;
mod driver;
mod exchange;
mod fencing;
mod filling;
mod joining;
mod journal;
mod leftovers;
#[cfg(test)]
mod leftovers_tests;
mod mended;
mod overdue;
mod participant;
mod pass_state;
mod record;
#[cfg(test)]
mod record_tests;
mod refill;
mod resuming;
mod runs;
mod schedule;
mod serving;
mod settling;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_behind_bounds;

pub use journal::{JournalEnvironment, SWEEP_VERSIONS};

pub use driver::PassReport;
pub use journal::fuzz_sweep;
pub use record::{EndedPasses, LastClean, RunningPass, SweepCounts, SweepStatus};
pub use refill::RefillProgress;
pub use schedule::OrderedSweep;

use crate::SweepSizes;
use crate::forgetting::Forgetting;
use base::{Clock, Random};
use cluster::sweep::{Incarnation, PassId, PassKind};
use cluster::{Members, NodeId, Placement};
use lsm::{Engine, Executor, JobClass};
use membership::Membership;
use mended::MendedKeys;
use participant::{Advance, Ended, Participant, ParticipantEnvironment};
use peer::SweepAnswer;
use profile::lock;
use record::EndedPass;
use replica::ExpiryBound;
use replica::Peers;
use replica::ReplicaSet;
use replica::background::{Background, Pacer, WorkKind};
use replica::pending::PendingRequests;
use replica::timestamps::TimestampAllocator;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// A pass that nobody has asked about for this long is forgotten, and not shown as
/// running any more: its driver was restarted, or cannot reach this node.
const PASS_IDLE_MAX: Duration = Duration::from_secs(120);

/// What sweeps work with.
pub struct SweepEnvironment {
    /// All nodes.
    pub members: Members,
    /// Where keys belong.
    pub placement: Arc<Placement>,
    /// The store.
    pub engine: Engine,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Draws the ids of passes.
    pub random: Arc<dyn Random>,
    /// Runs the jobs.
    pub executor: Arc<dyn Executor>,
    /// What this node has given a timestamp and seen.
    pub timestamps: Arc<TimestampAllocator>,
    /// How the store stands.
    pub membership: Membership,
    /// Below which bound the dead are dropped.
    pub forgetting: Arc<Forgetting>,
    /// The budget of background work.
    pub background: Arc<Background>,
    /// From how many bytes of keys and values on an ingest is committed.
    pub ingest_bytes_max: usize,
    /// Which values have expired by all clocks.
    pub expiry: Arc<ExpiryBound>,
    /// The deadline of requests.
    pub timeout: Duration,
    /// How often the nodes compare what has changed, if they do.
    pub interval: Option<Duration>,
    /// How often they compare everything, if they do.
    pub full_interval: Option<Duration>,
    /// How far in the past what the forget bound covers is.
    pub grace: Duration,
    /// How much is done at a time.
    pub sizes: SweepSizes,
}

/// A node's part in sweeps. Its runtimes share it.
pub struct Sweeps {
    environment: SweepEnvironment,
    participant: Arc<Mutex<Participant>>,
    mended: Arc<MendedKeys>,
    pacer: Arc<Pacer>,
    record: record::Record,
    refill: refill::Refill,
    journal: journal::Journal,
    orders: schedule::Orders,
    overdue: overdue::Overdue,
}

/// What a runtime needs to take part in sweeps, and to serve the other requests of peers.
pub struct Sweeper {
    /// What all runtimes share.
    pub sweeps: Arc<Sweeps>,
    /// The links to the other nodes.
    pub peers: Rc<Peers>,
    /// This node's own store among the others.
    pub replicas: Rc<ReplicaSet>,
    /// Where answers come to.
    pub pending: Rc<PendingRequests>,
}

impl Sweeps {
    /// No passes yet, but what earlier starts of this node remember. Blocks.
    pub fn open(environment: SweepEnvironment, journal: JournalEnvironment) -> Arc<Self> {
        let (clock, placement) = (&environment.clock, &environment.placement);
        let (journal, remembered) = journal::Journal::open(journal);
        let record = record::Record::new(Arc::clone(clock), placement.nodes(), remembered);
        let refill = refill::Refill::new(Arc::clone(clock));
        let mended = Arc::new(MendedKeys::default());
        let participant = Participant::new(ParticipantEnvironment {
            engine: environment.engine.clone(),
            clock: Arc::clone(clock),
            placement: Arc::clone(placement),
            own: environment.members.own(),
            mended: Arc::clone(&mended),
            bounds: Arc::clone(environment.forgetting.shared()),
            is_receiver: {
                let forgetting = Arc::clone(&environment.forgetting);
                let membership = environment.membership.clone();
                Box::new(move || forgetting.is_receiver(membership.replica_state()))
            },
            expiry: Arc::clone(&environment.expiry),
            sizes: environment.sizes,
            ingest_bytes_max: environment.ingest_bytes_max,
        });
        Arc::new(Self {
            overdue: overdue::Overdue {
                grace: environment.grace,
                interval: environment.full_interval,
                started_unix_ms: clock.unix_ms(),
            },
            pacer: Pacer::new(
                Arc::clone(&environment.background),
                WorkKind::Sweep,
                Arc::clone(&environment.executor),
                JobClass::Scan,
            ),
            environment,
            participant: Arc::new(Mutex::new(participant)),
            mended,
            record,
            refill,
            journal,
            orders: schedule::Orders::default(),
        })
    }

    /// What this node knows of sweeps.
    pub fn status(&self) -> SweepStatus {
        self.record.status(&self.refill)
    }

    /// Ends all writing to the data folder. Blocks while a write is running.
    pub fn close(&self) {
        self.journal.close();
    }

    /// Has the file written that survives restarts.
    fn store_journal(self: &Arc<Self>) {
        let sweeps = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(sweeps) = sweeps.upgrade() {
                let checkpoint = sweeps.journal.checkpoint();
                sweeps.journal.write(&sweeps.record.to_file(checkpoint));
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Owner, Duration::ZERO, job);
    }

    /// Has the budget know how late a pass is that is to raise the forget bound, if this
    /// node takes part in one.
    fn note_overdue(&self, is_fenced: bool) {
        let SweepEnvironment {
            background,
            clock,
            forgetting,
            ..
        } = &self.environment;
        let doublings = if is_fenced {
            self.overdue
                .doublings(clock.unix_ms(), forgetting.greatest())
        } else {
            0
        };
        background.set_overdue(WorkKind::Sweep, doublings);
    }

    /// Has this node drive a pass, unless it is alone.
    pub fn order(&self, kind: PassKind) -> Option<OrderedSweep> {
        let is_alone = self.environment.members.is_single_node();
        (!is_alone).then(|| self.orders.order(kind))
    }
}

/// Logs that a sweep cannot read this node's store.
fn report_unreadable(error: &lsm::Error) {
    tracing::error!(
        %error,
        "a repair cannot read the store, so it finds this node equal with no other one: look at \
         the disk, and at earlier lines about it"
    );
}

impl Sweeper {
    /// Takes note of what a pass has shown.
    async fn end(
        &self,
        pass: PassId,
        is_conclusive: bool,
        single_copies: &[u64],
        clean_with: Vec<NodeId>,
    ) -> SweepAnswer {
        let (with, incarnation) = (clean_with.clone(), self.incarnation());
        let ended = self.in_background(move |own| own.end(pass, incarnation, &with));
        let Some(Ended {
            kind,
            is_from_begin,
        }) = ended.await.flatten()
        else {
            self.sweeps.record.left(pass);
            return SweepAnswer::Unknown;
        };
        let ended = EndedPass {
            pass,
            kind,
            is_conclusive,
        };
        self.sweeps.record.ended(ended, &clean_with, single_copies);
        self.sweeps.refill.ended(pass);
        self.sweeps.store_journal();
        let environment = &self.sweeps.environment;
        // A store that was lost had acknowledged each write together with another one,
        // and with that one it was compared itself: it need not wait for other pairs.
        if kind == PassKind::Full {
            let membership = &environment.membership;
            let peers = environment.members.peers();
            // A clock that was far at the handshake may have come near since.
            for peer in peers.filter(|peer| environment.timestamps.has_observed(*peer)) {
                membership.observed(peer);
            }
            let forgetting = &environment.forgetting;
            let is_receiver = forgetting.is_receiver(membership.replica_state());
            membership.full_pass_ended(pass, &clean_with, single_copies);
            let mut peers = environment.members.peers();
            let is_clean = peers.all(|peer| clean_with.contains(&peer));
            // Before a restart it may have compared by another list of nodes.
            forgetting.set_ended_pass((is_clean && is_from_begin).then_some(pass));
            if is_receiver && is_clean {
                // If that fails the store keeps what it has, and waits for the next pass.
                let _filled = forgetting.fill().await;
            }
        }
        SweepAnswer::Done
    }

    /// Stores how far a full pass has come that this node drives, or that none has.
    fn store_checkpoint(&self, checkpoint: Option<journal::Checkpoint>) {
        self.sweeps.journal.set_checkpoint(checkpoint);
        self.sweeps.store_journal();
    }

    /// Whether a node is this one or is not known to be down.
    fn is_up(&self, node: NodeId) -> bool {
        self.peers.is_own(node) || !self.peers.is_down(node)
    }

    /// The state of the own store: what a pass shows of another one does not count.
    fn incarnation(&self) -> Incarnation {
        self.sweeps.environment.membership.incarnation()
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
                    report_unreadable(&error);
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

    /// Has a job done by the class of sweeps, once the class has rested from the one
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
        let sweeps = Arc::clone(&self.sweeps);
        let job = move || {
            let mut own = lock(&sweeps.participant);
            let done = job(&mut own);
            let forgetting = &sweeps.environment.forgetting;
            forgetting.set_passes_gone_back(own.passes_gone_back());
            forgetting.set_passes(own.passes());
            sweeps.note_overdue(own.is_fenced());
            done
        };
        self.sweeps.pacer.spawn(job)
    }
}
