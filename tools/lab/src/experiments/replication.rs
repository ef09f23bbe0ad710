//! The cost of more copies and more acknowledgements.

use crate::context::ExperimentContext;
use crate::measure::{self, Capacity, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{Page, text};
use crate::profile::{self, OperationProfile, ProfileKind};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{Operation, Plan};
use load::report::plot::{Axis, Bars};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The pairs of ACK and FROM.
const REPLICAS: [(u8, u8); 3] = [(1, 3), (2, 3), (3, 3)];
/// The pair that the study measured, which is also profiled.
const QUORUM: (u8, u8) = (2, 3);

/// The breaking point of 2/3 in the study with blocking calls, as a share of
/// that of one node.
const STUDY_BLOCKING: [(Operation, f64); 2] = [(Operation::Put, 0.01), (Operation::Get, 0.004)];
/// The factor by which the breaking point of `PUT` rose with parallel,
/// asynchronous calls.
const STUDY_ASYNCHRONOUS: f64 = 3.0;
/// The breaking point of 2/3 in another study, as a share of that of three
/// nodes with one copy.
const STUDY_OF_ONE_COPY: f64 = 0.40;

pub(super) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "Replication",
        method: &[
            "One node alone, and three nodes on this machine, with `--durability os`. `PUT` and `GET` \
         of 64-byte values over 100,000 keys, over 64 connections that are spread over all nodes. \
         The three nodes keep one copy of each key (1/1), or three copies of which one, two or all \
         must answer. The CPU time is the sum over all nodes.",
            "The profiles show one of the three nodes under 2/3, at 70% of the breaking point, in \
         separate runs.",
        ],
    },
    name: "replication",
    question: "How much does a request cost when three nodes keep each key and one, two or all of \
               them must answer, and where does the time go?",
    run,
};

/// The measurements with some replicas.
#[derive(Debug, Serialize)]
struct ReplicationCase {
    operation: Operation,
    /// ACK and FROM; none for one node alone.
    replicas: Option<(u8, u8)>,
    capacity: Measured<Capacity>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut cases = Vec::new();
    let mut profiles = Vec::new();
    let layout = |nodes| ClusterLayout {
        nodes,
        memory: "512MiB",
        options: &["--durability", "os"],
    };
    let alone = LabCluster::start(context, layout(1))?;
    let plan = measure::plan(context, &alone, Operation::Put);
    measure::fill(context, &plan)?;
    for operation in [Operation::Put, Operation::Get] {
        cases.push(case(context, &alone, &plan, operation, None)?);
    }
    drop(alone);

    for replicas in std::iter::once((1, 1)).chain(REPLICAS) {
        // New nodes for each pair, so that no copies of another pair are left.
        let cluster = LabCluster::start(context, layout(3))?;
        let plan = Plan {
            targets: cluster.targets(),
            replicas: Some(replicas),
            ..plan.clone()
        };
        measure::fill(context, &plan)?;
        for operation in [Operation::Put, Operation::Get] {
            let case = case(context, &cluster, &plan, operation, Some(replicas))?;
            if let (QUORUM, Ok(capacity)) = (replicas, &case.capacity) {
                let plan = Plan {
                    operations: vec![(operation, 1.0)],
                    rate: measure::share_of(capacity.rate(), 0.7),
                    ..plan.clone()
                };
                for kind in [ProfileKind::Cpu, ProfileKind::Alloc, ProfileKind::Lock] {
                    let node = &cluster.nodes[0];
                    profiles.push(OperationProfile {
                        operation,
                        kind,
                        profile: profile::under_load(context, node, &plan, kind)?,
                    });
                }
            }
            cases.push(case);
        }
    }
    describe(page, &cases, &profiles);
    Ok(())
}

