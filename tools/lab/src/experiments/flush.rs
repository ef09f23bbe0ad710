//! The latency of writes during flushes and compactions.

use crate::context::ExperimentContext;
use crate::measure::{self, Measured};
use crate::nodes::{ClusterLayout, LabCluster, MetricsSnapshot};
use crate::page::{MarkdownTable, Page, text};
use crate::profile::{self, FoldedProfile, ProfileKind};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, PageText, statistics};
use load::Run;
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::report::{plot, units};
use serde::Serialize;

/// The study's p99 of `PUT` while a flush blocked writes, in milliseconds.
const STUDY_BLOCKING_MS: f64 = 1_000.0;
/// The study's p99 after the flush got a thread of its own.
const STUDY_BESIDE_MS: f64 = 3.0;

/// The requested rate, as a share of the closed loop.
const SHARE: f64 = 0.4;
/// The greatest requested rate, in requests per second: more would not fit into
/// the memtable of the node that must not flush.
const RATE_MAX: f64 = 5_000.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "Writes through flush and compaction",
        method: &[
            "`PUT` of 1 KiB values with new keys at a constant rate over 64 connections, on two nodes \
         with `--durability os`, one after the other. The rate is two fifths of what a closed loop \
         reached, but at most 5,000 per second. One node has memtables of 16 MiB, and compaction \
         on. The memtables of the other node are so large that nothing is flushed during the run.",
            "Latency counts from when a request was due. Each second the experiment reads how many \
         flushes and compactions the node has finished; the marks in the plots show them. The \
         seconds in which one finished are compared with the others.",
        ],
    },
    name: "flush",
    question: "Do flushes and compactions increase the latency of writes?",
    run,
};

/// A run with its flushes and compactions.
#[derive(Debug, Serialize)]
struct FlushCase {
    run: Measured<Run>,
    flushes: u64,
    compactions: u64,
    /// For each second of the run, whether a flush or a compaction ended in it.
    is_disturbed: Vec<bool>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let busy = cluster(context, "16MiB")?;
    let mut plan = plan(context, &busy);
    let saturated = measure::run(context, &busy, &plan)?.map_err(Error::Load)?;
    let rate = (saturated.rate() * SHARE).min(RATE_MAX);
    plan.rate = Rate::PerSecond(rate.max(1.0));
    // A new segment of the log is filled with zeros first, which takes longer
    // for a large one.
    plan.warmup_seconds = context.effort().pick(0.2, 8.0, 8.0);
    plan.seconds = context.effort().pick(2.0, 40.0, 120.0);
    let disturbed = watched(context, &busy, &plan)?;
    let mut profiles = Vec::new();
    for kind in [ProfileKind::Cpu, ProfileKind::Lock] {
        let mut plan = plan.clone();
        plan.warmup_seconds = 0.0;
        let profile = profile::under_load(context, &busy.nodes[0], &plan, kind)?;
        profiles.push((kind, profile));
    }
    drop(busy);

    let calm = cluster(context, context.effort().pick("64MiB", "512MiB", "1GiB"))?;
    plan.targets = calm.targets();
    let undisturbed = watched(context, &calm, &plan)?;
    describe(page, &undisturbed, &disturbed, &profiles);
    Ok(())
}

fn cluster(context: &ExperimentContext<'_>, memtable: &str) -> Result<LabCluster, Error> {
    let options = ["--durability", "os", "--memtable-bytes", memtable];
    LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "6GiB",
            options: &options,
        },
    )
}

fn plan(context: &ExperimentContext<'_>, cluster: &LabCluster) -> Plan {
    Plan {
        // So many keys that hardly any occurs twice in a run.
        keys: 100_000_000,
        key_choice: KeyChoice::Uniform,
        value_bytes: SizeDistribution::Fixed(1024),
        rate: Rate::Max,
        ..measure::plan(context, cluster, Operation::Put)
    }
}

