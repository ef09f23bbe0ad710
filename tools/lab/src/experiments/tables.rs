//! Reads over a hundred tables, with and without filters.

use crate::context::ExperimentContext;
use crate::measure::{self, Capacity, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{Page, text};
use crate::profile::{self, FoldedProfile, ProfileKind};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, statistics};
use load::plan::Operation;
use load::report::plot::{Axis, Bars};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The study's breaking points of `GET` over 100 tables, by filter.
const STUDY: [(&str, f64); 3] = [("none", 7_300.0), ("0.5", 12_500.0), ("0.03", 25_000.0)];
/// The filter with which the others of the study are compared.
const STUDY_BEST: &str = "0.03";

/// The filters that are measured, in the order of the table.
const FILTERS: [&str; 4] = ["none", "0.5", "0.03", "0.01"];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tables",
    title: "A hundred tables",
    question: "How much does a read cost if its key may be in any of a hundred tables, and how \
               much of that does a filter save?",
    method: &[
        "A node for each filter, with compaction off and such small memtables that the keys, put \
         once each in random order, end up in about a hundred tables, each of which covers the \
         whole key range. Another node has the same keys in one table. The nodes are restarted \
         before they are read, so that no read is answered from a memtable. All blocks fit into \
         the cache.",
        "`GET` of uniformly chosen keys, all of which exist, over 64 connections. The table shows \
         how many blocks the node searched per request, in the cache or on the disk.",
    ],
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
    fn name(&self) -> String {
        let plural = if self.tables == 1 { "" } else { "s" };
        format!("{} table{plural}, filter {}", self.tables, self.filter)
    }

    fn rate(&self) -> Option<f64> {
        self.capacity.as_ref().ok()?.search.rate
    }

    fn cpu_us(&self) -> Option<f64> {
        self.capacity.as_ref().ok()?.saturated.cpu_us
    }
}

fn describe(
    page: &mut Page,
    cases: &[FilterCase],
    profiles: &[(&'static str, Measured<FoldedProfile>)],
) {
    page.section("Measured");
    let mut table = sections::capacity_table("tables");
    table.column("blocks per GET");
    for case in cases {
        let mut row = sections::capacity_row(&case.name(), &case.capacity);
        row.push(text::ratio(case.blocks_a_get));
        table.row(row);
    }
    page.table(&table);
    sections::failed_measurements(page, cases.iter().map(|case| (case.name(), &case.capacity)));
    let bars = |title, axis, value: fn(&FilterCase) -> Option<f64>| {
        let values = cases.iter().map(|case| value(case).unwrap_or(f64::NAN));
        Bars::new(title, cases.iter().map(FilterCase::name), axis)
            .with("", values)
            .draw()
    };
    let axis = Axis::linear("requests", Unit::PerSecond);
    let svg = bars("Breaking point of GET", axis, FilterCase::rate);
    page.figure("breaking-points", "Breaking point of GET by filter", svg);
    let axis = Axis::linear("CPU time a request", Unit::Milliseconds);
    let svg = bars("CPU time of a GET", axis, |case| Some(case.cpu_us()? / 1e3));
    page.figure("cpu", "CPU time of a GET by filter", svg);

    page.section("Where the time goes");
    for (filter, profile) in profiles {
        let title = format!("GET over a hundred tables, filter {filter}: CPU time");
        sections::profile(page, &format!("get-{filter}-cpu"), &title, profile);
    }

    page.section("What it shows");
    page.list(findings(cases));
    sections::compare_with_study(page, &compare(cases));
    page.data("runs", &cases);
}

/// The case with one table, and those with a hundred.
fn parts(cases: &[FilterCase]) -> Option<(&FilterCase, &[FilterCase])> {
    cases.split_first()
}

fn rate_of(cases: &[FilterCase], filter: &str) -> Option<f64> {
    let (_, hundred) = parts(cases)?;
    hundred.iter().find(|case| case.filter == filter)?.rate()
}

fn findings(cases: &[FilterCase]) -> Vec<String> {
    let mut found = Vec::new();
    let Some((one, hundred)) = parts(cases) else {
        return found;
    };
    for case in hundred {
        if let Some(share) = statistics::ratio(case.rate(), one.rate()) {
            found.push(format!(
                "The breaking point of {} tables with filter {} is {} of that of one table, and a \
                 GET searches {} blocks.",
                case.tables,
                case.filter,
                text::percent(share),
                text::ratio(case.blocks_a_get),
            ));
        }
    }
    if let (Some(none), Some(best)) = (
        rate_of(cases, "none").filter(|none| *none > 0.0),
        rate_of(cases, STUDY_BEST),
    ) {
        let study = STUDY[2].1 / STUDY[0].1;
        found.push(format!(
            "A filter of {STUDY_BEST} multiplies the breaking point by {}, in the study by {}. {}",
            text::ratio(best / none),
            text::ratio(study),
            if best / none < study {
                "It matters less here because a table that no filter excludes costs less: its \
                 index and its blocks are in memory, a block is searched in place, and a read \
                 stops as soon as no other table can hold a newer version."
            } else {
                "So it matters here at least as much."
            }
        ));
    }
    found
}

fn compare(cases: &[FilterCase]) -> Vec<StudyComparison> {
    let best = rate_of(cases, STUDY_BEST);
    let rows = STUDY.iter().filter(|(filter, _)| *filter != STUDY_BEST);
    let rows = rows.map(|(filter, study)| {
        let ours = rate_of(cases, filter);
        StudyComparison {
            what: format!("GET over 100 tables: filter {STUDY_BEST} over {filter}"),
            study: format!("{} / {}", units::rate(STUDY[2].1), units::rate(*study)),
            study_ratio: STUDY[2].1 / study,
            ours: format!("{} / {}", text::rate(best), text::rate(ours)),
            our_ratio: statistics::ratio(best, ours),
            better: Better::Greater,
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, capacity, page_text};

    fn case(filter: &'static str, tables: u64, rate: f64) -> FilterCase {
        FilterCase {
            filter,
            tables,
            capacity: Ok(capacity(rate, 20.0)),
            blocks_a_get: 1.5,
        }
    }

    #[test]
    fn filters_are_compared_with_one_table_and_the_study() {
        let mut cases = vec![
            case("0.01", 1, 20_000.0),
            case("none", 100, 5_000.0),
            case("0.5", 100, 6_000.0),
            case("0.03", 100, 10_000.0),
        ];
        assert_contains(
            &page_text(|page| describe(page, &cases, &[])),
            &[
                "The breaking point of 100 tables with filter none is 25% of that of one table, and a GET \
                 searches 1.50 blocks.",
                "A filter of 0.03 multiplies the breaking point by 2.00, in the study by 3.42. It \
                 matters less here",
                "10,000/s / 5,000/s",
                "| 1 table, filter 0.01 ",
            ],
        );
        cases[1].capacity = Err("no answer".to_owned());
        let page = page_text(|page| describe(page, &cases, &[]));
        assert_contains(
            &page,
            &["- 100 tables, filter none: no answer", "not measured"],
        );
        assert!(!page.contains("multiplies"), "{page}");
    }
}
