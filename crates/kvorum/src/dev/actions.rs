//! What is done to a node, and how its supervisor is told.

use super::node_fault::NodeFault;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use tokio::sync::{mpsc, oneshot, watch};

/// How many commands may wait for the supervisor of a node.
pub(super) const WAITING_MAX: usize = 4;

/// What a command does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeAction {
    Kill,
    Stop,
    Start,
    Freeze,
    Thaw,
    /// Loses its folder, as with a disk that dies, and starts it again.
    Wipe,
    /// Gives it a fault.
    Set(NodeFault),
    /// Rids it of a fault.
    Clear(NodeFault),
    /// Stops it for good: it is no node of the cluster any more.
    Retire,
}

/// The result of a command as a line: what was done, or why it was refused.
pub(super) type CommandResult = Result<String, String>;

/// A command on its way to the supervisor of a node.
pub(super) struct ActionRequest {
    pub(super) action: NodeAction,
    pub(super) reply: oneshot::Sender<CommandResult>,
}

/// How the supervisor of a node is reached.
#[derive(Clone)]
pub(super) struct Supervisor {
    pub(super) number: u8,
    pub(super) name: String,
    pub(super) url: String,
    pub(super) address: SocketAddr,
    pub(super) requests: mpsc::Sender<ActionRequest>,
    /// What the node is, in a word, and the faults that it has, in further words. It is as of
    /// the last command that has ended, so that nobody waits for one that is being carried out.
    pub(super) shown: watch::Receiver<String>,
}

/// What a node is, for those who ask.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct NodeState {
    pub(super) number: u8,
    pub(super) name: String,
    pub(super) url: String,
    pub(super) state: String,
    pub(super) faults: Vec<String>,
}

impl Supervisor {
    /// What the node is.
    pub(super) fn state(&self) -> NodeState {
        let shown = self.shown.borrow();
        let mut words = shown.split_whitespace().map(str::to_owned);
        NodeState {
            number: self.number,
            name: self.name.clone(),
            url: self.url.clone(),
            state: words.next().unwrap_or_default(),
            faults: words.collect(),
        }
    }

    /// Has the supervisor do something to the node.
    ///
    /// # Errors
    /// Why it is not done.
    pub(super) async fn carry_out(&self, action: NodeAction) -> CommandResult {
        let (reply, outcome) = oneshot::channel();
        self.requests
            .try_send(ActionRequest { action, reply })
            .map_err(|_| format!("{} has other commands to finish first", self.name))?;
        outcome
            .await
            .unwrap_or_else(|_| Err("the cluster is stopping".to_owned()))
    }
}