fn case(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
    operation: Operation,
    replicas: Option<(u8, u8)>,
) -> Result<ReplicationCase, Error> {
    let plan = Plan {
        operations: vec![(operation, 1.0)],
        ..plan.clone()
    };
    let mut case = ReplicationCase {
        operation,
        replicas,
        capacity: Err(String::new()),
    };
    context.log(&case.name());
    case.capacity = measure::capacity(context, cluster, &plan)?;
    Ok(case)
}

impl ReplicationCase {
    fn name(&self) -> String {
        let method = sections::method(self.operation);
        match self.replicas {
            Some((ack, from)) => format!("{method} {ack}/{from}"),
            None => format!("{method}, one node"),
        }
    }
}

fn describe(page: &mut Page, cases: &[ReplicationCase], profiles: &[OperationProfile]) {
    page.section("Measured");
    let mut table = sections::capacity_table("request");
    table.column("of one node");
    for case in cases {
        let mut row = sections::capacity_row(&case.name(), &case.capacity);
        let share = share_of_one(cases, case.operation, case.replicas);
        row.push(text::percent(share.unwrap_or(f64::NAN)));
        table.row(row);
    }
    page.table(&table);
    sections::failed_measurements(page, cases.iter().map(|case| (case.name(), &case.capacity)));
    let kinds: Vec<Option<(u8, u8)>> = [None, Some((1, 1))]
        .into_iter()
        .chain(REPLICAS.map(Some))
        .collect();
    let names = kinds.iter().map(|replicas| match replicas {
        Some((1, 1)) => "three nodes, 1/1".to_owned(),
        Some((ack, from)) => format!("{ack}/{from}"),
        None => "one node".to_owned(),
    });
    let names: Vec<String> = names.collect();
    for (file, title, axis, value) in [
        (
            "breaking-points",
            "Breaking points",
            Axis::linear("requests", Unit::PerSecond),
            rate_of as fn(&Capacity) -> Option<f64>,
        ),
        (
            "cpu",
            "CPU time of all nodes per request",
            Axis::linear("CPU time", Unit::Milliseconds),
            cpu_ms,
        ),
    ] {
        let mut bars = Bars::new(title, names.clone(), axis);
        for operation in [Operation::Put, Operation::Get] {
            let values = kinds.iter().map(|replicas| {
                let capacity = capacity(cases, operation, *replicas);
                capacity.and_then(value).unwrap_or(f64::NAN)
            });
            bars = bars.with(sections::method(operation), values);
        }
        page.figure(file, title, bars.draw());
    }

    page.section("Where the time goes");
    sections::operation_profiles(page, " 2/3 on one of three nodes", profiles);

    page.section("What it shows");
    page.list(findings(cases));
    sections::compare_with_study(page, &compare(cases));
    page.data("runs", &cases);
}

fn capacity(
    cases: &[ReplicationCase],
    operation: Operation,
    replicas: Option<(u8, u8)>,
) -> Option<&Capacity> {
    let mut cases = cases.iter();
    let case = cases.find(|case| case.operation == operation && case.replicas == replicas)?;
    case.capacity.as_ref().ok()
}

fn rate_of(capacity: &Capacity) -> Option<f64> {
    capacity.search.rate
}

fn cpu_ms(capacity: &Capacity) -> Option<f64> {
    Some(capacity.saturated.cpu_us? / 1e3)
}

fn rate(
    cases: &[ReplicationCase],
    operation: Operation,
    replicas: Option<(u8, u8)>,
) -> Option<f64> {
    rate_of(capacity(cases, operation, replicas)?)
}

fn share_of_one(
    cases: &[ReplicationCase],
    operation: Operation,
    replicas: Option<(u8, u8)>,
) -> Option<f64> {
    statistics::ratio(
        rate(cases, operation, replicas),
        rate(cases, operation, None),
    )
}

