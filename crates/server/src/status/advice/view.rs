//! What the rules look at.

use api::cluster::ClusterNode;
use api::status::Status;

/// What the rules look at: all nodes, as the node `own` has heard of them.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) own: &'a str,
    pub(super) nodes: &'a [ClusterNode],
}

impl<'a> View<'a> {
    /// The nodes that have told their status.
    pub(super) fn statuses(self) -> impl Iterator<Item = &'a Status> {
        self.nodes.iter().filter_map(|node| node.status.as_ref())
    }

    /// Whether a node has answered, or another one reaches it.
    pub(super) fn runs(self, name: &str) -> bool {
        let has_answered = |node: &ClusterNode| node.name == name && node.missed.is_none();
        let is_up = |status: &Status| {
            let mut others = status.others();
            others.any(|member| member.name == name && member.state == "up")
        };
        self.nodes.iter().any(has_answered) || self.statuses().any(is_up)
    }

    /// The nodes that nobody reaches.
    pub(super) fn silent(self) -> Vec<&'a str> {
        let nodes = self.nodes.iter().map(|node| node.name.as_str());
        nodes.filter(|name| !self.runs(name)).collect()
    }
}

/// Names as a phrase: `a, b and c`.
pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
    }
}
