//! The nodes of the cluster that are supervised now.

use super::actions::{NodeAction, Supervisor};
use super::layout::{ClusterLayout, NodeLayout};
use super::probe::Probe;
use super::supervised_node::SupervisedNode;
use crate::failure::Failure;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// How many nodes may wait to be supervised: all of the largest cluster.
const STARTED_MAX: usize = 256;

/// The nodes that are supervised now. It is cheap to clone.
#[derive(Clone)]
pub(super) struct Nodes {
    pub(super) layout: Arc<ClusterLayout>,
    pub(super) probe: Arc<Probe>,
    all: Arc<Mutex<Vec<Supervisor>>>,
    started: mpsc::Sender<SupervisedNode>,
}

impl Nodes {
    /// None yet. Those that are started come out of the channel, and are to be run.
    pub(super) fn new(
        layout: Arc<ClusterLayout>,
        probe: Arc<Probe>,
    ) -> (Self, mpsc::Receiver<SupervisedNode>) {
        let (started, to_run) = mpsc::channel(STARTED_MAX);
        let nodes = Self {
            layout,
            probe,
            all: Arc::default(),
            started,
        };
        (nodes, to_run)
    }

    /// All of them, by ascending numbers.
    pub(super) fn list(&self) -> Vec<Supervisor> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// That with this number.
    pub(super) fn get(&self, number: usize) -> Option<Supervisor> {
        let mut all = self.list().into_iter();
        all.find(|node| usize::from(node.number) == number)
    }

    /// Starts the process of a node.
    ///
    /// # Errors
    /// The system cannot start it.
    pub(super) fn start(&self, node: &Arc<NodeLayout>) -> Result<(), Failure> {
        let (layout, probe) = (Arc::clone(&self.layout), Arc::clone(&self.probe));
        let (node, supervisor) = SupervisedNode::spawn(layout, Arc::clone(node), probe)?;
        let full = |_| Failure::failed("too many nodes are being started: try again");
        self.started.try_send(node).map_err(full)?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(supervisor);
        all.sort_by_key(|node| node.number);
        Ok(())
    }

    /// Stops the process of a node for good.
    pub(super) async fn retire(&self, number: u8) {
        let Some(node) = self.get(number.into()) else {
            return;
        };
        // It may have ended for good already.
        let _ended = node.carry_out(NodeAction::Retire).await;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|node| node.number != number);
    }
}

/// What is said of a node that does not exist.
pub(super) fn no_node(number: usize, nodes: &Nodes) -> String {
    let names: Vec<String> = nodes.list().into_iter().map(|node| node.name).collect();
    match names.as_slice() {
        [only] => format!("the cluster has one node, {only}"),
        all => format!(
            "there is no node-{number}: the cluster has {}",
            all.join(", ")
        ),
    }
}
