//! Reads over a hundred tables, with and without filters.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, Capacity, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::sections;
use crate::{Error, Experiment, PageText};
use load::plan::Operation;
use load::report::plot::{Axis, Bars};
use load::report::units::Unit;
use serde::Serialize;

/// The filters that are measured, in the order of the table.
const FILTERS: [&str; 4] = ["none", "0.5", "0.03", "0.01"];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Template(include_str!("tables.md")),
    name: "tables",
    question: "How much does a read cost if its key may be in any of a hundred tables, and how \
               much of that does a filter save?",
    run,
};

/// The measurements of a filter.
#[derive(Debug, Serialize)]
struct FilterCase {
    /// The filter, as `--filter` takes it.
    filter: &'static str,
    tables: u64,
    capacity: Measured<Capacity>,
    /// Data blocks searched per `GET`.
    blocks_a_get: f64,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut cases = vec![case(context, "0.01", "64MiB", None)?.0];
    let mut profiles = Vec::new();
    for filter in FILTERS {
        let kind = [FILTERS[0], FILTERS[3]]
            .contains(&filter)
            .then_some(ProfileKind::Cpu);
        let (case, profile) = case(context, filter, "512KiB", kind)?;
        profiles.extend(profile.map(|profile| (filter, profile)));
        cases.push(case);
    }
    describe(page, &cases, &profiles);
    Ok(())
}

fn case(
    context: &ExperimentContext<'_>,
    filter: &'static str,
    memtable: &str,
    kind: Option<ProfileKind>,
) -> Result<(FilterCase, Option<Measured<FoldedProfile>>), Error> {
    context.log(&format!("filter {filter}, memtables of {memtable}"));
    let mut cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "2GiB",
            options: &[
                "--durability",
                "os",
                "--compaction",
                "off",
                "--filter",
                filter,
                "--memtable-bytes",
                memtable,
            ],
        },
    )?;
    let mut plan = measure::plan(context, &cluster, Operation::Get);
    plan.keys = context.effort().pick(2_000, 200_000, 200_000);
    measure::fill(context, &plan)?;
    let node = &mut cluster.nodes[0];
    node.stop(context)?;
    node.start()?;
    node.wait_until_up(context)?;
    let before = cluster.nodes[0].metrics()?;
    let capacity = measure::capacity(context, &cluster, &plan)?;
    let after = cluster.nodes[0].metrics()?;
    let gets = after.growth(&before, "kvorum_requests_total");
    let blocks = after.growth(&before, "kvorum_store_data_blocks_fetched_total");
    let case = FilterCase {
        filter,
        // The counter is a whole number.
        tables: after.sum("kvorum_store_level_tables", "") as u64,
        capacity,
        blocks_a_get: blocks / gets.max(1.0),
    };
    let profile = match (kind, &case.capacity) {
        (Some(kind), Ok(capacity)) => {
            plan.rate = measure::share_of(capacity.rate(), 0.7);
            let node = &cluster.nodes[0];
            Some(profile::under_load(context, node, &plan, kind)?)
        }
        _ => None,
    };
    Ok((case, profile))
}

impl FilterCase {
    fn rate(&self) -> Option<f64> {
        self.capacity.as_ref().ok()?.search.rate
    }

    fn cpu_ms(&self) -> Option<f64> {
        Some(self.capacity.as_ref().ok()?.saturated.cpu_us? / 1e3)
    }
}

fn describe(
    page: &mut Page,
    cases: &[FilterCase],
    profiles: &[(&'static str, Measured<FoldedProfile>)],
) {
    let mut table = MarkdownTable::new(
        ["node", "tables"]
            .into_iter()
            .chain(sections::CAPACITY_HEAD)
            .chain(["blocks per GET"]),
    );
    let mut names = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let name = match index {
            0 => "one table".to_owned(),
            _ => format!("filter {}", case.filter),
        };
        let row = [name.clone(), text::count(case.tables as f64)].into_iter();
        let row = row.chain(sections::capacity_cells(&case.capacity));
        table.row(row.chain([text::ratio(case.blocks_a_get)]));
        sections::failed_measurements(page, [(name.clone(), &case.capacity)]);
        names.push(name);
    }
    page.keep_table("measured", table);
    let bars = |title, axis, value: fn(&FilterCase) -> Option<f64>| {
        let values = cases.iter().map(|case| value(case).unwrap_or(f64::NAN));
        Bars::new(title, names.iter().cloned(), axis)
            .with("", values)
            .draw()
    };
    let axis = Axis::linear("requests", Unit::PerSecond);
    page.keep_chart(
        "breaking-points",
        bars("Breaking point of GET", axis, FilterCase::rate),
    );
    let axis = Axis::linear("CPU time a request", Unit::Milliseconds);
    page.keep_chart("cpu", bars("CPU time of a GET", axis, FilterCase::cpu_ms));
    for (filter, profile) in profiles {
        let title = format!("GET over a hundred tables, filter {filter}: CPU time");
        sections::profile(page, &format!("get-{filter}-cpu"), &title, profile);
    }
    page.data("runs", &cases);
}
