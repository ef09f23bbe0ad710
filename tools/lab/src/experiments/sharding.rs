//! How evenly keys are spread over nodes, and what that costs.

use crate::context::ExperimentContext;
use crate::measure::{self, Capacity, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::profile::{self, FoldedProfile, ProfileKind};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{Operation, Plan, Rate};
use load::report::plot::{Axis, Bars};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The smallest and the greatest size of a node in the study, in MB, after
/// filling ten nodes with random keys.
const STUDY_NODE_MB: (f64, f64) = (79.0, 81.0);
/// The breaking point of three nodes in the study, as a share of that of one
/// node.
const STUDY_SHARES: [(Operation, f64); 2] = [(Operation::Put, 0.14), (Operation::Get, 0.17)];

/// The number of nodes over which keys are spread.
const NODES: usize = 10;

pub(super) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "Sharding",
        method: &[
            "Ten nodes are filled with random keys and 64-byte values, one copy each (`ack=1`, \
         `from=1`), through all nodes in turn. Then they are stopped, which flushes everything to \
         tables, and the size of each node's tables is measured.",
            "One node and three nodes with one copy of each key are searched for their breaking \
         points, with `--durability os`, over 64 connections that are spread over all nodes. All \
         nodes share the cores with the generator, so three nodes are not three machines, and two \
         of three requests reach a node that has to forward them. The CPU time is the sum over all \
         nodes.",
        ],
    },
    name: "sharding",
    question: "How evenly are keys spread over ten nodes, and how does the breaking point of \
               three nodes with one copy of each key compare with that of one node?",
    run,
};

/// The measurements of an operation on a number of nodes.
#[derive(Debug, Serialize)]
struct ShardingCase {
    nodes: usize,
    operation: Operation,
    capacity: Measured<Capacity>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let spread = spread(context)?;
    let mut cases = Vec::new();
    let mut profiles = Vec::new();
    for nodes in [1, 3] {
        let cluster = LabCluster::start(
            context,
            ClusterLayout {
                nodes,
                memory: "512MiB",
                options: &["--durability", "os", "--ack", "1", "--from", "1"],
            },
        )?;
        let plan = measure::plan(context, &cluster, Operation::Put);
        measure::fill(context, &plan)?;
        for operation in [Operation::Put, Operation::Get] {
            context.log(&format!("{} of {nodes}", sections::method(operation)));
            let mut plan = Plan {
                operations: vec![(operation, 1.0)],
                ..plan.clone()
            };
            let capacity = measure::capacity(context, &cluster, &plan)?;
            if let (3, Ok(capacity)) = (nodes, &capacity) {
                plan.rate = measure::share_of(capacity.rate(), 0.7);
                let node = &cluster.nodes[0];
                let profile = profile::under_load(context, node, &plan, ProfileKind::Cpu)?;
                profiles.push((operation, profile));
            }
            cases.push(ShardingCase {
                nodes,
                operation,
                capacity,
            });
        }
    }
    describe(page, &spread, &cases, &profiles);
    Ok(())
}

/// The size of the tables of each of ten nodes, and the number of keys.
#[derive(Debug, Serialize)]
struct KeySpread {
    keys: u64,
    bytes: Vec<u64>,
}

fn spread(context: &ExperimentContext<'_>) -> Result<KeySpread, Error> {
    let mut cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: NODES,
            memory: "128MiB",
            options: &["--durability", "os", "--ack", "1", "--from", "1"],
        },
    )?;
    let plan = Plan {
        keys: context.effort().pick(10_000, 500_000, 5_000_000),
        rate: Rate::Max,
        ..measure::plan(context, &cluster, Operation::Put)
    };
    measure::fill(context, &plan)?;
    let mut bytes = Vec::new();
    for node in &mut cluster.nodes {
        node.stop(context)?;
        bytes.push(node.table_bytes()?);
    }
    Ok(KeySpread {
        keys: plan.keys,
        bytes,
    })
}

impl KeySpread {
    /// The sizes of the smallest and the largest node, in bytes.
    fn extremes(&self) -> Option<(f64, f64)> {
        let least = self.bytes.iter().min()?;
        let most = self.bytes.iter().max()?;
        Some((*least as f64, *most as f64))
    }
}

