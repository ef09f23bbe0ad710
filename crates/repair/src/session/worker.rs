//! What the runtimes of a node share of repair, and how they have jobs done for it.

use super::change::ChangeView;
use super::checkpoint::{Checkpoint, CheckpointEnvironment, Checkpoints};
use super::orders::{OrderedRepair, Orders};
use super::overdue::Overdue;
use super::part::{PartEnvironment, Participant, RangeId, WrittenKeys};
use super::progress::Rebuild;
use super::record::{Record, RepairStatus};
use super::untold::Untold;
use crate::RepairSizes;
use crate::store::StoreSide;
use base::{Clock, Entry, Random, Timestamp};
use cluster::comparison::{Incarnation, RepairKind};
use cluster::repair::SessionId;
use cluster::{Miss, NodeId, ReplicaState};
use lsm::{Admission, Engine, Executor, JobClass};
use membership::{Layouts, Membership};
use peer::RepairAnswer;
use profile::lock;
use replica::background::{Background, Pacer, WorkKind};
use replica::pending::PendingRequests;
use replica::timestamps::TimestampAllocator;
use replica::{ExpiryBound, Peers, ReplicaSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// How many ranges wait for their tables, or are being written, while the next one is streamed. So a
/// session holds in memory what was streamed of two.
const WRITING_MAX: usize = 1;

/// What repair works with.
pub struct RepairEnvironment {
    /// The nodes of the cluster, and which of them keep a key.
    pub layouts: Layouts,
    /// The store.
    pub engine: Engine,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Draws what names a session.
    pub random: Arc<dyn Random>,
    /// Runs the jobs.
    pub executor: Arc<dyn Executor>,
    /// What this node has given a timestamp and seen.
    pub timestamps: Arc<TimestampAllocator>,
    /// How the store stands.
    pub membership: Membership,
    /// The store's side of sessions.
    pub store_side: Arc<StoreSide>,
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
    /// How far in the past what the GC threshold covers is.
    pub gc_grace: Duration,
    /// How much is done at a time.
    pub sizes: RepairSizes,
    /// A change of the members, as this node takes part in it.
    pub change: ChangeView,
}

/// A node's part in repair. Its runtimes share it.
pub struct RepairSessions {
    pub(super) environment: RepairEnvironment,
    pub(super) written: Arc<WrittenKeys>,
    pub(super) record: Record,
    pub(super) rebuild: Rebuild,
    pub(super) checkpoints: Checkpoints,
    pub(super) orders: Orders,
    pub(super) untold: Untold,
    pub(super) participant: Mutex<Participant>,
    pacer: Arc<Pacer>,
    /// Runs what writes tables.
    pub(super) ingest_pacer: Arc<Pacer>,
    /// A permit for each range whose tables are written while the next one is streamed.
    pub(super) writing: Arc<Semaphore>,
    overdue: Overdue,
}

/// What a runtime needs to take part in repair, and to serve the other requests of peers.
pub struct RepairWorker {
    /// What all runtimes share.
    pub sessions: Arc<RepairSessions>,
    /// The links to the other nodes.
    pub peers: Rc<Peers>,
    /// This node's own store among the others.
    pub replicas: Rc<ReplicaSet>,
    /// Where answers come to.
    pub pending: Rc<PendingRequests>,
}

impl RepairSessions {
    /// No sessions yet, but what earlier starts of this node remember. Blocks.
    pub fn open(environment: RepairEnvironment, files: CheckpointEnvironment) -> Arc<Self> {
        let (clock, layouts) = (&environment.clock, &environment.layouts);
        let (checkpoints, remembered) = Checkpoints::open(files);
        let record = Record::new(Arc::clone(clock), layouts.clone(), remembered);
        let written = Arc::new(WrittenKeys::default());
        let uncertain_below = {
            let (engine, store_side) = (
                environment.engine.clone(),
                Arc::clone(&environment.store_side),
            );
            Box::new(move || {
                if engine.has_damage_to_set_aside() {
                    let record = store_side.record();
                    record.gc_threshold.max(record.answered.below)
                } else {
                    Timestamp::ZERO
                }
            })
        };
        let participant = Participant::new(PartEnvironment {
            engine: environment.engine.clone(),
            clock: Arc::clone(clock),
            layouts: layouts.clone(),
            written: Arc::clone(&written),
            uncertain_below,
            expiry: Arc::clone(&environment.expiry),
            sizes: environment.sizes,
            ingest_bytes_max: environment.ingest_bytes_max,
        });
        let pacer = Pacer::new(
            Arc::clone(&environment.background),
            WorkKind::Repair,
            Arc::clone(&environment.executor),
            JobClass::Scan,
        );
        let sessions = Arc::new(Self {
            overdue: Overdue {
                gc_grace: environment.gc_grace,
                interval: environment.full_interval,
                started_unix_ms: clock.unix_ms(),
            },
            ingest_pacer: pacer.beside(JobClass::Ingest),
            pacer,
            writing: Arc::new(Semaphore::new(WRITING_MAX)),
            rebuild: Rebuild::new(Arc::clone(clock)),
            untold: Untold::new(Arc::clone(clock)),
            environment,
            participant: Mutex::new(participant),
            written,
            record,
            checkpoints,
            orders: Orders::default(),
        });
        sessions.report_facts();
        sessions
    }

    /// What this node knows of repair.
    pub fn status(&self) -> RepairStatus {
        self.record.status(&self.rebuild)
    }

    /// Ends all writing to the data folder. Blocks while a write is running.
    pub fn close(&self) {
        self.checkpoints.close();
    }

    /// Has this node coordinate a session, unless it is alone.
    pub fn order(&self, kind: RepairKind) -> Option<OrderedRepair> {
        let is_alone = self.environment.layouts.load().members().is_single_node();
        (!is_alone).then(|| self.orders.order(kind))
    }

    /// Whether the own store takes a version that a session brings, and how.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn admits(&self, session: SessionId, entry: &Entry) -> Result<Admission, Miss> {
        let RepairEnvironment {
            engine, store_side, ..
        } = &self.environment;
        match session {
            SessionId::Full(token) => {
                store_side.admits(entry, engine.is_damaged(entry.key()), token)
            }
            SessionId::Incremental(_) => {
                // The store itself compares what comes below meanwhile.
                let below = store_side.record().closed;
                if entry.timestamp() >= below {
                    Ok(Admission::Ordinary)
                } else {
                    Err(Miss::Obsolete { below })
                }
            }
        }
    }

    /// Has a job done by the class of repair, once the class has rested from the one before.
    pub(super) fn paced<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&mut Participant) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let sessions = Arc::clone(self);
        let job = move || {
            let mut own = lock(&sessions.participant);
            let done = job(&mut own);
            let takes_part = own
                .sessions()
                .any(|session| session.kind() == RepairKind::Full);
            let may_raise = sessions.environment.store_side.record().may_raise;
            sessions.note_overdue(takes_part && may_raise);
            done
        };
        self.pacer.spawn(job)
    }

    /// Says which keys are ahead of the scan of a full session: read repairs ask for that.
    pub(super) fn name_keys_ahead(&self, own: &mut Participant, session: SessionId) {
        if session.kind() == RepairKind::Full {
            let store_side = &self.environment.store_side;
            match own.keys_ahead(session) {
                Some((from, until)) => store_side.set_ahead(&from, until.as_deref()),
                None => store_side.set_ahead(&[], Some(&[])),
            }
        }
    }

    /// This node differs from another one in a range. Counts that once, however often the two
    /// compare the range.
    pub(super) fn note_difference(&self, own: &mut Participant, range: RangeId, with: NodeId) {
        if own.differs(range, with) {
            self.record.count(|counts| counts.ranges_differing += 1);
        }
    }

    /// Has the file written that survives restarts.
    pub(super) fn store_file(self: &Arc<Self>) {
        let sessions = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(sessions) = sessions.upgrade() {
                let checkpoint = sessions.checkpoints.last();
                let file = sessions.record.to_file(checkpoint);
                sessions.checkpoints.write(&file);
            }
        });
        let executor = &self.environment.executor;
        executor.spawn(JobClass::Owner, Duration::ZERO, job);
    }

    /// Stores how far a full session has come that this node coordinates, or that there is none.
    pub(super) fn store_checkpoint(self: &Arc<Self>, checkpoint: Option<Checkpoint>) {
        self.checkpoints.set(checkpoint);
        self.store_file();
    }

    /// Has the budget know how late a session is that is to raise the GC threshold, if this
    /// node takes part in one.
    fn note_overdue(&self, raises: bool) {
        let RepairEnvironment {
            background,
            clock,
            store_side,
            ..
        } = &self.environment;
        let doublings = if raises {
            self.overdue
                .doublings(clock.unix_ms(), store_side.greatest_known())
        } else {
            0
        };
        background.set_overdue(WorkKind::Repair, doublings);
    }
}

