//! Writes while memtables are flushed and tables merged.

use crate::context::ExperimentContext;
use crate::measure::{self, Measured};
use crate::nodes::{ClusterLayout, LabCluster, MetricsSnapshot};
use crate::page::{MarkdownTable, Page, text};
use crate::profile::{self, FoldedProfile, ProfileKind};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, statistics};
use load::Run;
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::report::{plot, units};
use serde::Serialize;

/// The study's p99 of `PUT` while a memtable was flushed in its way, in milliseconds.
const STUDY_BLOCKING_MS: f64 = 1_000.0;
/// The same once the flush had a thread of its own.
const STUDY_BESIDE_MS: f64 = 3.0;

/// What is asked, as a share of what a closed loop reached.
const SHARE: f64 = 0.4;
/// The most that is asked, in requests a second: more would not fit into one
/// memtable of the node that is not to flush.
const RATE_MAX: f64 = 5_000.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "flush",
    title: "Writes through flush and compaction",
    question: "Do clients feel it when a memtable is written to a table, or tables are merged?",
    method: &[
        "`PUT` of 1 KiB values with new keys at a constant rate over 64 connections, two fifths of \
         what a closed loop reached and at most 5,000 a second, on two nodes with \
         `--durability os` one after the other. One has memtables of 16 MiB, and compaction on. \
         The other has memtables so large that nothing is flushed during the run.",
        "Latency counts from when a request was due. The nodes are asked once a second how \
         many flushes and compactions it has finished, which the marks in the plots show. The \
         seconds in which it finished one are told apart from those in which it finished none.",
    ],
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
    // A new segment of the log is filled with zeros first, a large one longer.
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
        // So many that none comes twice in a run.
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
        // Counts are whole.
        flushes: before.growth(&begin, FLUSHES) as u64,
        compactions: before.growth(&begin, COMPACTIONS) as u64,
        is_disturbed,
    })
}

const FLUSHES: &str = "kvorum_store_flushes_total";
const COMPACTIONS: &str = "kvorum_store_compactions_total";

/// What has ended between two looks.
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

    /// The median of the seconds' p99, of the disturbed seconds or the others.
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
        "asked",
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
                text::asked(run),
                units::rate(run.achieved()),
                units::count(case.flushes),
                units::count(case.compactions),
            ]);
            row.extend([50.0, 99.0, 99.9, 100.0].map(|p| text::latency(case.percentile_ms(p))));
        }
        table.row(row);
    }
    page.table(&table);
    sections::troubles(page, cases.map(|(name, case)| (name.to_owned(), &case.run)));
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

    page.section("Where it goes");
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
            what: "PUT's p99 with flushes in its way, over that with none in its way".to_owned(),
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
            "The median of the p99 of a second is {} where a flush or a compaction ended in it \
             and {} where none did: {} times as much.",
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
            "Over the whole run p99 is {} times that of the node that flushes nothing. {}",
            text::ratio(times),
            if times < 2.0 {
                "A full memtable is frozen and the next one takes the writes; flush and \
                 compaction go in steps of about a millisecond and rest between them."
            } else {
                "So flush and compaction are felt: they share the cores and the disk with the \
                 writes."
            }
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{holds, run, timeline, told};

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
    fn disturbed_seconds_are_told_from_the_others() {
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
        holds(
            &told(|page| describe(page, &calm, &busy, &[])),
            &[
                "3 flushes and 1 compactions ended",
                "is 8.00 ms where a flush or a compaction ended in it and 2.00 ms where none did: \
                 4.00 times as much.",
                "p99 is 1.50 times that of the node that flushes nothing. A full memtable",
                "3.00 ms / 2.00 ms",
            ],
        );
        let stalled = case(200.0, &[(200.0, true)]);
        holds(
            &told(|page| describe(page, &calm, &stalled, &[])),
            &["p99 is 100 times that of the node that flushes nothing. So flush and compaction"],
        );
    }

    #[test]
    fn a_compaction_hides_the_flush_of_the_same_second() {
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