fn watched(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
) -> Result<FlushCase, Error> {
    context.log(&format!("PUT for {} s", plan.seconds));
    let node = &cluster.nodes[0];
    let begin = node.metrics()?;
    let mut before = begin.clone();
    let mut is_disturbed = Vec::new();
    let run = measure::run_with(context, plan, |_| {
        let now = node.metrics()?;
        let ended = ended(&before, &now);
        before = now;
        is_disturbed.push(ended.is_some());
        Ok(ended.map(str::to_owned))
    })?;
    Ok(FlushCase {
        run,
        // The counters are whole numbers.
        flushes: before.growth(&begin, FLUSHES) as u64,
        compactions: before.growth(&begin, COMPACTIONS) as u64,
        is_disturbed,
    })
}

const FLUSHES: &str = "kvorum_store_flushes_total";
const COMPACTIONS: &str = "kvorum_store_compactions_total";

/// What has ended between two snapshots.
fn ended(before: &MetricsSnapshot, now: &MetricsSnapshot) -> Option<&'static str> {
    let flushed = now.growth(before, FLUSHES) > 0.0;
    let compacted = now.growth(before, COMPACTIONS) > 0.0;
    match (flushed, compacted) {
        (_, true) => Some("compaction"),
        (true, false) => Some("flush"),
        (false, false) => None,
    }
}

impl FlushCase {
    fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        self.run.as_ref().ok()?.latency.percentile_ms(percentile)
    }

    /// The median of the p99 per second, over the disturbed seconds or over the
    /// others.
    fn median_p99_ms(&self, disturbed: bool) -> Option<f64> {
        let seconds = &self.run.as_ref().ok()?.timeline;
        let chosen = seconds
            .iter()
            .zip(&self.is_disturbed)
            .filter(|(_, is)| **is == disturbed);
        statistics::median(chosen.map(|(second, _)| second.p99_ms))
    }
}

fn describe(
    page: &mut Page,
    undisturbed: &FlushCase,
    disturbed: &FlushCase,
    profiles: &[(ProfileKind, Measured<FoldedProfile>)],
) {
    let cases = [("no flush", undisturbed), ("flushes", disturbed)];
    page.section("Measured");
    let mut table = MarkdownTable::new([
        "node",
        "requested",
        "achieved",
        "flushes",
        "compactions",
        "p50",
        "p99",
        "p99.9",
        "max",
    ]);
    for (name, case) in cases {
        let mut row = vec![name.to_owned()];
        if let Ok(run) = &case.run {
            row.extend([
                text::requested(run),
                units::rate(run.achieved()),
                units::count(case.flushes),
                units::count(case.compactions),
            ]);
            row.extend([50.0, 99.0, 99.9, 100.0].map(|p| text::latency(case.percentile_ms(p))));
        }
        table.row(row);
    }
    page.table(&table);
    sections::failed_measurements(page, cases.map(|(name, case)| (name.to_owned(), &case.run)));
    for (file, (name, case)) in ["calm", "busy"].into_iter().zip(cases) {
        if let Ok(run) = &case.run {
            let caption = format!("Latency over time, {name}");
            page.figure(file, &caption, plot::timeline(&[run]));
        }
    }
    let runs: Vec<Run> = cases
        .into_iter()
        .filter_map(|(name, case)| {
            let run = case.run.as_ref().ok()?.clone();
            Some(Run {
                label: name.to_owned(),
                ..run
            })
        })
        .collect();
    let curves = plot::percentiles(&runs.iter().collect::<Vec<_>>());
    page.figure("latency", "Latency by percentile", curves);

    page.section("Where the time goes");
    for (kind, profile) in profiles {
        let title = format!("PUT through flushes: {}", kind.title());
        sections::profile(page, &format!("put-{}", kind.name()), &title, profile);
    }

    page.section("What it shows");
    page.list(findings(undisturbed, disturbed));
    let (busy, calm) = (
        disturbed.percentile_ms(99.0),
        undisturbed.percentile_ms(99.0),
    );
    sections::compare_with_study(
        page,
        &[StudyComparison {
            what: "p99 of PUT with flushes, over p99 without flushes".to_owned(),
            study: format!(
                "{} / {}",
                units::latency(STUDY_BLOCKING_MS),
                units::latency(STUDY_BESIDE_MS)
            ),
            study_ratio: STUDY_BLOCKING_MS / STUDY_BESIDE_MS,
            ours: format!("{} / {}", text::latency(busy), text::latency(calm)),
            our_ratio: statistics::ratio(busy, calm),
            better: Better::Smaller,
        }],
    );
    page.data("runs", &[undisturbed, disturbed]);
}

