//! The transport seam of one process, and its incoming connections.

use super::identity::address_of;
use crate::network::{HostNumber, Network, SimStream};
use cluster::NodeUrl;
use node::simulation::SimulatedNode;
use peer::{Dialing, Stream, Transport};
use std::io;
use std::rc::Rc;
use tokio::sync::mpsc;

/// Accepts the connections to a process until the process ends.
pub(super) async fn accept(node: Rc<SimulatedNode>, mut arrivals: mpsc::Receiver<SimStream>) {
    while let Some(stream) = arrivals.recv().await {
        let node = Rc::clone(&node);
        tokio::task::spawn_local(async move { node.accept(Box::new(stream)).await });
    }
}

/// The transport seam of one process.
pub(super) struct SimTransport {
    pub(super) network: Network,
    pub(super) own: HostNumber,
}

impl Transport for SimTransport {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        let network = self.network.clone();
        let own = self.own;
        let address = address_of(url);
        Box::pin(async move {
            let (other, moves) = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
            if network.moves(other) != moves {
                // It was there, and has moved.
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let stream = network.dial(own, other).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
