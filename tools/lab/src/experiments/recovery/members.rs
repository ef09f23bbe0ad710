//! What clients notice while a node joins, leaves, dies and is replaced.

use crate::context::ExperimentContext;
use crate::measure::phases::phases;
use crate::measure::{self, GrowingSum, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::{Error, Experiment, figures};
use load::Run;
use load::plan::{Operation, Plan, Rate, SizeDistribution};
use load::report::{plot, units};
use serde::Serialize;

/// The greatest requested rate, in requests per second: well below the capacity of three nodes on
/// two cores.
const RATE_MAX: f64 = 2_000.0;

/// The requested rate as a share of the closed loop, so that a slow machine gets less.
const SHARE: f64 = 0.3;

/// The node that dies, by its index.
const DYING: usize = 2;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("members.md"),
    name: "members",
    run,
};

/// What happens, one after the other. Each waits for the end of the one before, and some seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Step {
    Join,
    Leave,
    Die,
    Replace,
}

impl Step {
    const ALL: [Self; 4] = [Self::Join, Self::Leave, Self::Die, Self::Replace];

    /// Its labels in plots: when it begins, and when it has ended.
    fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Join => ("node-4 joins", "four members"),
            Self::Leave => ("node-4 leaves", "three members"),
            Self::Die => ("node-3 is killed", "two of three up"),
            Self::Replace => ("node-5 replaces node-3", "three members again"),
        }
    }

    /// The change of members that it asks for, if it is one.
    fn query(self) -> Option<&'static str> {
        match self {
            Self::Join => Some("join=node-4"),
            Self::Leave => Some("leave=node-4"),
            Self::Die => None,
            Self::Replace => Some("join=node-5&leave=node-3&dead=true"),
        }
    }
}

/// A change of the members, as it was seen at the ends of seconds.
#[derive(Debug, Serialize)]
struct ChangeResults {
    step: Step,
    /// When the cluster took it, in seconds since the warm-up of the load ended.
    began: f64,
    /// How long it took; none if it had not ended when the load did.
    seconds: Option<f64>,
    /// About how many bytes the plan said would move.
    planned_bytes: u64,
    /// Bytes of repair between the nodes until then.
    moved_bytes: f64,
}

/// The results.
#[derive(Debug, Serialize)]
struct MembersResults {
    keys: u64,
    run: Measured<Run>,
    changes: Vec<ChangeResults>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let layout = ClusterLayout::of_three(&["--durability", "os"]);
    let mut cluster = LabCluster::start(context, layout)?;
    let keys = context.effort().pick(1_000, 100_000, 1_000_000);
    let mut plan = Plan {
        targets: cluster.targets().into_iter().take(2).collect(),
        replicas: Some((2, 3)),
        operations: vec![(Operation::Put, 1.0), (Operation::Get, 1.0)],
        keys,
        value_bytes: SizeDistribution::Fixed(1024),
        ..measure::plan_on(context, &cluster, Operation::Put)
    };
    measure::fill(context, &plan)?;
    let saturated = measure::run(context, &cluster, &plan)?.map_err(Error::Load)?;
    plan.rate = Rate::PerSecond((saturated.rate() * SHARE).clamp(1.0, RATE_MAX));
    plan.seconds = context.effort().pick(40.0, 180.0, 900.0);
    let mut script = Script::new(context.effort().pick(1.0, 10.0, 30.0));
    let run = measure::run_with(context, &plan, |at_seconds| {
        let label = script.at_second(context, &mut cluster, layout, at_seconds)?;
        if let Some(label) = label {
            context.log(label);
        }
        Ok(label.map(str::to_owned))
    })?;
    let changes = script.changes;
    describe(page, &MembersResults { keys, run, changes });
    Ok(())
}

/// Makes the steps happen, and looks how far they are.
struct Script {
    /// The seconds between two steps.
    rest: f64,
    /// How many steps have begun.
    begun: usize,
    /// Whether the last of them has not ended.
    is_going_on: bool,
    /// When the next one may begin.
    next_at: f64,
    bytes: GrowingSum,
    changes: Vec<ChangeResults>,
}

impl Script {
    fn new(rest: f64) -> Self {
        Self {
            rest,
            begun: 0,
            is_going_on: false,
            next_at: rest,
            bytes: GrowingSum::default(),
            changes: Vec::new(),
        }
    }

