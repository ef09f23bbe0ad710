//! Serves what peers ask of this node: its own store, its part in repairs, and its report.

use crate::node::Node;
use peer::{NodeReport, PeerAnswer, PeerRequest, Reply, RequestHandler};
use repair::session::RepairWorker;
use replica::{Peers, ReplicaSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Serves the requests of peers on one runtime.
pub(crate) struct PeerRequests {
    pub(crate) replicas: Rc<ReplicaSet>,
    pub(crate) repair: Rc<RepairWorker>,
    pub(crate) node: Arc<Node>,
    pub(crate) peers: Rc<Peers>,
}

impl RequestHandler for PeerRequests {
    fn serve(self: &Rc<Self>, request: PeerRequest, mut reply: Reply) {
        if let Some(trace) = reply.trace() {
            self.node.traced.time(trace, &request, &mut reply);
        }
        let own = self.replicas.own();
        match request {
            PeerRequest::Write(entry) => own.write_for_peer(entry, None, reply),
            PeerRequest::Repair {
                gc_threshold,
                entry,
            } => own.write_for_peer(entry, Some(gc_threshold), reply),
            PeerRequest::RepairWrite { session, entry } => {
                self.repair.serve_repair_write(session, entry, reply);
            }
            PeerRequest::Read(key) | PeerRequest::ReadUnlessSame { key, .. } => {
                own.read_for_peer(key, reply);
            }
            PeerRequest::Page(request) => own.page_for_peer(request, reply),
            PeerRequest::Session(request) => self.repair.serve(request, reply),
            PeerRequest::Examine => {
                let own = Rc::clone(self);
                tokio::task::spawn_local(async move {
                    let report = report(&own.node, &own.peers, reply.deadline()).await;
                    reply.send(PeerAnswer::Examined(Box::new(report)));
                });
            }
        }
    }
}

/// How this node is, in time for `deadline` on the monotonic clock.
pub(crate) async fn report(node: &Node, peers: &Peers, deadline: Duration) -> NodeReport {
    let see = || (node.snapshot(), peers.statuses());
    node.report.tell(deadline, see).await
}