impl RepairWorker {
    /// Whether a node is this one or is not known to be down.
    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.peers.is_own(node) || !self.peers.is_down(node)
    }

    pub(super) fn are_all_up(&self) -> bool {
        let layout = self.peers.layout();
        let mut nodes = layout.members().ids();
        nodes.all(|node| self.is_up(node))
    }

    /// How the store of a node stands, if that is known. A peer that is suspected keeps its state.
    pub(super) fn replica_state_of(&self, node: NodeId) -> Option<ReplicaState> {
        if self.peers.is_own(node) {
            Some(self.sessions.environment.membership.replica_state())
        } else {
            self.peers
                .status(node)
                .and_then(|status| status.replica_state)
        }
    }

    /// Says that this node takes no part in a session, or does not know a range of it any more.
    pub(super) fn refusal(&self) -> RepairAnswer {
        RepairAnswer::Refused {
            greatest: self.sessions.environment.store_side.record().token,
        }
    }

    /// The state of the own store: what a session shows of another one does not count.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.sessions.environment.membership.incarnation()
    }

    /// Has a job done by the class of repair, once the class has rested from the one
    /// before; [`None`] if the node is closed.
    pub(super) async fn in_background<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Participant) -> T + Send + 'static,
    ) -> Option<T> {
        self.sessions.paced(job).await.ok()
    }

    /// Has a job done for which nobody waits.
    pub(super) fn spawn_in_background(&self, job: impl FnOnce(&mut Participant) + Send + 'static) {
        let _nobody_waits = self.sessions.paced(job);
    }
}
