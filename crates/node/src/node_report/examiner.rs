//! Asks all nodes for their reports.

use super::FRESH;
use base::Clock;
use cluster::{Miss, NodeId};
use peer::{NodeReport, PeerAnswer, PeerRequest};
use replica::Completion;
use replica::Peers;
use replica::pending::{PendingRequests, Wait};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a node waits for the reports of the others.
pub(super) const EXAMINE_MAX: Duration = Duration::from_secs(1);

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExaminedNode {
    /// Which node.
    pub node: NodeId,
    /// What it says, or why it says nothing.
    pub report: Result<NodeReport, Miss>,
}

/// What all nodes have said, and when the last of them did on the monotonic clock.
type Examination = (Arc<[ExaminedNode]>, Duration);

/// Examines the nodes of the cluster, for all runtimes: one of them asks at a time, and the
/// others wait for what it hears.
#[derive(Default)]
pub(crate) struct Examiner {
    last: Mutex<Option<Examination>>,
}

impl Examiner {
    /// How each node is, in the order of their names: as they said within the last second, or
    /// say now. `own` says how this one is, in time for its deadline.
    pub(crate) async fn examine(
        &self,
        own: impl AsyncFnOnce(Duration) -> NodeReport,
        peers: &Peers,
        pending: &Rc<PendingRequests>,
        clock: &dyn Clock,
    ) -> Arc<[ExaminedNode]> {
        let mut last = self.last.lock().await;
        if let Some((nodes, at)) = &*last
            && clock.monotonic().saturating_sub(*at) < FRESH
        {
            return Arc::clone(nodes);
        }
        *last = None;
        let deadline = clock.monotonic().saturating_add(EXAMINE_MAX);
        let layout = peers.layout();
        let nodes = layout.members().ids();
        let asked: Vec<_> = nodes
            .map(|node| (node, ask(peers, pending, node, deadline)))
            .collect();
        let own_report = own(deadline).await;
        let mut nodes = Vec::with_capacity(asked.len());
        for (node, asked) in asked {
            let report = match asked {
                None => Ok(own_report.clone()),
                Some(Ok(wait)) => answered(wait.only().await.as_ref()),
                Some(Err(why)) => Err(why),
            };
            nodes.push(ExaminedNode { node, report });
        }
        let nodes: Arc<[ExaminedNode]> = nodes.into();
        *last = Some((Arc::clone(&nodes), clock.monotonic()));
        nodes
    }
}

/// Asks a node, without waiting for its answer; `None` if it is this one.
fn ask(
    peers: &Peers,
    pending: &Rc<PendingRequests>,
    node: NodeId,
    deadline: Duration,
) -> Option<Result<Wait, Miss>> {
    if peers.is_own(node) {
        return None;
    }
    let Some(link) = peers.link(node) else {
        return Some(Err(Miss::Refused));
    };
    let wait = pending.wait(deadline);
    let called = link.call(PeerRequest::Examine, deadline, wait.address());
    Some(called.map(|()| wait))
}

/// What a node has answered; `None` is the deadline.
fn answered(completion: Option<&Completion>) -> Result<NodeReport, Miss> {
    match completion {
        Some(Completion::Peer(PeerAnswer::Examined(report))) => Ok(report.as_ref().clone()),
        Some(Completion::Peer(PeerAnswer::Missed(why))) => Err(*why),
        Some(_) => Err(Miss::Failed),
        None => Err(Miss::Timeout),
    }
}