fn findings(cases: &[ReplicationCase]) -> Vec<String> {
    let mut found = Vec::new();
    for operation in [Operation::Put, Operation::Get] {
        let method = sections::method(operation);
        let cpu = |replicas| cpu_ms(capacity(cases, operation, replicas)?);
        if let Some(share) = share_of_one(cases, operation, Some(QUORUM)) {
            found.push(format!(
                "The breaking point of {method} 2/3 is {} of that of one node on the same \
                 cores{}.",
                text::percent(share),
                sections::for_times_the_cpu(statistics::ratio(cpu(Some(QUORUM)), cpu(None)))
            ));
        }
        let rates = REPLICAS.map(|replicas| rate(cases, operation, Some(replicas)));
        if let [Some(one), Some(_), Some(all)] = rates {
            found.push(format!(
                "The breaking point of {method} that waits for all three replicas is {} of that \
                 of {method} that waits for one.",
                text::percent(all / one.max(f64::MIN_POSITIVE))
            ));
        }
    }
    found
}

fn compare(cases: &[ReplicationCase]) -> Vec<StudyComparison> {
    let quorum = |operation| rate(cases, operation, Some(QUORUM));
    let mut rows = Vec::new();
    for (operation, share) in STUDY_BLOCKING {
        let one = rate(cases, operation, None);
        // The later gain of the study is included.
        let (calls, study) = match operation {
            Operation::Put => ("parallel", share * STUDY_ASYNCHRONOUS),
            _ => ("blocking", share),
        };
        rows.push(StudyComparison {
            what: format!(
                "{}: breaking point of 2/3 over that of one node (study: {calls} calls)",
                sections::method(operation)
            ),
            study: text::percent(study),
            study_ratio: study,
            ours: format!("{} / {}", text::rate(quorum(operation)), text::rate(one)),
            our_ratio: statistics::ratio(quorum(operation), one),
            better: Better::Greater,
        });
    }
    let one_copy = rate(cases, Operation::Put, Some((1, 1)));
    rows.push(StudyComparison {
        what: "PUT: breaking point of 2/3 over that of three nodes with one copy (another study)"
            .to_owned(),
        study: text::percent(STUDY_OF_ONE_COPY),
        study_ratio: STUDY_OF_ONE_COPY,
        ours: format!(
            "{} / {}",
            text::rate(quorum(Operation::Put)),
            one_copy.map_or_else(|| units::NONE.to_owned(), units::rate)
        ),
        our_ratio: statistics::ratio(quorum(Operation::Put), one_copy),
        better: Better::Greater,
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, capacity, page_text};

    #[test]
    fn quorums_are_compared_with_one_node() {
        let case = |operation, replicas, rate, cpu_us| ReplicationCase {
            operation,
            replicas,
            capacity: Ok(capacity(rate, cpu_us)),
        };
        let mut cases = vec![
            case(Operation::Put, None, 20_000.0, 10.0),
            case(Operation::Get, None, 20_000.0, 10.0),
            case(Operation::Put, Some((1, 1)), 12_000.0, 20.0),
            case(Operation::Put, Some((1, 3)), 8_000.0, 40.0),
            case(Operation::Put, Some((2, 3)), 6_000.0, 45.0),
            case(Operation::Put, Some((3, 3)), 4_000.0, 50.0),
            case(Operation::Get, Some((2, 3)), 10_000.0, 25.0),
        ];
        assert_contains(
            &page_text(|page| describe(page, &cases, &[])),
            &[
                "The breaking point of PUT 2/3 is 30% of that of one node on the same cores, for 4.50 \
                 times the CPU time per request.",
                "The breaking point of PUT that waits for all three replicas is 50% of that of PUT that \
                 waits for one.",
                "GET 2/3 is 50% of that of one node",
                "6,000/s / 12,000/s",
            ],
        );
        cases[0].capacity = Err("refused".to_owned());
        let page = page_text(|page| describe(page, &cases, &[]));
        assert_contains(&page, &["- PUT, one node: refused", "not measured"]);
        assert!(!page.contains("PUT 2/3 is"), "{page}");
    }
}
