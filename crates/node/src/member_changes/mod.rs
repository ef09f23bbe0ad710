//! Changes of the list of members while the cluster serves, as this node takes part in them.
//!
//! [`MemberChanges`] is the way in, for operators: what the list is and how far a change has come
//! ([`ChangesStatus`], in `status`), and the orders that begin or undo one ([`ChangeOrder`],
//! [`Plan`] and [`ChangeRefusal`], in `order`). `shell` is the task that carries changes on: it asks
//! the members for their votes, hands them lists, puts a list in force, and has the node report it.
//! `joining` is a node that waits to join, `waiting` what members know of such nodes.
//!
//! A list goes through a node like this:
//!
//! 1. It is decided, or handed over by a peer, and becomes durable (`membership`).
//! 2. It is in force: each runtime adopts it for the requests that begin from then on.
//! 3. The timeout of requests later, no request of an earlier list is left. The node reports the list
//!    with its heartbeats.

mod joining;
mod order;
mod shell;
mod status;
mod waiting;

pub(crate) use joining::{Introductions, Joining, hear_waiting};
pub use order::{ChangeOrder, ChangeRefusal, Plan};
pub(crate) use shell::ChangeShell;
pub use status::{ChangesStatus, WaitingNode};
use waiting::WaitingNodes;

use base::Clock;
use cluster::layout::driver::CommandFailure;
use cluster::layout::{Change, ChangeProgress, Joiner, MemberList};
use cluster::{Epoch, NodeSet};
use membership::{Layouts, Membership};
use peer::KnownJoiner;
use profile::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How many orders may wait; the shell takes them at once.
const ORDERS_MAX: usize = 4;

/// How long an order waits until a node that is to join and all members have reached each other, and
/// how often it looks.
const MET_WITHIN: Duration = Duration::from_secs(3);
const MEETING_LOOK: Duration = Duration::from_millis(200);

/// How long a list that is forced may take to become durable.
const FORCED_WITHIN: Duration = Duration::from_secs(10);

/// This node's part in changes of the list of members. It is cheap to clone.
#[derive(Clone)]
pub struct MemberChanges {
    inner: Arc<Inner>,
}

struct Inner {
    layouts: Layouts,
    membership: Membership,
    /// The epoch of the layout that each runtime has adopted.
    adopted: Vec<AtomicU64>,
    seen: Mutex<Seen>,
    clock: Arc<dyn Clock>,
    /// How far the clock of a node that joins may be from that of this node.
    clock_drift_max: Duration,
    /// The nodes that wait to join, as they have told this node.
    waiting: Mutex<WaitingNodes>,
    /// Why this node waits to join, if it does.
    waits_because: Mutex<Option<String>>,
    /// Whether it waited, and the list that has it is durable; or it was the only node, and the list
    /// with others is.
    is_joined: watch::Sender<bool>,
    orders: mpsc::Sender<Ordered>,
    /// Until the shell takes it.
    ordered: Mutex<Option<mpsc::Receiver<Ordered>>>,
}

/// What the shell has seen last.
struct Seen {
    up: NodeSet,
    progress: ChangeProgress,
}

/// An order on its way to the shell.
enum Ordered {
    /// A change.
    Change {
        change: Change,
        done: oneshot::Sender<Result<(), CommandFailure>>,
    },
    /// What all members that are up know of nodes that wait to join.
    Ask {
        joiners: Vec<String>,
        done: oneshot::Sender<Vec<AskedMember>>,
    },
}

/// What a member that is up has answered before a change.
struct AskedMember {
    name: String,
    /// Whether its release knows changes of the list.
    has_lists: bool,
    /// What it knows of each node that is to join; `None` where it has not answered.
    known: Vec<Option<KnownJoiner>>,
}

