//! Certificates that have expired, or will soon: one line for all nodes, because one exchange is
//! often made for all of them.

use super::thresholds::CERTIFICATE_SECONDS_MIN;
use super::view::{View, listed};
use api::cluster::{Advice, Severity};
use units::rough_span as span;

/// What to do about the certificates of all nodes.
pub(super) fn of(view: View<'_>) -> Vec<Advice> {
    let (mut expired, mut soon, mut first) = (Vec::new(), Vec::new(), u64::MAX);
    for status in view.statuses() {
        let Some(tls) = &status.tls else {
            continue;
        };
        let expires_ms = tls.certificate_expires_unix_ms;
        match expires_ms.saturating_sub(status.clock.unix_ms) / 1000 {
            0 => expired.push(&*status.name),
            left if left < CERTIFICATE_SECONDS_MIN => {
                soon.push(&*status.name);
                first = first.min(left);
            }
            _ => {}
        }
    }
    let first = span(first);
    let expired = advice(Severity::Bad, &expired, "has expired", "have expired");
    let ends = format!("expires in {first}");
    let end = format!("expire, the first of them in {first}");
    let soon = advice(Severity::Warn, &soon, &ends, &end);
    expired.into_iter().chain(soon).collect()
}

/// What to do about the certificates of these nodes: each `ends`, or together they `end`.
fn advice(severity: Severity, nodes: &[&str], ends: &str, end: &str) -> Option<Advice> {
    const RUNBOOK: &str = "The files of TLS cannot be used";
    match nodes {
        [] => None,
        [node] => {
            let what = format!("its certificate {ends}");
            Some(Advice::of_node(
                severity,
                node,
                what,
                "Exchange it",
                RUNBOOK,
            ))
        }
        nodes => {
            let what = format!("the certificates of {} {end}", listed(nodes));
            Some(Advice::of_cluster(severity, what, "Exchange them", RUNBOOK))
        }
    }
}
