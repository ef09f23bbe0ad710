//! Nodes that nobody reaches, that do not reach each other, or refuse each other.

use super::thresholds::APART_SECONDS;
use super::untrusted;
use super::view::{View, listed};
use api::cluster::{Advice, ClusterNode, Severity, hints_for};
use std::collections::{BTreeMap, BTreeSet};
use units::{counted, rough_span as span};

const SILENT: &str = "A node is down or silent";
const REFUSING: &str = "Nodes refuse each other";

/// The problem of two nodes with different lists.
const OTHER_LIST: &str = "other members";

const SAME_LIST: &str = "Give all nodes the same --cluster, and restart those that had another";

/// Two nodes, the first by name first.
type Pair<'a> = (&'a str, &'a str);

/// The pairs of nodes of which one refuses the other.
#[derive(Default)]
pub(super) struct Refusing<'a>(BTreeMap<&'a str, BTreeSet<Pair<'a>>>);

impl<'a> Refusing<'a> {
    fn of(view: View<'a>) -> Self {
        let mut all = Self::default();
        for status in view.statuses() {
            for member in status.others() {
                if let Some(problem) = &member.problem {
                    let pairs = all.0.entry(problem).or_default();
                    pairs.insert(pair(&status.name, &member.name));
                }
            }
        }
        all
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a node is one of those.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut pairs = self.0.values().flatten();
        pairs.any(|(one, other)| *one == name || *other == name)
    }

    /// The nodes of which another one says that it has another list, or whose own is another.
    fn with_other_list(&self) -> BTreeSet<&'a str> {
        let pairs = self.0.get(OTHER_LIST).into_iter().flatten();
        pairs.flat_map(|(one, other)| [*one, *other]).collect()
    }

    fn has_pair(&self, pair: Pair<'_>) -> bool {
        self.0.values().any(|pairs| pairs.contains(&pair))
    }
}

fn pair<'a>(one: &'a str, other: &'a str) -> Pair<'a> {
    (one.min(other), one.max(other))
}

/// What to do, and which nodes refuse each other.
pub(super) fn of(view: View<'_>) -> (Vec<Advice>, Refusing<'_>) {
    let refusing = Refusing::of(view);
    let problems = refusing.0.iter();
    let stated = problems.filter(|(problem, _)| **problem != untrusted::PROBLEM);
    let mut advice: Vec<Advice> = stated
        .map(|(problem, pairs)| of_refusing(problem, pairs))
        .collect();
    advice.extend(untrusted::of(view, &refusing.with_other_list()));
    if let Some(alone) = of_alone(view, &refusing) {
        advice.push(alone);
    } else {
        let nodes = view.nodes.iter();
        advice.extend(nodes.filter_map(|node| of_silent(view, node, &refusing)));
    }
    advice.extend(of_other_urls(view));
    advice.extend(of_apart(view, &refusing));
    (advice, refusing)
}

/// What to do about nodes that refuse each other.
fn of_refusing(problem: &str, pairs: &BTreeSet<Pair<'_>>) -> Advice {
    let (thing, remedy) = match problem {
        OTHER_LIST => ("list of nodes", SAME_LIST),
        "other secret" => (
            "secret",
            "Give all nodes the same --cluster-secret-file, and restart those that had another",
        ),
        "other cluster" => (
            "cluster",
            "Correct --url and the list of members, or give the node the data folder of this cluster",
        ),
        "other protocol" => ("release", "Upgrade the older ones"),
        _ => (
            "name for one of them",
            "Compare --name, --url and --cluster of both: each name has one URL",
        ),
    };
    // The one that all the others refuse, or that refuses them all.
    let odd = pairs.first().and_then(|(one, other)| {
        let is_in_all = |name: &&&str| {
            pairs
                .iter()
                .all(|pair| pair.0 == **name || pair.1 == **name)
        };
        let mut found = [one, other].into_iter().filter(is_in_all);
        found.next().copied().filter(|_| pairs.len() > 1)
    });
    match odd {
        Some(odd) => {
            let others = pairs
                .iter()
                .map(|(one, other)| if *one == odd { *other } else { *one });
            let others: Vec<&str> = others.collect();
            let what = format!(
                "it has another {thing} than {}, so they refuse each other",
                listed(&others)
            );
            Advice::of_node(Severity::Bad, odd, what, remedy, REFUSING)
        }
        None => {
            let pairs = pairs
                .iter()
                .map(|(one, other)| format!("{one} and {other}"));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            let what = format!("each has another {thing}, so they refuse each other: {pairs}");
            Advice::of_cluster(Severity::Bad, what, remedy, REFUSING)
        }
    }
}

