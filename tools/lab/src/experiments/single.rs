//! One node under load over one connection and over many.

use crate::context::ExperimentContext;
use crate::measure::{self, Capacity, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::profile::{self, FILTERS, OperationProfile, ProfileKind, StackMatcher};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, statistics};
use load::plan::{Operation, Rate};
use load::report::{plot, units};
use serde::Serialize;

/// The study's breaking point of `PUT`: the middle of 40,000 to 45,000 requests
/// per second.
const STUDY_PUT_RATE: f64 = 42_500.0;
/// The rate that the study called stable.
const STUDY_STABLE_RATE: f64 = 30_000.0;
/// The study's mean latency at that rate, in milliseconds.
const STUDY_MEAN_MS: f64 = 0.81;
/// The study's maximum latency at that rate, in milliseconds.
const STUDY_MAX_MS: f64 = 32.0;
/// The share of the bytes allocated under `GET` that the hashing of the study's
/// filter allocated.
const STUDY_FILTER_ALLOCATIONS: f64 = 0.80;

/// The stable load as a share of the breaking point, as in the study.
const STABLE_SHARE: f64 = STUDY_STABLE_RATE / STUDY_PUT_RATE;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "single",
    title: "One node, one connection",
    question: "What is the breaking point of one node over a single connection, what are the \
               latencies below it, and where do CPU time and allocations go?",
    method: &[
        "One node with `--durability os`, which acknowledges a write once the operating system \
         has it, so that the disk does not dominate the result. Its memtables have 4 MiB, so that \
         the measurement includes flushes and tables. `PUT` of 64-byte values over 100,000 \
         uniformly chosen keys, then `GET` of the same keys, all of which exist; over 1 \
         connection, without pipelining, and over 64.",
        "Latency counts from when a request was due. The stable load is 71% of the breaking \
         point, as in the study (30,000 of 40,000 to 45,000 requests per second).",
        "The profiles are taken under the stable load over 64 connections, in separate runs.",
    ],
    run,
};

/// The measurements of one operation over a number of connections.
#[derive(Debug, Serialize)]
struct SingleNodeCase {
    operation: Operation,
    connections: usize,
    capacity: Measured<Capacity>,
    stable: Measured<CostedRun>,
}

impl SingleNodeCase {
    fn name(&self) -> String {
        let (method, connections) = (sections::method(self.operation), self.connections);
        let plural = if connections == 1 { "" } else { "s" };
        format!("{method}, {connections} connection{plural}")
    }
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "1GiB",
            options: &["--durability", "os", "--memtable-bytes", "4MiB"],
        },
    )?;
    let mut cases = Vec::new();
    let mut profiles = Vec::new();
    for operation in [Operation::Put, Operation::Get] {
        let mut plan = measure::plan(context, &cluster, operation);
        measure::fill(context, &plan)?;
        for connections in [1, 64] {
            context.log(&format!(
                "{} over {connections}",
                sections::method(operation)
            ));
            plan.connections = connections;
            plan.rate = Rate::Max;
            let capacity = measure::capacity(context, &cluster, &plan)?;
            let stable = match &capacity {
                Ok(capacity) => {
                    plan.rate = measure::share_of(capacity.rate(), STABLE_SHARE);
                    let mut longer = plan.clone();
                    longer.seconds = context.effort().pick(0.5, 8.0, 30.0);
                    measure::run(context, &cluster, &longer)?
                }
                Err(problem) => Err(problem.clone()),
            };
            cases.push(SingleNodeCase {
                operation,
                connections,
                capacity,
                stable,
            });
        }
        // The plan is now that of the stable load over 64 connections.
        for kind in [ProfileKind::Cpu, ProfileKind::Alloc] {
            let profile = profile::under_load(context, &cluster.nodes[0], &plan, kind)?;
            profiles.push(OperationProfile {
                operation,
                kind,
                profile,
            });
        }
    }
    let metrics = cluster.nodes[0].metrics()?;
    // The counter is a whole number.
    let flushes = metrics.sum("kvorum_store_flushes_total", "") as u64;
    describe(page, &cases, &profiles, flushes);
    Ok(())
}

fn describe(
    page: &mut Page,
    cases: &[SingleNodeCase],
    profiles: &[OperationProfile],
    flushes: u64,
) {
    page.section("Measured");
    let mut table = sections::capacity_table("load");
    for case in cases {
        table.row(sections::capacity_row(&case.name(), &case.capacity));
    }
    page.table(&table);
    sections::failed_measurements(page, cases.iter().map(|case| (case.name(), &case.capacity)));

    page.subsection("At the stable load");
    let mut table = MarkdownTable::new(["load", "rate"].into_iter().chain(sections::LATENCY_HEAD));
    for case in cases {
        let rate = case.stable.as_ref().ok().map(CostedRun::rate);
        let head = [case.name(), text::rate(rate)];
        table.row(
            head.into_iter()
                .chain(sections::latency_cells(&case.stable)),
        );
    }
    page.table(&table);
    let runs = sections::labelled(cases.iter().map(|case| (case.name(), &case.stable)));
    let curves = plot::percentiles(&runs.iter().collect::<Vec<_>>());
    page.figure(
        "latency",
        "Latency at the stable load, by percentile",
        curves,
    );

    page.section("Where the time and the allocations go");
    sections::operation_profiles(page, "", profiles);

    page.section("What it shows");
    page.list(findings(cases, profiles, flushes));
    sections::compare_with_study(page, &compare(cases, profiles));
    page.data("runs", &cases);
}