impl MemberChanges {
    /// The part of a node with so many runtimes.
    pub(crate) fn new(
        layouts: Layouts,
        membership: Membership,
        clock: Arc<dyn Clock>,
        clock_drift_max: Duration,
        runtimes: usize,
    ) -> Self {
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        let epoch = layouts.load().epoch();
        let adopted = (0..runtimes).map(|_| AtomicU64::new(epoch.as_u64()));
        let seen = Seen {
            up: NodeSet::from_iter([layouts.own()]),
            progress: ChangeProgress::Stable,
        };
        let inner = Inner {
            adopted: adopted.collect(),
            layouts,
            membership,
            seen: Mutex::new(seen),
            clock,
            clock_drift_max,
            waiting: Mutex::default(),
            waits_because: Mutex::default(),
            is_joined: watch::Sender::new(false),
            orders,
            ordered: Mutex::new(Some(ordered)),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// A runtime has adopted the layout of this epoch.
    pub(crate) fn adopted(&self, runtime: usize, epoch: Epoch) {
        if let Some(adopted) = self.inner.adopted.get(runtime) {
            adopted.store(epoch.as_u64(), Ordering::Release);
        }
    }

    /// The last epoch whose layout all runtimes have adopted.
    fn adopted_by_all(&self) -> Epoch {
        let adopted = self.inner.adopted.iter();
        let least = adopted.map(|epoch| epoch.load(Ordering::Acquire)).min();
        Epoch::new(least.unwrap_or_default())
    }

    /// The list, and how far a change has come.
    #[must_use]
    pub fn status(&self) -> ChangesStatus {
        let Inner {
            layouts,
            membership,
            seen,
            clock,
            waiting,
            ..
        } = &*self.inner;
        let Some(list) = membership.list() else {
            return ChangesStatus::without_list(layouts.own());
        };
        let reports = membership.reports();
        let reported = list.members().iter().map(|it| (it.id, reports.of(it.id)));
        let reported = reported.collect();
        let seen = lock(seen);
        ChangesStatus {
            own: layouts.own(),
            list: Some(list),
            is_removed: membership.is_removed(),
            reported,
            up: seen.up,
            progress: seen.progress.clone(),
            waiting: lock(waiting).list(clock.monotonic()),
        }
    }

    /// Why this node waits to join a cluster, and what is to be done; `None` if it does not wait.
    #[must_use]
    pub fn waits_because(&self) -> Option<String> {
        if !self.inner.membership.waits() {
            return None;
        }
        let said = lock(&self.inner.waits_because).clone();
        Some(said.unwrap_or_else(|| "it has not reached a member yet".to_owned()))
    }

    /// Whether this node waits to join a cluster, so that it serves no data.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.inner.membership.waits()
    }

    /// Whether it has waited, and is in the list now: see [`MemberChanges::joined`].
    #[must_use]
    pub fn has_joined(&self) -> bool {
        *self.inner.is_joined.borrow()
    }

    /// Waits until this node, which waits to join, is in the list, or until others join the only node
    /// of a cluster: then it is to be stopped and started anew, as a member of several.
    pub async fn joined(&self) {
        let mut is_joined = self.inner.is_joined.subscribe();
        // The sender lives as long as this handle.
        let _is_over = is_joined.wait_for(|is_joined| *is_joined).await;
    }

    /// Does what an operator orders, or only plans it if `is_dry_run`. It returns once the first
    /// list of the change is decided; the rest of the change follows by itself.
    ///
    /// # Errors
    /// See [`ChangeRefusal`]. After [`ChangeRefusal::NoMajority`] the change may yet begin.
    pub async fn order(&self, order: ChangeOrder, is_dry_run: bool) -> Result<Plan, ChangeRefusal> {
        let Inner {
            membership,
            seen,
            orders,
            ..
        } = &*self.inner;
        if membership.is_removed() {
            return Err(ChangeRefusal::Removed);
        }
        let Some(before) = membership.list() else {
            let is_alone = membership.is_alone();
            return Err(if is_alone {
                ChangeRefusal::Alone
            } else {
                ChangeRefusal::NotMet
            });
        };
        let change = match order {
            ChangeOrder::Force(names) => return self.force(before, &names, is_dry_run).await,
            ChangeOrder::Members {
                join,
                leave,
                are_dead,
            } => Change::Members {
                join: self.joiners(&join)?,
                leave,
                are_dead,
            },
            ChangeOrder::Move { name, url } => Change::Move { name, url },
            ChangeOrder::Pair(pair) => Change::Pair(pair),
            ChangeOrder::Abort => Change::Abort,
        };
        self.check_with_all(&change).await?;
        let up = lock(seen).up;
        let after = before.plan(&change, up)?;
        let plan = Plan {
            down: down_of(&before, up),
            before,
            after: Arc::new(after),
            is_dry_run,
        };
        if is_dry_run {
            return Ok(plan);
        }
        let (done, outcome) = oneshot::channel();
        let ordered = Ordered::Change { change, done };
        if orders.try_send(ordered).is_err() {
            return Err(ChangeRefusal::Busy);
        }
        // Without an outcome the node has been stopped.
        outcome.await.unwrap_or(Err(CommandFailure::NoMajority))?;
        Ok(plan)
    }
}

impl MemberChanges {
    /// Has these members go on by themselves.
    async fn force(
        &self,
        before: Arc<MemberList>,
        names: &[String],
        is_dry_run: bool,
    ) -> Result<Plan, ChangeRefusal> {
        let Inner {
            layouts,
            membership,
            seen,
            ..
        } = &*self.inner;
        let layout = layouts.load();
        let own = layout.members().own_name();
        if !names.iter().any(|name| name == own) {
            let own = own.to_owned();
            return Err(ChangeRefusal::NotLeft { own });
        }
        let up = lock(seen).up;
        let after = Arc::new(before.forced(names, membership.draw_cluster(), up)?);
        let plan = Plan {
            down: down_of(&after, up),
            before,
            after: Arc::clone(&after),
            is_dry_run,
        };
        if is_dry_run {
            return Ok(plan);
        }
        membership.take_list(&after);
        let is_durable = async {
            while membership.list().map(|list| list.cluster()) != Some(after.cluster()) {
                tokio::time::sleep(MEETING_LOOK).await;
            }
        };
        match tokio::time::timeout(FORCED_WITHIN, is_durable).await {
            Ok(()) => Ok(plan),
            Err(_) => Err(ChangeRefusal::NotDurable),
        }
    }

