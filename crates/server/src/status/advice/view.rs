//! What the rules look at.

use api::cluster::ClusterNode;
use api::status::Status;
use std::collections::BTreeSet;

/// What the rules look at: all nodes, as the node `own` has heard of them.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) own: &'a str,
    pub(super) nodes: &'a [ClusterNode],
    pub(super) reach: &'a Reach<'a>,
}

/// Which nodes anybody reaches.
pub(super) struct Reach<'a> {
    /// Those that have answered, or that another one reaches.
    running: BTreeSet<&'a str>,
    /// The others.
    silent: Vec<&'a str>,
}

impl<'a> Reach<'a> {
    pub(super) fn of(nodes: &'a [ClusterNode]) -> Self {
        let answered = nodes.iter().filter(|node| node.missed.is_none());
        let answered = answered.map(|node| node.name.as_str());
        let statuses = nodes.iter().filter_map(|node| node.status.as_ref());
        let reached = statuses.flat_map(Status::others);
        let reached = reached.filter(|member| member.state == "up");
        let reached = reached.map(|member| member.name.as_str());
        let running: BTreeSet<&str> = answered.chain(reached).collect();
        let silent = nodes.iter().map(|node| node.name.as_str());
        let silent = silent.filter(|name| !running.contains(name)).collect();
        Self { running, silent }
    }
}

impl<'a> View<'a> {
    /// The nodes that have told their status.
    pub(super) fn statuses(self) -> impl Iterator<Item = &'a Status> {
        self.nodes.iter().filter_map(|node| node.status.as_ref())
    }

    /// Whether a node has answered, or another one reaches it.
    pub(super) fn runs(self, name: &str) -> bool {
        self.reach.running.contains(name)
    }

    /// The nodes that nobody reaches.
    pub(super) fn silent(self) -> &'a [&'a str] {
        &self.reach.silent
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