/// What to do if the node that was asked reaches none of several others: more likely it is cut off
/// than that all of them are down, and it cannot tell.
fn of_alone(view: View<'_>, refusing: &Refusing<'_>) -> Option<Advice> {
    let own = view.statuses().find(|status| status.name == view.own)?;
    let others = own.others().count();
    let is_silent = own.others().all(|member| {
        let is_gone = matches!(member.state.as_str(), "down" | "suspected");
        is_gone && !view.runs(&member.name) && !refusing.has_pair(pair(view.own, &member.name))
    });
    if others < 2 || !is_silent {
        return None;
    }
    let longest = own.others().filter_map(|member| member.down_seconds).max();
    let since = longest.map_or_else(String::new, |down| format!(" for {}", span(down)));
    let what = format!(
        "it has reached none of the {others} other nodes{since}: its network is cut, or all of them \
         are down, and it cannot tell which"
    );
    let remedy = "Ask another node: if one answers, repair the network of this one; if none does, \
                  start them";
    Some(Advice::of_node(
        Severity::Bad,
        view.own,
        what,
        remedy,
        SILENT,
    ))
}

/// What to do about a node that has not said how it is.
fn of_silent(view: View<'_>, node: &ClusterNode, refusing: &Refusing<'_>) -> Option<Advice> {
    let name = node.name.as_str();
    let Some(missed) = node.missed.as_deref() else {
        return of_untold(node);
    };
    let own = view.statuses().find(|status| status.name == view.own);
    let seen = own.and_then(|own| own.others().find(|member| member.name == name));
    let is_connecting = seen.is_some_and(|member| member.state == "connecting");
    match missed {
        "unsupported" => return Some(of_other_release(name)),
        "refused" | "suspected" => {}
        other => {
            let what = format!("it runs, and has not said in time how it is ({other})");
            let remedy = "Ask again; if it stays so, its log says why";
            return Some(Advice::of_node(Severity::Warn, name, what, remedy, SILENT));
        }
    }
    // There is a better reason.
    if refusing.has_pair(pair(view.own, name)) {
        return None;
    }
    let hints = match hints_for(view.nodes, name) {
        0 => String::new(),
        hints => format!(", and {} for it", waiting(hints)),
    };
    if is_connecting {
        let what = format!("it has just been started, or this node has{hints}");
        let remedy = "Ask again in some seconds";
        return Some(Advice::of_node(Severity::Note, name, what, remedy, SILENT));
    }
    // Others reach it, or did when they last told how they are.
    if view.runs(name) {
        let down_seconds = seen.and_then(|member| member.down_seconds);
        // `of_apart` says more.
        if down_seconds.is_some_and(|seconds| seconds >= APART_SECONDS) {
            return None;
        }
        let what = format!(
            "{} does not reach it, and another node does{hints}",
            view.own
        );
        let remedy = "Ask again in some seconds: it may just have failed; if it stays so, repair \
                      the network between the two";
        return Some(Advice::of_node(Severity::Warn, name, what, remedy, SILENT));
    }
    let members = view.statuses();
    let members = members.flat_map(|status| status.others().map(move |other| (status, other)));
    let of_node = members.filter(|(_, member)| member.name == name);
    let longest = of_node
        .filter_map(|(status, member)| Some((member.down_seconds?, status.hints.age_max_seconds)));
    let longest = longest.max();
    let mut what = match (missed, longest) {
        ("suspected", _) => "it is connected, but silent".to_owned(),
        (_, Some((down, _))) => format!("it has been unreachable for {}", span(down)),
        _ => "it is unreachable".to_owned(),
    };
    what += &hints;
    if let Some((down, kept)) = longest
        && down > kept
    {
        what += &format!(
            "; hints are kept for {}, so a repair brings it what it missed before",
            span(kept)
        );
    }
    let remedy = "Start it, or restart it if it hangs; if its machine or its disk is lost, \
                  replace the node";
    Some(Advice::of_node(Severity::Bad, name, what, remedy, SILENT))
}

