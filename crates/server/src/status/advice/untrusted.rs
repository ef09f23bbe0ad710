//! Nodes that reach each other and share no TLS connection.

use super::view::{View, listed};
use api::cluster::{Advice, Severity};
use api::status::TlsFailure;
use std::collections::{BTreeMap, BTreeSet};

/// The problem of a link that is judged here.
pub(super) const PROBLEM: &str = "tls";

const RUNBOOK: &str = "Handshakes fail";

/// The node that says why it cannot connect to another one, and that one.
type Statement<'a> = (&'a str, &'a str);

/// What to do about nodes that do not trust each other, or of which one speaks plain HTTP. Those
/// of `other_list` refuse nodes because these are not in their lists, so that the certificates are
/// no reason.
pub(super) fn of(view: View<'_>, other_list: &BTreeSet<&str>) -> Vec<Advice> {
    let mut stated: BTreeMap<&TlsFailure, BTreeSet<Statement<'_>>> = BTreeMap::new();
    for status in view.statuses() {
        for member in status.others() {
            if let Some(failure) = &member.tls_failure {
                let of_failure = stated.entry(failure).or_default();
                of_failure.insert((&status.name, &member.name));
            }
        }
    }
    // A node that is refused does not know why: if the other one says it, that is enough.
    let knows = |failure: &TlsFailure| failure.reason != "refused";
    let known: BTreeSet<Statement<'_>> = stated
        .iter()
        .filter(|(failure, _)| knows(failure))
        .flat_map(|(_, statements)| statements.iter().copied())
        .collect();
    let is_explained = |(by, of): &Statement<'_>| known.contains(&(*of, *by));
    let mut all = Vec::new();
    for (failure, mut statements) in stated {
        if !knows(failure) {
            statements
                .retain(|statement| !is_explained(statement) && !other_list.contains(statement.1));
        }
        all.extend(of_failure(failure, &statements));
    }
    all
}

/// What to do about one failure, of which these nodes speak.
fn of_failure(failure: &TlsFailure, statements: &BTreeSet<Statement<'_>>) -> Vec<Advice> {
    let remedy = capitalized(&failure.remedy);
    let advice = |node: &str, what: String| {
        Advice::of_node(Severity::Bad, node, what, remedy.as_str(), RUNBOOK)
    };
    let by: BTreeSet<&str> = statements.iter().map(|(by, _)| *by).collect();
    let of: BTreeSet<&str> = statements.iter().map(|(_, of)| *of).collect();
    // One that says the same of several others is more likely to be wrong than they are.
    if let (Some(odd), 1, 2..) = (by.first(), by.len(), of.len()) {
        let others: Vec<&str> = of.into_iter().collect();
        let (others, cause) = (listed(&others), &failure.cause);
        let what = format!("it cannot connect to {others}: of each it finds that {cause}");
        return vec![advice(odd, what)];
    }
    let advice = of.into_iter().map(|node| {
        let says = |by: &&str| statements.contains(&(*by, node));
        let by: Vec<&str> = by.iter().copied().filter(says).collect();
        let certificates = if by.len() == 1 {
            "certificate"
        } else {
            "certificates"
        };
        let (by, cause) = (listed(&by), &failure.cause);
        if failure.reason == "refused" {
            advice(
                node,
                format!("it does not accept the {certificates} of {by}"),
            )
        } else {
            advice(node, format!("{by} cannot connect to it: {cause}"))
        }
    });
    advice.collect()
}

/// A text as a sentence begins.
fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}
