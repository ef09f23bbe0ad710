//! The report about a world: what its checks found.

use super::World;
use crate::network::HostNumber;
use crate::scenario::{FaultKind, Pairs, Scenario, ScenarioKind};
use crate::trace::panics;
use checker::{History, Operation, OperationId, Outcome};
use lsm::Durability;
use std::time::Duration;
use tokio::time::Instant;

/// What the checks of a world found.
pub(crate) struct Report {
    /// Which faults could happen.
    pub(crate) kind: ScenarioKind,
    /// The hash of the trace, results included.
    pub(crate) trace_hash: u64,
    /// How many lines the trace has.
    pub(crate) trace_lines: u64,
    /// The end of the trace.
    pub(crate) trace: Vec<String>,
    /// How many increments of counters were acknowledged; `None` if nobody counted.
    pub(crate) increments: Option<usize>,
    /// How many operations were acknowledged or answered.
    pub(crate) answered: usize,
    /// How many operations had too few replicas.
    pub(crate) not_enough: usize,
    /// How often the GC threshold has risen; `None` without tombstone GC.
    pub(crate) gc_threshold: Option<usize>,
    /// How many non-owned copies the stores had dropped at the end.
    pub(crate) non_owned_dropped: u64,
    /// The epoch of the list of members at the end; `None` if nobody has changed it.
    pub(crate) epoch: Option<u64>,
    /// For how many keys linearizability was checked.
    pub(crate) keys_judged: usize,
    /// For how many of them the search gave up.
    pub(crate) keys_undecided: usize,
    /// The first failure, in one line.
    pub(crate) headline: Option<String>,
    /// All failures, with what helps to find their cause.
    pub(crate) failure: Option<String>,
}

/// How many failures are printed.
const FAILURES_SHOWN: usize = 5;

/// How much longer than its interval a sync may take on a slow disk.
const SYNCED_SLOWLY: Duration = Duration::from_secs(5);

/// Checks what a world has left.
pub(super) fn of(world: &World, seed: u64) -> Report {
    let mut history = world.history.borrow_mut();
    world.allow_losses(&mut history);
    let history = &*history;
    let mut violations = checker::check(history);
    let (mut keys_judged, mut keys_undecided) = (0, 0);
    if let Pairs::One { ack, from } = world.scenario.pairs
        && world.scenario.kind == ScenarioKind::AllAnswer
    {
        let checked = checker::check_linearizability(history, ack, from);
        violations.extend(checked.violations);
        keys_judged = checked.keys;
        keys_undecided = checked.undecided.len();
        for key in checked.undecided {
            world.trace.note(format_args!(
                "the search for an order of key {key} was given up"
            ));
        }
    }
    let mut failures: Vec<String> = violations
        .iter()
        .map(|violation| violation.describe(history))
        .collect();
    let is_gone = |id| world.is_after_copies(id) || world.may_be_unseen(history, id);
    let is_lost = |node: HostNumber, seen| world.hosts[node].was_replaced_since(seen);
    failures.extend(world.versions.borrow_mut().judge(history, is_gone, is_lost));
    if world.scenario.kind == ScenarioKind::OneUnavailable {
        failures.extend(world.timeline.borrow().failed_with_one_unavailable(history));
    }
    failures.extend(world.failure.borrow_mut().take());
    failures.extend(panics::take());
    let count = |wanted: fn(Outcome) -> bool| {
        let outcomes = history.operations().iter();
        outcomes
            .filter_map(|operation| operation.outcome())
            .filter(|outcome| wanted(*outcome))
            .count()
    };
    Report {
        kind: world.scenario.kind,
        trace_hash: world.trace.hash(),
        trace_lines: world.trace.count(),
        trace: world.trace.tail(),
        increments: world.scenario.counting.map(|_| world.increments_applied()),
        answered: count(|outcome| {
            matches!(outcome, Outcome::Written { .. } | Outcome::Found { .. })
        }),
        not_enough: count(|outcome| matches!(outcome, Outcome::NotEnough { .. })),
        gc_threshold: world
            .scenario
            .tombstone_gc
            .map(|_| world.gc_threshold.get().1),
        non_owned_dropped: world.non_owned_dropped.get(),
        epoch: world
            .scenario
            .changing
            .map(|_| world.members.borrow().epoch.as_u64()),
        keys_judged,
        keys_undecided,
        headline: failures
            .first()
            .map(|failure| failure.lines().take(2).collect::<Vec<_>>().join(" ")),
        failure: (!failures.is_empty()).then(|| failure_text(seed, &world.scenario, &failures)),
    }
}

impl World {
    /// Marks operations whose results power cuts may have lost. The same holds for what ended
    /// after copies were taken with which all hosts came back.
    fn allow_losses(&self, history: &mut History) {
        for id in (0..history.operations().len()).map(OperationId) {
            let lost = |operation| self.may_be_cut(id, operation);
            if self.is_after_copies(id) || history.get(id).is_some_and(lost) {
                history.allow_loss(id);
            }
        }
    }

    /// Whether power cuts may have lost the result of an operation. If writes do not wait for
    /// a sync, a host may have lost what it stored before the cut, or in the last interval.
    /// It stored that while the operation ran: the answer may have been on its way when the power
    /// went. As many replicas stored a result as the operation waited for, so as many hosts
    /// must have lost it.
    pub(super) fn may_be_cut(&self, id: OperationId, operation: &Operation) -> bool {
        let faults = &self.scenario.faults;
        let window = match self.scenario.durability {
            Durability::Sync => return false,
            // A sync that failed is not repeated.
            Durability::Interval(_) if faults.contains(&FaultKind::FailingSyncs) => None,
            Durability::Interval(interval) => {
                let slowly = if faults.contains(&FaultKind::SlowDisk) {
                    SYNCED_SLOWLY
                } else {
                    Duration::from_millis(4 * self.scenario.work_ms_max)
                };
                Some(interval + slowly)
            }
            Durability::Os => None,
        };
        let timeline = self.timeline.borrow();
        let (asked, Some(told)) = (timeline.invoked_at(id), timeline.completed_at(id)) else {
            return false;
        };
        let may_lose =
            |cut: &Instant| asked <= *cut && window.is_none_or(|window| told + window >= *cut);
        let hosts = self.hosts.iter();
        let losers = hosts.filter(|host| host.power_cuts().iter().any(may_lose));
        losers.count() >= usize::from(operation.request.ack)
    }
}

fn failure_text(seed: u64, scenario: &Scenario, failures: &[String]) -> String {
    let mut text = format!("seed {seed} fails\n{scenario:#?}\n");
    for failure in failures.iter().take(FAILURES_SHOWN) {
        text.push_str(failure);
        text.push('\n');
    }
    if failures.len() > FAILURES_SHOWN {
        text.push_str(&format!("and {} more\n", failures.len() - FAILURES_SHOWN));
    }
    text.push_str(&format!(
        "to replay: KVORUM_SEED={seed} cargo test -p node --test sim"
    ));
    text
}