    /// Does what is due at the end of this second. Gives the label of what has begun or ended.
    fn at_second(
        &mut self,
        context: &ExperimentContext<'_>,
        cluster: &mut LabCluster,
        layout: ClusterLayout<'_>,
        at_seconds: f64,
    ) -> Result<Option<&'static str>, Error> {
        self.read(cluster);
        if self.is_going_on {
            return self.go_on(cluster, at_seconds);
        }
        let Some(step) = Step::ALL.get(self.begun).copied() else {
            return Ok(None);
        };
        if at_seconds < self.next_at {
            return Ok(None);
        }
        match step {
            Step::Join if cluster.nodes.len() == 3 => cluster.add(context, layout)?,
            Step::Replace if cluster.nodes.len() == 4 => cluster.add(context, layout)?,
            Step::Die => cluster.nodes[DYING].kill(),
            Step::Join | Step::Leave | Step::Replace => {}
        }
        if let Some(query) = step.query() {
            // A node that has just been started is refused until it is heard; then a second later.
            let Some(planned_bytes) = cluster.nodes[0].change_members(query)? else {
                return Ok(None);
            };
            self.bytes.reset();
            self.changes.push(ChangeResults {
                step,
                began: at_seconds,
                seconds: None,
                planned_bytes,
                moved_bytes: 0.0,
            });
        }
        self.begun += 1;
        self.is_going_on = true;
        Ok(Some(step.labels().0))
    }

    /// Looks whether the last step has ended.
    fn go_on(
        &mut self,
        cluster: &mut LabCluster,
        at_seconds: f64,
    ) -> Result<Option<&'static str>, Error> {
        let step = Step::ALL[self.begun - 1];
        if step.query().is_some() {
            let Some(change) = self.changes.last_mut() else {
                return Ok(None);
            };
            change.moved_bytes = self.bytes.total();
            // A node that has too much to do is asked again a second later.
            if !cluster.nodes[0].has_stable_members().unwrap_or(false) {
                return Ok(None);
            }
            change.seconds = Some(at_seconds - change.began);
        }
        if step == Step::Leave {
            cluster.nodes[3].kill();
        }
        self.is_going_on = false;
        self.next_at = at_seconds + self.rest;
        Ok(Some(step.labels().1))
    }

    /// Reads the counters of all nodes that answer.
    fn read(&mut self, cluster: &LabCluster) {
        for (index, node) in cluster.nodes.iter().enumerate() {
            if let Ok(metrics) = node.metrics() {
                let bytes = metrics.sum("kvorum_repair_bytes_total", "");
                self.bytes.add(index, bytes);
            }
        }
    }
}

fn describe(page: &mut Page, results: &MembersResults) {
    page.keep_value("keys", units::count(results.keys));
    let mut changes = MarkdownTable::new([
        "change",
        "took",
        "planned to move",
        "moved",
        "moved of planned",
    ]);
    for change in &results.changes {
        changes.row([
            change.step.labels().0.to_owned(),
            units::seconds(change.seconds.unwrap_or(f64::NAN)),
            units::bytes(change.planned_bytes as f64),
            units::bytes(change.moved_bytes),
            text::ratio(change.moved_bytes / change.planned_bytes as f64),
        ]);
    }
    page.keep_table("changes", changes);
    figures::failed_measurements(page, [("the load".to_owned(), &results.run)]);
    let mut table = MarkdownTable::new(["phase", "seconds", "failed", "median p99", "max"]);
    if let Ok(run) = &results.run {
        let achieved = figures::achieved_text(Some(&text::requested(run)), run);
        page.keep_value("achieved", achieved);
        for phase in phases(run, "three members at first") {
            table.row([
                phase.name.to_owned(),
                units::count(phase.seconds.len() as u64),
                units::count(phase.failed()),
                text::latency(phase.p99_ms()),
                text::latency(phase.max_ms()),
            ]);
        }
        page.keep_chart("latency", plot::timeline(&[run]));
        page.keep_chart("throughput", plot::throughput(&[run]));
    }
    page.keep_table("measured", table);
    page.data("samples", results);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_values, marks, run, timeline};

    #[test]
    fn a_change_that_has_not_ended_has_no_time() {
        let mut run = run(100.0, 800, 5.0);
        run.timeline = timeline(&[2.0, 2.0, 9.0, 9.0]);
        run.marks = marks([(2.0, "node-4 joins")]);
        let results = MembersResults {
            keys: 1_000,
            run: Ok(run),
            changes: vec![ChangeResults {
                step: Step::Join,
                began: 2.0,
                seconds: None,
                planned_bytes: 0,
                moved_bytes: 10.0,
            }],
        };
        assert_values(|page| describe(page, &results), &[("keys", "1,000")]);
        let mut page = Page::new("members");
        describe(&mut page, &results);
        let took = page.results.tables["changes"].cell("node-4 joins", "took");
        assert_eq!(took, Some(units::NONE));
    }
}