fn describe(
    page: &mut Page,
    spread: &KeySpread,
    cases: &[ShardingCase],
    profiles: &[(Operation, Measured<FoldedProfile>)],
) {
    page.section("Bytes per node");
    let names = (1..=spread.bytes.len()).map(|number| format!("node-{number}"));
    let mut table = MarkdownTable::new(["node", "tables", "of the mean"]);
    let mean = spread.bytes.iter().sum::<u64>() as f64 / spread.bytes.len().max(1) as f64;
    for (name, bytes) in names.clone().zip(&spread.bytes) {
        let bytes = *bytes as f64;
        table.row([name, units::bytes(bytes), units::share(bytes / mean)]);
    }
    page.table(&table);
    let axis = Axis::linear("tables", Unit::Bytes);
    let values = spread.bytes.iter().map(|bytes| *bytes as f64);
    let bars = Bars::new("Bytes of tables, by node", names, axis).with("", values);
    page.figure("bytes", "Bytes of tables, by node", bars.draw());

    page.section("One node and three");
    let mut table = sections::capacity_table("nodes");
    for case in cases {
        table.row(sections::capacity_row(&case.name(), &case.capacity));
    }
    page.table(&table);
    sections::failed_measurements(page, cases.iter().map(|case| (case.name(), &case.capacity)));
    let axis = Axis::linear("breaking point", Unit::PerSecond);
    let mut bars = Bars::new("Breaking points", ["PUT", "GET"].map(str::to_owned), axis);
    for nodes in [1, 3] {
        let rates = [Operation::Put, Operation::Get]
            .map(|operation| rate(cases, nodes, operation).unwrap_or(f64::NAN));
        let plural = if nodes == 1 { "" } else { "s" };
        bars = bars.with(format!("{nodes} node{plural}"), rates);
    }
    page.figure("breaking-points", "Breaking points", bars.draw());

    page.section("Where the time goes");
    for (operation, profile) in profiles {
        let method = sections::method(*operation);
        let title = format!("{method} on one of three nodes: CPU time");
        let file = format!("{}-cpu", method.to_lowercase());
        sections::profile(page, &file, &title, profile);
    }

    page.section("What it shows");
    page.list(findings(spread, cases));
    sections::compare_with_study(page, &compare(spread, cases));
    page.data("bytes", spread);
    page.data("runs", &cases);
}

impl ShardingCase {
    fn name(&self) -> String {
        let plural = if self.nodes == 1 { "" } else { "s" };
        format!(
            "{}, {} node{plural}",
            sections::method(self.operation),
            self.nodes
        )
    }
}

fn capacity(cases: &[ShardingCase], nodes: usize, operation: Operation) -> Option<&Capacity> {
    let mut cases = cases.iter();
    let case = cases.find(|case| case.nodes == nodes && case.operation == operation)?;
    case.capacity.as_ref().ok()
}

fn rate(cases: &[ShardingCase], nodes: usize, operation: Operation) -> Option<f64> {
    capacity(cases, nodes, operation)?.search.rate
}

fn findings(spread: &KeySpread, cases: &[ShardingCase]) -> Vec<String> {
    let mut found = Vec::new();
    if let Some((least, most)) = spread.extremes() {
        found.push(format!(
            "{} keys on {} nodes: the largest node has {} more bytes than the smallest.",
            units::count(spread.keys),
            spread.bytes.len(),
            text::percent(most / least.max(1.0) - 1.0)
        ));
    }
    for (operation, _) in STUDY_SHARES {
        let share = statistics::ratio(rate(cases, 3, operation), rate(cases, 1, operation));
        let cpu = |nodes| capacity(cases, nodes, operation)?.saturated.cpu_us;
        if let Some(share) = share {
            found.push(format!(
                "The breaking point of three nodes on this machine is {} of that of one node for \
                 {}{}.",
                text::percent(share),
                sections::method(operation),
                sections::for_times_the_cpu(statistics::ratio(cpu(3), cpu(1)))
            ));
        }
    }
    found
}

fn compare(spread: &KeySpread, cases: &[ShardingCase]) -> Vec<StudyComparison> {
    let (least, most) = STUDY_NODE_MB;
    let ours = spread.extremes();
    let mut rows = vec![StudyComparison {
        what: "size of the largest of ten nodes over that of the smallest".to_owned(),
        study: format!("{most:.0} / {least:.0}"),
        study_ratio: most / least,
        ours: ours.map_or_else(
            || units::NONE.to_owned(),
            |(least, most)| format!("{} / {}", units::bytes(most), units::bytes(least)),
        ),
        our_ratio: ours.and_then(|(least, most)| statistics::ratio(Some(most), Some(least))),
        better: Better::Smaller,
    }];
    rows.extend(STUDY_SHARES.map(|(operation, share)| {
        let (three, one) = (rate(cases, 3, operation), rate(cases, 1, operation));
        StudyComparison {
            what: format!(
                "{}: breaking point of three nodes with one copy, over that of one node",
                sections::method(operation)
            ),
            study: text::percent(share),
            study_ratio: share,
            ours: format!("{} / {}", text::rate(three), text::rate(one)),
            our_ratio: statistics::ratio(three, one),
            better: Better::Greater,
        }
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, capacity, page_text};

    #[test]
    fn the_page_compares_sizes_and_breaking_points() {
        let spread = KeySpread {
            keys: 1_000,
            bytes: vec![1 << 20, (1 << 20) + (1 << 16)],
        };
        let case = |nodes, operation, rate, cpu_us| ShardingCase {
            nodes,
            operation,
            capacity: Ok(capacity(rate, cpu_us)),
        };
        let mut cases = vec![
            case(1, Operation::Put, 10_000.0, 10.0),
            case(1, Operation::Get, 20_000.0, 8.0),
            case(3, Operation::Put, 4_000.0, 30.0),
            case(3, Operation::Get, 9_000.0, 20.0),
        ];
        assert_contains(
            &page_text(|page| describe(page, &spread, &cases, &[])),
            &[
                "1,000 keys on 2 nodes: the largest node has 6.2% more bytes than the smallest.",
                "is 40% of that of one node for PUT, for 3.00 times the CPU time",
                "is 45% of that of one node for GET",
                "4,000/s / 10,000/s",
                "| node-2 ",
            ],
        );
        cases.truncate(2);
        assert_contains(
            &page_text(|page| describe(page, &spread, &cases, &[])),
            &["not measured"],
        );
    }
}