    /// What this node knows of a node that may wait to join.
    pub(crate) fn knows(&self, name: &str) -> KnownJoiner {
        let now = self.inner.clock.monotonic();
        lock(&self.inner.waiting).knows(name, now)
    }

    /// The nodes with these names, which wait to join.
    fn joiners(&self, names: &[String]) -> Result<Vec<Joiner>, ChangeRefusal> {
        let Inner {
            clock,
            clock_drift_max,
            waiting,
            ..
        } = &*self.inner;
        let (waiting, now) = (lock(waiting), clock.monotonic());
        let joiner = |name: &String| waiting.joiner(name, *clock_drift_max, now);
        names.iter().map(joiner).collect()
    }

    /// Checks that all members that are up know changes of the list, and that each of them and those
    /// that are to join reach each other. A node that has just begun to wait has not told all members
    /// yet, so this waits a moment for that.
    async fn check_with_all(&self, change: &Change) -> Result<(), ChangeRefusal> {
        let joiners: Vec<String> = match change {
            Change::Members { join, .. } => {
                let names = join.iter().map(|joiner| joiner.member.name());
                names.map(str::to_owned).collect()
            }
            Change::Move { .. } | Change::Pair(_) | Change::Abort => Vec::new(),
        };
        let clock = &self.inner.clock;
        let patient_until = clock.monotonic() + MET_WITHIN;
        loop {
            let (done, asked) = oneshot::channel();
            let ordered = Ordered::Ask {
                joiners: joiners.clone(),
                done,
            };
            if self.inner.orders.try_send(ordered).is_err() {
                return Err(ChangeRefusal::Busy);
            }
            // Without an answer the node has been stopped.
            let asked = asked.await.map_err(|_| ChangeRefusal::NoMajority)?;
            match refusal_of(&joiners, &asked) {
                None => return Ok(()),
                Some(
                    refusal @ (ChangeRefusal::NotHeard { .. } | ChangeRefusal::Unreachable { .. }),
                ) if clock.monotonic() >= patient_until => return Err(refusal),
                Some(ChangeRefusal::NotHeard { .. } | ChangeRefusal::Unreachable { .. }) => {
                    tokio::time::sleep(MEETING_LOOK).await;
                }
                Some(refusal) => return Err(refusal),
            }
        }
    }
}

/// Why the nodes cannot join, by what the members that are up have answered.
fn refusal_of(joiners: &[String], asked: &[AskedMember]) -> Option<ChangeRefusal> {
    let old = asked.iter().filter(|it| !it.has_lists);
    let names: Vec<String> = old.map(|it| it.name.clone()).collect();
    if !names.is_empty() {
        return Some(ChangeRefusal::OldRelease { names });
    }
    for (place, name) in joiners.iter().enumerate() {
        let lacks = |has: fn(&KnownJoiner) -> bool| -> Vec<String> {
            let lack = asked.iter().filter(|it| {
                let known = it.known.get(place).copied().flatten();
                known.is_some_and(|known| !has(&known))
            });
            lack.map(|it| it.name.clone()).collect()
        };
        let (name, members) = (name.clone(), lacks(|known| known.is_heard));
        if !members.is_empty() {
            return Some(ChangeRefusal::NotHeard { name, members });
        }
        let from = lacks(|known| known.is_reached);
        if !from.is_empty() {
            return Some(ChangeRefusal::Unreachable { name, from });
        }
    }
    None
}

/// The members that are not up and not dead.
fn down_of(list: &MemberList, up: NodeSet) -> Vec<cluster::NodeId> {
    list.live().without(up).iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::alone;

    /// Requests of the slowest runtime still go by the list before.
    #[test]
    fn a_list_counts_as_adopted_once_all_runtimes_have_adopted_it() {
        let node = alone();
        let changes = MemberChanges::new(
            node.layouts.clone(),
            node.membership.clone(),
            Arc::clone(&node.clock),
            Duration::ZERO,
            2,
        );
        for (runtime, epoch, of_all) in [(1, 1, 0), (0, 2, 1), (1, 2, 2)] {
            changes.adopted(runtime, Epoch::new(epoch));
            assert_eq!(changes.adopted_by_all(), Epoch::new(of_all));
        }
    }
}