fn findings(undisturbed: &FlushCase, disturbed: &FlushCase) -> Vec<String> {
    let mut found = vec![format!(
        "{} flushes and {} compactions ended during the run of the node with small memtables.",
        disturbed.flushes, disturbed.compactions
    )];
    let (with, without) = (
        disturbed.median_p99_ms(true),
        disturbed.median_p99_ms(false),
    );
    if let Some(times) = statistics::ratio(with, without) {
        found.push(format!(
            "The median of the p99 per second is {} for seconds in which a flush or a compaction \
             ended and {} for the others: {} times as much.",
            text::latency(with),
            text::latency(without),
            text::ratio(times)
        ));
    }
    if let Some(times) = statistics::ratio(
        disturbed.percentile_ms(99.0),
        undisturbed.percentile_ms(99.0),
    ) {
        found.push(format!(
            "Over the whole run, p99 is {} times that of the node without flushes. {}",
            text::ratio(times),
            if times < 2.0 {
                "A full memtable is frozen and a new one takes the writes; flush and compaction \
                 run in steps of about a millisecond, with pauses in between."
            } else {
                "So flush and compaction slow writes down: they share the cores and the disk with \
                 them."
            }
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, page_text, run, timeline};

    fn case(p99_ms: f64, seconds: &[(f64, bool)]) -> FlushCase {
        let p99s: Vec<f64> = seconds.iter().map(|(p99_ms, _)| *p99_ms).collect();
        FlushCase {
            run: Ok(Run {
                timeline: timeline(&p99s),
                ..run(1_000.0, 990, p99_ms)
            }),
            flushes: 3,
            compactions: 1,
            is_disturbed: seconds.iter().map(|(_, is)| *is).collect(),
        }
    }

    #[test]
    fn disturbed_seconds_are_compared_with_the_others() {
        let calm = case(2.0, &[(2.0, false); 3]);
        let busy = case(
            3.0,
            &[
                (2.0, false),
                (6.0, true),
                (2.0, false),
                (8.0, true),
                (9.0, true),
            ],
        );
        assert_contains(
            &page_text(|page| describe(page, &calm, &busy, &[])),
            &[
                "3 flushes and 1 compactions ended",
                "is 8.00 ms for seconds in which a flush or a compaction ended and 2.00 ms for the \
                 others: 4.00 times as much.",
                "p99 is 1.50 times that of the node without flushes. A full memtable",
                "3.00 ms / 2.00 ms",
            ],
        );
        let stalled = case(200.0, &[(200.0, true)]);
        assert_contains(
            &page_text(|page| describe(page, &calm, &stalled, &[])),
            &["p99 is 100 times that of the node without flushes. So flush and compaction"],
        );
    }

    #[test]
    fn a_second_with_both_is_marked_as_compaction() {
        let page = |flushes: u32, compactions: u32| {
            MetricsSnapshot::parse(&format!(
                "{FLUSHES} {flushes}\n{COMPACTIONS} {compactions}\n"
            ))
        };
        for (now, expected) in [
            (page(1, 1), None),
            (page(2, 1), Some("flush")),
            (page(1, 2), Some("compaction")),
            (page(2, 2), Some("compaction")),
        ] {
            assert_eq!(ended(&page(1, 1), &now), expected);
        }
    }
}
