//! What a world came to.

use super::World;
use crate::panics;
use crate::weather::{FaultKind, Pairs, Season, Weather};
use checker::{History, OperationId, Outcome};
use lsm::Durability;
use std::time::Duration;
use tokio::time::Instant;

/// What a world came to.
pub(crate) struct Report {
    /// What kind of weather it had.
    pub(crate) season: Season,
    /// Of the trace, results included.
    pub(crate) trace_hash: u64,
    /// How many lines the trace has.
    pub(crate) trace_lines: u64,
    /// The end of the trace.
    pub(crate) trace: Vec<String>,
    /// How many operations were acknowledged or answered.
    pub(crate) answered: usize,
    /// How many had too few replicas.
    pub(crate) not_enough: usize,
    /// Of how many keys the contents were judged.
    pub(crate) keys_judged: usize,
    /// Of how many that was given up.
    pub(crate) keys_undecided: usize,
    /// What went wrong first, in a line.
    pub(crate) headline: Option<String>,
    /// What went wrong, with all that helps to find out why.
    pub(crate) failure: Option<String>,
}

/// How many violations are told in full.
const FAILURES_TOLD: usize = 5;

/// By how much longer than its interval a sync may take where a disk is slow.
const SYNCED_SLOWLY: Duration = Duration::from_secs(5);

/// Judges what a world has left.
pub(super) fn of(world: &World, seed: u64) -> Report {
    let mut history = world.history.borrow_mut();
    world.allow_losses(&mut history);
    let history = &*history;
    let mut violations = checker::check(history);
    let (mut keys_judged, mut keys_undecided) = (0, 0);
    if let Pairs::One { ack, from } = world.weather.pairs
        && world.weather.season == Season::Calm
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
    failures.extend(world.versions.borrow_mut().judge(history));
    if world.weather.season == Season::OneAway {
        failures.extend(world.timeline.borrow().failed_for_one_away(history));
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
        season: world.weather.season,
        trace_hash: world.trace.hash(),
        trace_lines: world.trace.count(),
        trace: world.trace.tail(),
        answered: count(|outcome| {
            matches!(outcome, Outcome::Written { .. } | Outcome::Found { .. })
        }),
        not_enough: count(|outcome| matches!(outcome, Outcome::NotEnough { .. })),
        keys_judged,
        keys_undecided,
        headline: failures
            .first()
            .map(|failure| failure.lines().take(2).collect::<Vec<_>>().join(" ")),
        failure: (!failures.is_empty()).then(|| failure_text(seed, &world.weather, &failures)),
    }
}

impl World {
    /// Marks what a power cut may have taken: where syncs are not part of a
    /// write, what was answered in the last interval before it, or anything.
    fn allow_losses(&self, history: &mut History) {
        let faults = &self.weather.faults;
        let window = match self.weather.durability {
            Durability::Sync => return,
            // A sync that fails is not done again.
            Durability::Interval(_) if faults.contains(&FaultKind::FailingSyncs) => None,
            Durability::Interval(interval) => {
                let slowly = match faults.contains(&FaultKind::SlowDisk) {
                    true => SYNCED_SLOWLY,
                    false => Duration::from_millis(4 * self.weather.work_ms_max),
                };
                Some(interval + slowly)
            }
            Durability::Os => None,
        };
        let cuts: Vec<Instant> = self
            .hosts
            .iter()
            .flat_map(|host| host.power_cuts())
            .collect();
        let timeline = self.timeline.borrow();
        for id in (0..history.operations().len()).map(OperationId) {
            let Some(told) = timeline.completed_at(id) else {
                continue;
            };
            let may_be_lost = cuts
                .iter()
                .any(|cut| told <= *cut && window.is_none_or(|window| told + window >= *cut));
            if may_be_lost {
                history.allow_loss(id);
            }
        }
    }
}

fn failure_text(seed: u64, weather: &Weather, failures: &[String]) -> String {
    let mut text = format!("seed {seed} fails\n{weather:#?}\n");
    for failure in failures.iter().take(FAILURES_TOLD) {
        text.push_str(failure);
        text.push('\n');
    }
    if failures.len() > FAILURES_TOLD {
        text.push_str(&format!("and {} more\n", failures.len() - FAILURES_TOLD));
    }
    text.push_str(&format!("again: KVORUM_SEED={seed} cargo test --test sim"));
    text
}
