//! Reads over a hundred tables, with and without filters.

use crate::context::ExperimentContext;
use crate::figures::{self, CAPACITY, Column};
use crate::measure;
use crate::measure::matrix::{self, Before, Case, Done, Load, Setup, share};
use crate::measure::profile::ProfileKind;
use crate::page::{Page, text};
use crate::{Error, Experiment};
use load::plan::{Operation, Plan};
use load::report::plot::Axis;
use load::report::units::Unit;

/// The filters that are measured, as `--filter` takes them, and whether a node is profiled.
const FILTERS: [(&str, bool); 4] = [
    ("none", true),
    ("0.5", false),
    ("0.03", false),
    ("0.01", true),
];

const TABLES: Column = ("tables", |done| {
    text::count(done.sum("kvorum_store_level_tables", ""))
});
const BLOCKS: Column = ("blocks per GET", |done| {
    let gets = done.grown("kvorum_requests_total", "");
    text::ratio(done.grown("kvorum_store_data_blocks_fetched_total", "") / gets)
});

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("tables.md"),
    name: "tables",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let plan = Plan {
        keys: context.effort().pick(2_000, 200_000, 200_000),
        ..measure::plan(context, Operation::Get)
    };
    let setup = |name: String, filter, memtable| {
        let mut options = vec!["--durability", "os", "--compaction", "off"];
        options.extend(["--filter", filter, "--memtable-bytes", memtable]);
        let searched = Case {
            // A node that has just started has all tables and nothing in memory.
            before: Before::Restart(None),
            ..Case::new(name, plan.clone(), Load::BreakingPoint)
        };
        Setup {
            fill: Some(plan.clone()),
            cases: vec![searched],
            ..Setup::of(1, "2GiB", &options)
        }
    };
    let mut setups = vec![setup("one table".to_owned(), "0.01", "64MiB")];
    for (filter, profiled) in FILTERS {
        let name = format!("filter {filter}");
        let mut setup = setup(name.clone(), filter, "512KiB");
        if profiled {
            let title = format!("GET over a hundred tables, {name}");
            let rate = share(0.7, name, Done::breaking_point);
            let file = format!("get-{filter}-cpu");
            let plan = plan.clone();
            let profile = Case::profile(file, &title, plan, ProfileKind::Cpu, Some(rate));
            setup.cases.push(profile);
        }
        setups.push(setup);
    }
    let done = matrix::run(context, setups)?;
    let cases = || done.iter().filter(|done| done.profile.is_none());
    let columns = [&[TABLES], CAPACITY, &[BLOCKS]];
    figures::table(page, "measured", &["node"], &columns, cases());
    let (title, axis) = (
        "Breaking point of GET",
        Axis::linear("requests", Unit::PerSecond),
    );
    figures::bars(
        page,
        "breaking-points",
        title,
        axis,
        cases(),
        Done::breaking_point,
    );
    let axis = Axis::linear("CPU time a request", Unit::Milliseconds);
    figures::bars(
        page,
        "cpu",
        "CPU time of a GET",
        axis,
        cases(),
        Done::cpu_ms,
    );
    figures::profiles(page, &done);
    page.data("runs", &done);
    Ok(())
}