/// Hints that wait.
pub(super) fn waiting(hints: u64) -> String {
    let verb = if hints == 1 { "waits" } else { "wait" };
    format!("{} {verb} as hints", counted(hints, "write"))
}

/// What to do about a node that has answered, and whose status nobody knows.
fn of_untold(node: &ClusterNode) -> Option<Advice> {
    let name = node.name.as_str();
    match node.status_missed.as_deref()? {
        ClusterNode::STATUS_TOO_LONG => {
            let what = "its status is too long for the other nodes, so this node knows none of it";
            let remedy = "Ask it itself: kvorum admin status with its URL";
            Some(Advice::of_node(Severity::Note, name, what, remedy, SILENT))
        }
        ClusterNode::STATUS_OF_OTHER_NAME => {
            let what = "it tells a status under another name, which is not believed";
            let remedy = "Compare --name and --url of both nodes: each name has one URL";
            Some(Advice::of_node(
                Severity::Warn,
                name,
                what,
                remedy,
                REFUSING,
            ))
        }
        _ => Some(of_other_release(name)),
    }
}

fn of_other_release(name: &str) -> Advice {
    let what = "it is of another release, which does not say all of how it is";
    let remedy = "Upgrade all nodes to one release";
    Advice::of_node(Severity::Note, name, what, remedy, SILENT)
}

/// Nodes that look for another one at a URL at which it is not.
fn of_other_urls(view: View<'_>) -> impl Iterator<Item = Advice> {
    let members = view.statuses();
    let members = members.flat_map(|status| status.others().map(move |other| (status, other)));
    let members = members.filter(|(_, member)| member.state != "up");
    members.filter_map(move |(status, member)| {
        let own = view.statuses().find(|own| own.name == member.name)?;
        let what = format!(
            "its list says that {} is at {}, and {} says that it is at {}",
            own.name, member.url, own.name, own.url
        );
        (own.url != member.url)
            .then(|| Advice::of_node(Severity::Bad, &status.name, what, SAME_LIST, REFUSING))
    })
}

/// Nodes that run and have had no connection for long.
fn of_apart(view: View<'_>, refusing: &Refusing<'_>) -> Vec<Advice> {
    let mut apart: BTreeMap<Pair<'_>, u64> = BTreeMap::new();
    for status in view.statuses() {
        for member in status.others() {
            let seconds = member.down_seconds.unwrap_or_default();
            let pair = pair(&status.name, &member.name);
            let is_apart = member.state == "down" && seconds >= APART_SECONDS;
            if is_apart && view.runs(&member.name) && !refusing.has_pair(pair) {
                let known = apart.entry(pair).or_default();
                *known = seconds.max(*known);
            }
        }
    }
    let advice = |((one, other), seconds)| {
        let what = format!(
            "it has had no connection to {other} for {}, although both run",
            span(seconds)
        );
        let remedy = "Repair the network between them; their logs say more";
        Advice::of_node(Severity::Bad, one, what, remedy, SILENT)
    };
    apart.into_iter().map(advice).collect()
}
