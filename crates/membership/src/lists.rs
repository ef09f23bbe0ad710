//! The interface to the list of members: who may change it, and what becomes durable when.
//!
//! - **A list** is durable before it is in force, and before the node reports it.
//! - **A vote** is durable before it is answered.

use crate::Membership;
use crate::cluster_file::ClusterFile;
use crate::state::Handed;
use cluster::layout::paxos::{Acceptor, VoteAnswer, VoteRequest};
use cluster::layout::{ClusterId, MemberList, Reports};
use cluster::{Epoch, NodeId, NodeSet};
use lsm::{Disk, Error, JobClass};
use peer::ListReport;
use profile::lock;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a node that has left still serves those who may not have heard of it.
const LEAVES_AFTER: Duration = Duration::from_secs(2);

/// What a node hands another one.
#[derive(Clone, Debug)]
pub struct Exchanged {
    /// Its list, which is durable; `None` if it has none.
    pub list: Option<Arc<MemberList>>,
    /// What it has promised and accepted for the next one.
    pub acceptor: Acceptor,
}

/// The list of members in a data folder, with the name of the node, if the list has changed since
/// the cluster was formed. Then it says who the members are, and not how the node is started.
///
/// # Errors
/// Those of reading the file `CLUSTER`.
pub fn stored_list(
    disk: &dyn Disk,
    folder: &Path,
) -> Result<Option<(String, Arc<MemberList>)>, Error> {
    let file = ClusterFile::load(disk, folder)?;
    Ok(file.and_then(|file| {
        let list = file
            .lists
            .list
            .filter(|list| list.epoch() > Epoch::default())?;
        Some((file.own_name, list))
    }))
}

impl Membership {
    /// The list of members, durable; `None` until the nodes of a new cluster have all met, and for a
    /// node alone.
    #[must_use]
    pub fn list(&self) -> Option<Arc<MemberList>> {
        lock(&self.inner.state).lists.durable().cloned()
    }

    /// Whether this node waits to join a cluster. Once it has a list, it is a member from its next
    /// start on.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.inner.environment.waits
    }

    /// Draws the number of a cluster.
    #[must_use]
    pub fn draw_cluster(&self) -> ClusterId {
        ClusterId::new(self.inner.environment.random.next_u64().max(1))
    }

    /// Waits until another list is durable; at most one waits.
    pub async fn list_changed(&self) {
        self.inner.list_changed.notified().await;
    }

    /// Whether a decided list does not have this node, or has it as dead. Then its store does not
    /// count any more.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        lock(&self.inner.state).lists.is_removed()
    }

    /// What this node says of the list, in hellos and with heartbeats.
    #[must_use]
    pub fn list_report(&self) -> ListReport {
        lock(&self.inner.state).lists.report()
    }

    /// What the members have reported, this one too.
    #[must_use]
    pub fn reports(&self) -> Reports {
        lock(&self.inner.state).lists.reports().clone()
    }

    /// The epoch of a peer's list, as it has said since this node was started.
    #[must_use]
    pub fn list_epoch_of(&self, peer: NodeId) -> Option<Epoch> {
        lock(&self.inner.state).lists.epoch_of(peer)
    }

    /// Takes a decided list, if it is later than the present one. It becomes durable in the
    /// background: see [`Membership::list_changed`].
    pub fn take_list(&self, list: &MemberList) {
        let inner = &self.inner;
        let schedule = {
            let mut state = lock(&inner.state);
            let handed = if inner.environment.waits {
                state.join(&inner.own, list, &*inner.environment.random)
            } else {
                state.take_list(&inner.own, list)
            };
            if handed == Handed::Foreign && !inner.environment.waits {
                tracing::warn!(
                    epoch = list.epoch().as_u64(),
                    "ignoring a list of members of another cluster, or with another node under the \
                     ID of this one: a node with an empty folder comes to a list that has changed \
                     by --join"
                );
            }
            if handed == Handed::Left && state.begin_to_leave() {
                self.leave_later();
            }
            inner.publish(&state);
            state.versions.schedule_write()
        };
        if schedule {
            inner.spawn_write(Duration::ZERO);
        }
    }

    /// Has this node leave once the others have heard that the change has ended: until then their
    /// requests still need a quorum with it.
    fn leave_later(&self) {
        let weak = Arc::downgrade(&self.inner);
        let job = Box::new(move || {
            let Some(inner) = weak.upgrade() else { return };
            let mut state = lock(&inner.state);
            if state.leave() {
                tracing::warn!(
                    "this node has left the cluster, and serves nothing any more: stop it. To have it \
                     again, give it an empty data folder and start it with --join"
                );
            }
            inner.publish(&state);
        });
        let executor = &self.inner.environment.executor;
        executor.spawn(JobClass::Owner, LEAVES_AFTER, job);
    }

    /// Takes the list of a peer, if it is later than the own one, and gives the own one.
    pub fn exchange_lists(&self, theirs: Option<&MemberList>) -> Exchanged {
        if let Some(theirs) = theirs {
            self.take_list(theirs);
        }
        let state = lock(&self.inner.state);
        Exchanged {
            list: state.lists.durable().cloned(),
            acceptor: state.lists.acceptor().clone(),
        }
    }

    /// Votes on the next list: `reply` gets the answer once it is durable, from any thread.
    pub fn vote(&self, request: VoteRequest, reply: impl FnOnce(VoteAnswer) + Send + 'static) {
        let inner = &self.inner;
        if inner.environment.waits {
            return reply(VoteAnswer::Missed);
        }
        let (answer, schedule) = {
            let mut state = lock(&inner.state);
            let (answer, version) = state.vote(&inner.own, request);
            inner.publish(&state);
            if state.versions.is_durable(version) {
                (Some((answer, reply)), false)
            } else {
                let is_durable = move |is_durable| {
                    reply(if is_durable {
                        answer
                    } else {
                        VoteAnswer::Missed
                    });
                };
                state.versions.wait_for(version, Box::new(is_durable));
                (None, state.versions.schedule_write())
            }
        };
        if let Some((answer, reply)) = answer {
            reply(answer);
        }
        if schedule {
            inner.spawn_write(Duration::ZERO);
        }
    }

    /// Whether this store may have lost what it has promised and accepted, and does not vote.
    #[must_use]
    pub fn lacks_votes(&self) -> bool {
        lock(&self.inner.state).lists.lacks_votes()
    }

    /// Takes over the votes of all other members, for the list after the one of this epoch.
    pub fn take_over_votes(&self, epoch: Epoch, others: &[Acceptor]) {
        let schedule = {
            let mut state = lock(&self.inner.state);
            state.take_over_votes(epoch, others);
            state.versions.schedule_write()
        };
        if schedule {
            self.inner.spawn_write(Duration::ZERO);
        }
    }

    /// From now on this node reports an epoch: its list is durable and in force in all of the node,
    /// and no request goes by an earlier one.
    pub fn report_epoch(&self, epoch: Epoch) {
        lock(&self.inner.state).report_epoch(&self.inner.own, epoch);
    }

    /// From now on this node reports that a full repair session of this change has made its present
    /// store equal with these nodes. A store that loses something loses that.
    pub fn set_facts(&self, change: Epoch, equal_with: NodeSet) {
        lock(&self.inner.state).set_facts(&self.inner.own, change, equal_with);
    }

    /// Whether this node may take part in a repair session of a change that copies: it has reported
    /// the change, and answers no peer any more that has not. Where it has yet to do so, it says no,
    /// and is to be asked again.
    #[must_use]
    pub fn raise_floor(&self) -> bool {
        lock(&self.inner.state).raise_floor()
    }
}
