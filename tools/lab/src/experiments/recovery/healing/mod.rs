//! What clients notice while a cluster heals, and how long it takes.

mod describe;
mod story;

use crate::context::ExperimentContext;
use crate::measure::{self, GrowingSum, Measured};
use crate::nodes::{ClusterLayout, LabCluster, NodeEvent, StoreComparison};
use crate::page::Page;
use crate::{Error, Experiment};
use load::Run;
use load::plan::{Operation, Plan, Rate, SizeDistribution};
use serde::Serialize;
use std::time::{Duration, Instant};
use story::Story;

/// The load, as a share of the breaking point.
const SHARE: f64 = 0.5;

/// How often the nodes are looked at once the load has ended.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("healing.md"),
    name: "healing",
    run,
};

/// The cluster at one second of a story. Bytes and CPU time count from the beginning of
/// the story.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Observation {
    /// Since the warm-up of the load ended.
    at_seconds: f64,
    /// About how many keys differ; none while a node does not answer.
    differing_keys: Option<f64>,
    /// Bytes of repairs between the nodes.
    repair_bytes: f64,
    /// CPU time of all nodes.
    cpu_seconds: f64,
}

/// The results of a story.
#[derive(Debug, Serialize)]
struct StoryResults {
    story: Story,
    run: Measured<Run>,
    observations: Vec<Observation>,
    /// When the healing began, in seconds since the warm-up ended.
    healing_began: Option<f64>,
    /// When all stores were equal and what had happened was over.
    healed: Option<f64>,
}

/// The results.
#[derive(Debug, Serialize)]
struct HealingResults {
    keys: u64,
    /// The breaking point in requests per second.
    breaking_point: f64,
    stories: Vec<StoryResults>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let keys = context.effort().pick(1_000, 100_000, 1_000_000);
    let mut breaking_point = None;
    let mut stories = Vec::new();
    for story in Story::ALL {
        context.log(story.title());
        let cluster = start(context, story)?;
        let plan = Plan {
            targets: cluster.targets().into_iter().take(2).collect(),
            replicas: Some((2, 3)),
            operations: vec![(Operation::Put, 1.0), (Operation::Get, 1.0)],
            keys,
            value_bytes: SizeDistribution::Fixed(1024),
            ..measure::plan_on(context, &cluster, Operation::Put)
        };
        measure::fill(context, &plan)?;
        let rate = match breaking_point {
            Some(rate) => rate,
            None => {
                let capacity = measure::capacity(context, &cluster, &plan)?;
                let rate = capacity.map_err(Error::Load)?.rate();
                *breaking_point.insert(rate)
            }
        };
        let rate = Rate::PerSecond((rate * SHARE).max(50.0));
        stories.push(tell(context, story, cluster, &Plan { rate, ..plan })?);
    }
    let results = HealingResults {
        keys,
        breaking_point: breaking_point.unwrap_or(f64::NAN),
        stories,
    };
    describe::describe(page, &results);
    Ok(())
}

/// Starts the nodes of a story.
fn start(context: &ExperimentContext<'_>, story: Story) -> Result<LabCluster, Error> {
    let recent = match story {
        Story::LongAbsence => context.effort().pick("1s", "10s", "1m"),
        Story::LostDisk | Story::FullRepair => "off",
    };
    let hint_age = context.effort().pick("1s", "5s", "1m");
    let options = [
        "--durability",
        "os",
        "--repair-interval",
        recent,
        "--full-repair-interval",
        "off",
        "--hint-age-max",
        hint_age,
    ];
    LabCluster::start(context, ClusterLayout::of_three(&options))
}

/// Lets a story happen under load.
fn tell(
    context: &ExperimentContext<'_>,
    story: Story,
    mut cluster: LabCluster,
    plan: &Plan,
) -> Result<StoryResults, Error> {
    let events = story.events(context);
    let last = events.last().map_or(0.0, |(at_seconds, _)| *at_seconds);
    let plan = Plan {
        seconds: last + Story::seconds_after(context),
        ..plan.clone()
    };
    let mut observer = Observer::new(story, &cluster, plan.keys)?;
    let run = measure::run_with_events(
        context,
        &mut cluster,
        &plan,
        events,
        |cluster, at_seconds, event| {
            observer.observe(cluster, at_seconds)?;
            // From then on the cluster heals.
            if matches!(event, Some(NodeEvent::Start | NodeEvent::Repair)) {
                observer.healing_began = Some(at_seconds);
                observer.comparison.forget();
            }
            Ok(())
        },
    )?;
    // The nodes may need longer than the load.
    let timeout = context.effort().pick(60.0, 120.0, 1_200.0);
    let (end, begin) = (plan.seconds, Instant::now());
    while observer.healed.is_none() && begin.elapsed().as_secs_f64() < timeout {
        context.fail_if_stopped()?;
        std::thread::sleep(LOOK_INTERVAL);
        observer.observe(&cluster, end + begin.elapsed().as_secs_f64())?;
    }
    Ok(StoryResults {
        story,
        run,
        observations: observer.observations,
        healing_began: observer.healing_began,
        healed: observer.healed,
    })
}

/// Looks at the nodes while a story happens.
struct Observer {
    story: Story,
    comparison: StoreComparison,
    observations: Vec<Observation>,
    bytes: GrowingSum,
    cpu: GrowingSum,
    healing_began: Option<f64>,
    healed: Option<f64>,
}

impl Observer {
    fn new(story: Story, cluster: &LabCluster, keys: u64) -> Result<Self, Error> {
        let mut observer = Self {
            story,
            comparison: StoreComparison::new(cluster, keys)?,
            observations: Vec::new(),
            bytes: GrowingSum::default(),
            cpu: GrowingSum::default(),
            healing_began: None,
            healed: None,
        };
        observer.read(cluster);
        // What came before the story does not count.
        observer.bytes.reset();
        observer.cpu.reset();
        Ok(observer)
    }

    /// Reads the counters of all nodes that answer.
    fn read(&mut self, cluster: &LabCluster) {
        for (index, node) in cluster.nodes.iter().enumerate() {
            if let Ok(metrics) = node.metrics() {
                let bytes = metrics.sum("kvorum_repair_bytes_total", "");
                self.bytes.add(index, bytes);
            }
            self.cpu.add(index, node.usage().cpu_seconds);
        }
    }

    fn observe(&mut self, cluster: &LabCluster, at_seconds: f64) -> Result<(), Error> {
        self.read(cluster);
        self.observations.push(Observation {
            at_seconds,
            differing_keys: self.comparison.differing_keys(),
            repair_bytes: self.bytes.total(),
            cpu_seconds: self.cpu.total(),
        });
        let is_healing = self.healing_began.is_some() && self.healed.is_none();
        // A node that has just been started may not answer yet.
        if is_healing && self.comparison.check() && self.story.is_over(cluster).unwrap_or(false) {
            self.healed = Some(at_seconds);
        }
        Ok(())
    }
}
