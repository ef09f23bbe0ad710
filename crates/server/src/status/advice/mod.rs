//! What an operator has to do: the only place that judges. A pure function of what all nodes
//! report, so each rule is a line of `cases.txt`.
//!
//! - `reach`: nodes that nobody reaches, that do not reach each other, or refuse each other.
//! - `untrusted`: nodes that share no TLS connection.
//! - `clocks`: whose clock is wrong.
//! - `node`: what a node says of its own store, disk and files.
//! - `repairs`: repairs that are late, or get no time.
//! - `certificates`: those that expire.
//! - `data`: what may be lost, and deleted data that stays.
//! - `members`: a change of the members that is under way.
//! - `view` is what they look at.
//! - [`thresholds`]: from where on; the alerts share them.

mod certificates;
mod clocks;
mod data;
mod members;
mod node;
mod reach;
mod repairs;
#[cfg(test)]
pub(super) mod tests;
mod thresholds;
mod untrusted;
mod view;

use api::cluster::{Advice, ClusterNode};
use api::members::MemberList;
use view::{Reach, View};

/// What an operator has to do, the worst first, by what the node `own` has heard of all nodes, and
/// what it knows of the list of members.
pub(crate) fn of(own: &str, nodes: &[ClusterNode], list: Option<&MemberList>) -> Vec<Advice> {
    let reach = &Reach::of(nodes);
    let view = View { own, nodes, reach };
    let (reach, refusing) = reach::of(view);
    let clocks = clocks::of(view);
    let explains = node::Explained {
        clocks: !clocks.advice.is_empty(),
        no_peers: !reach.is_empty(),
    };
    let mut all = reach;
    for status in view.statuses() {
        all.extend(node::of(view, status, &refusing, explains));
        all.extend(repairs::of(view, status));
    }
    all.extend(certificates::of(view));
    all.extend(data::of(view, &clocks, &refusing));
    all.extend(clocks.advice);
    all.extend(list.and_then(members::of));
    // Those of one severity stay in their order.
    all.sort_by_key(|advice| advice.severity);
    // The node that is asked shows the runbooks, too.
    let console = nodes.iter().find(|node| node.name == own);
    if let Some(console) = console {
        for advice in &mut all {
            advice.runbook_url = api::runbook::url(&console.url, &advice.runbook);
        }
    }
    all
}
