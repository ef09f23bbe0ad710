//! How a node reports to the others: it answers those that examine it.

use crate::node::Node;
use peer::{NodeReport, PeerAnswer, PeerRequest, Reply, RequestHandler};
use replica::Peers;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Answers peers that examine this node; another handler serves their other requests.
pub(crate) struct ReportingHandler<R> {
    pub(crate) handler: Rc<R>,
    pub(crate) node: Arc<Node>,
    pub(crate) peers: Rc<Peers>,
}

impl<R: RequestHandler + 'static> RequestHandler for ReportingHandler<R> {
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply) {
        if request != PeerRequest::Examine {
            return self.handler.serve(request, reply);
        }
        let own = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let report = report(&own.node, &own.peers, reply.deadline()).await;
            reply.send(PeerAnswer::Examined(Box::new(report)));
        });
    }
}

/// How this node is, in time for `deadline` on the monotonic clock.
pub(crate) async fn report(node: &Node, peers: &Peers, deadline: Duration) -> NodeReport {
    let links = || peers.numbers().map(|node| peers.status(node)).collect();
    let see = || (node.snapshot(), links());
    node.report.tell(deadline, see).await
}