fn findings(cases: &[SingleNodeCase], profiles: &[OperationProfile], flushes: u64) -> Vec<String> {
    let mut found = Vec::new();
    for operation in [Operation::Put, Operation::Get] {
        let rate = |connections| Some(find(cases, operation, connections)?.rate());
        if let (Some(one), Some(many)) = (rate(1), rate(64)) {
            found.push(format!(
                "The breaking point of {} is {} over one connection and {} over 64, {} times as \
                 much.",
                sections::method(operation),
                units::rate(one),
                units::rate(many),
                text::ratio(many / one.max(f64::MIN_POSITIVE)),
            ));
        }
    }
    if let Some(share) = share(
        profiles,
        Operation::Put,
        ProfileKind::Cpu,
        StackMatcher::Thread("flush"),
    ) {
        found.push(format!(
            "Flushes ({} in total) take {} of the CPU time under PUT. {}",
            units::count(flushes),
            text::percent(share),
            if share < 0.2 {
                "In the study, flushes and the counting of paths dominated the CPU time. Here a \
                 memtable is already sorted when a background job flushes it, and the list of \
                 tables is in memory, so no folder has to be listed."
            } else {
                "So flushes matter here, as in the study."
            }
        ));
    }
    if let Some(share) = share(
        profiles,
        Operation::Get,
        ProfileKind::Alloc,
        StackMatcher::Named(FILTERS),
    ) {
        found.push(format!(
            "Filters allocate {} of the bytes under GET. {}",
            text::percent(share),
            if share < 0.1 {
                "In the study their hashing allocated 80%. Here a key is hashed once, to a \
                 number, and checking a filter allocates nothing."
            } else {
                "So filters dominate allocations here, as in the study."
            }
        ));
    }
    found
}

fn find(cases: &[SingleNodeCase], operation: Operation, connections: usize) -> Option<&Capacity> {
    find_case(cases, operation, connections)?
        .capacity
        .as_ref()
        .ok()
}

fn find_case(
    cases: &[SingleNodeCase],
    operation: Operation,
    connections: usize,
) -> Option<&SingleNodeCase> {
    cases
        .iter()
        .find(|case| case.operation == operation && case.connections == connections)
}

fn share(
    profiles: &[OperationProfile],
    operation: Operation,
    kind: ProfileKind,
    frames: StackMatcher,
) -> Option<f64> {
    let taken = profiles
        .iter()
        .find(|taken| taken.operation == operation && taken.kind == kind)?;
    Some(taken.profile.as_ref().ok()?.share(frames))
}

fn compare(cases: &[SingleNodeCase], profiles: &[OperationProfile]) -> Vec<StudyComparison> {
    let stable = find_case(cases, Operation::Put, 1).and_then(|case| case.stable.as_ref().ok());
    let (mean, max) = (
        stable.map(|load| load.run.latency.mean_ms),
        stable.map(|load| load.run.latency.max_ms),
    );
    let filters = share(
        profiles,
        Operation::Get,
        ProfileKind::Alloc,
        StackMatcher::Named(FILTERS),
    );
    vec![
        StudyComparison {
            what: "PUT over one connection at the stable load: maximum latency over the mean"
                .to_owned(),
            study: format!(
                "{} / {}",
                units::latency(STUDY_MAX_MS),
                units::latency(STUDY_MEAN_MS)
            ),
            study_ratio: STUDY_MAX_MS / STUDY_MEAN_MS,
            ours: format!("{} / {}", text::latency(max), text::latency(mean)),
            our_ratio: statistics::ratio(max, mean),
            better: Better::Smaller,
        },
        StudyComparison {
            what: "GET: share of the allocated bytes that filters allocate".to_owned(),
            study: text::percent(STUDY_FILTER_ALLOCATIONS),
            study_ratio: STUDY_FILTER_ALLOCATIONS,
            ours: filters.map_or_else(|| units::NONE.to_owned(), text::percent),
            our_ratio: filters,
            better: Better::Smaller,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::FoldedProfile;
    use crate::testing::{assert_contains, capacity, load, page_text};

    fn case(operation: Operation, connections: usize, rate: f64) -> SingleNodeCase {
        SingleNodeCase {
            operation,
            connections,
            capacity: Ok(capacity(rate, 20.0)),
            stable: Ok(load(700, 10.0, 20.0)),
        }
    }

    #[test]
    fn conclusions_follow_from_the_profiles() {
        let cases = [
            case(Operation::Put, 1, 1_000.0),
            case(Operation::Put, 64, 4_000.0),
            SingleNodeCase {
                capacity: Err("cannot connect".to_owned()),
                ..case(Operation::Get, 1, 1.0)
            },
        ];
        let taken = |folded: &str, operation, kind| OperationProfile {
            operation,
            kind,
            profile: FoldedProfile::parse(kind, 1.0, folded),
        };
        let little = taken(
            "flush;write 1\nruntime;read 9",
            Operation::Put,
            ProfileKind::Cpu,
        );
        let much = taken(
            "flush;write 9\nruntime;read 1",
            Operation::Put,
            ProfileKind::Cpu,
        );
        let filters = taken(
            "runtime;lsm::table::filter 1\nruntime;x 3",
            Operation::Get,
            ProfileKind::Alloc,
        );

        let page = page_text(|page| describe(page, &cases, &[little, filters], 12));
        assert_contains(
            &page,
            &[
                "The breaking point of PUT is 1,000/s over one connection and 4,000/s over 64, 4.00 times \
                 as much.",
                "Flushes (12 in total) take 10% of the CPU time under PUT. In the study",
                "Filters allocate 25% of the bytes under GET. So filters dominate",
                "- GET, 1 connection: cannot connect",
                "20.0 ms / 1.00 ms",
            ],
        );
        assert_contains(
            &page_text(|page| describe(page, &cases, &[much], 12)),
            &["take 90% of the CPU time under PUT. So flushes matter"],
        );
    }
}
