//! Sections and table rows that the pages of several experiments share.

use crate::measure::profile::{FoldedProfile, OperationProfile, PARTS, ProfileKind};
use crate::measure::{Capacity, CostedRun, Measured};
use crate::page::{MarkdownTable, Page, text};
use load::Run;
use load::plan::Operation;
use load::report::{plot, units};
use std::fmt::Display;

/// Whether a greater or a smaller figure is better.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Better {
    Greater,
    Smaller,
}

/// A ratio of the study and the same ratio here. Absolute figures of different
/// machines cannot be compared.
#[derive(Clone, Debug)]
pub(crate) struct StudyComparison {
    /// What the ratio compares.
    pub(crate) what: String,
    /// The figures of the study.
    pub(crate) study: String,
    /// Their ratio.
    pub(crate) study_ratio: f64,
    /// Our figures.
    pub(crate) ours: String,
    /// Their ratio; none if a measurement failed.
    pub(crate) our_ratio: Option<f64>,
    pub(crate) better: Better,
}

/// Ratios that differ by less than this share count as alike, because runs on a
/// noisy machine differ as much.
const ALIKE: f64 = 0.1;

impl StudyComparison {
    /// Our ratio compared with the study's, in a word.
    fn verdict(&self) -> &'static str {
        let Some(ours) = self.our_ratio else {
            return "not measured";
        };
        let (worse, better) = match self.better {
            Better::Greater => (self.study_ratio, ours),
            Better::Smaller => (ours, self.study_ratio),
        };
        if (better - worse).abs() <= ALIKE * self.study_ratio.abs() {
            "alike"
        } else if better > worse {
            "better"
        } else {
            "worse"
        }
    }
}

/// Adds the section that compares our ratios with the study's.
pub(crate) fn compare_with_study(page: &mut Page, rows: &[StudyComparison]) {
    page.section("Compared with the study");
    page.paragraph(
        "The study ran on another machine, so only ratios within one run are compared. Ratios \
         that differ by at most a tenth count as alike.",
    );
    let mut table = MarkdownTable::new([
        "ratio",
        "study",
        "its ratio",
        "here",
        "our ratio",
        "ours is",
    ]);
    for row in rows {
        table.row([
            row.what.clone(),
            row.study.clone(),
            text::ratio(row.study_ratio),
            row.ours.clone(),
            text::ratio(row.our_ratio.unwrap_or(f64::NAN)),
            row.verdict().to_owned(),
        ]);
    }
    page.table(&table);
}

/// What a run has achieved, and whether it was cut short. `requested` is what was asked of it,
/// if it was a rate.
pub(crate) fn achieved_text(requested: Option<&str>, run: &Run) -> String {
    let requested = requested.map(|rate| format!("{rate} requested, "));
    let cut_short = run.cut_short.as_ref();
    format!(
        "{}{} achieved over {}; {} of {} requests failed.{}",
        requested.unwrap_or_default(),
        units::rate(run.achieved()),
        units::seconds(run.measured_seconds),
        units::count(run.failures()),
        units::count(run.failures() + run.succeeded),
        cut_short.map_or_else(String::new, |reason| format!(
            " The run was cut short: {reason}."
        ))
    )
}

/// The breaking point of a capacity; not a number if it was not measured, or no rate held.
pub(crate) fn breaking_point(measured: &Measured<Capacity>) -> f64 {
    let rate = measured
        .as_ref()
        .ok()
        .and_then(|capacity| capacity.search.rate);
    rate.unwrap_or(f64::NAN)
}

/// The CPU time of a request at saturation; not a number if it was not measured.
pub(crate) fn cpu_ms(measured: &Measured<Capacity>) -> f64 {
    let cpu_us = measured
        .as_ref()
        .ok()
        .and_then(|capacity| capacity.saturated.cpu_us);
    cpu_us.map_or(f64::NAN, |cpu_us| cpu_us / 1e3)
}

/// Adds a paragraph with [`achieved_text`].
pub(crate) fn achieved(page: &mut Page, requested: Option<&str>, run: &Run) {
    page.paragraph(&achieved_text(requested, run));
}

/// The HTTP method of an operation.
pub(crate) fn method(operation: Operation) -> &'static str {
    match operation {
        Operation::Put | Operation::Insert | Operation::ReadModifyWrite => "PUT",
        Operation::Get | Operation::GetMissing | Operation::Range => "GET",
        Operation::Delete => "DELETE",
    }
}

/// The heads of the columns with a capacity.
pub(crate) const CAPACITY_HEAD: [&str; 4] = [
    "breaking point",
    "p99 there",
    "closed loop",
    "CPU per request",
];

/// A capacity, for the columns of [`CAPACITY_HEAD`].
pub(crate) fn capacity_cells(measured: &Measured<Capacity>) -> [String; 4] {
    match measured {
        Ok(capacity) => {
            let best = capacity.search.best.as_ref();
            let p99 = best.and_then(|run| run.latency.percentile_ms(99.0));
            [
                match capacity.search.rate {
                    Some(rate) => units::rate(rate),
                    None => "none held".to_owned(),
                },
                text::latency(p99),
                units::rate(capacity.saturated.rate()),
                text::cpu(capacity.saturated.cpu_us),
            ]
        }
        Err(_) => [(); 4].map(|()| units::NONE.to_owned()),
    }
}

/// The head of a table of capacities, with the name of its first column.
pub(crate) fn capacity_table(first: &str) -> MarkdownTable {
    MarkdownTable::new([first].into_iter().chain(CAPACITY_HEAD))
}

/// The row of a capacity.
pub(crate) fn capacity_row(name: &str, measured: &Measured<Capacity>) -> Vec<String> {
    let name = [name.to_owned()].into_iter();
    name.chain(capacity_cells(measured)).collect()
}

/// Keeps the table `measured` of capacities, and lists those that failed.
pub(crate) fn capacities<'a>(
    page: &mut Page,
    first: &str,
    rows: impl Iterator<Item = (String, &'a Measured<Capacity>)> + Clone,
) {
    let mut table = capacity_table(first);
    for (name, measured) in rows.clone() {
        table.row(capacity_row(&name, measured));
    }
    page.keep_table("measured", table);
    failed_measurements(page, rows);
}

/// Keeps a table of loads with their rates and latencies.
pub(crate) fn latencies<'a>(
    page: &mut Page,
    name: &str,
    first: &str,
    rows: impl Iterator<Item = (String, &'a Measured<CostedRun>)>,
) {
    let mut table = MarkdownTable::new([first, "rate"].into_iter().chain(LATENCY_HEAD));
    for (name, load) in rows {
        let rate = load.as_ref().ok().map(CostedRun::rate);
        let head = [name, text::rate(rate)].into_iter();
        table.row(head.chain(latency_cells(load)));
    }
    page.keep_table(name, table);
}

/// The latencies of loads by percentile, as a picture.
pub(crate) fn percentiles<'a>(
    loads: impl IntoIterator<Item = (String, &'a Measured<CostedRun>)>,
) -> String {
    plot::percentiles(&labelled(loads).iter().collect::<Vec<_>>())
}

/// The heads of the columns with a load's latencies.
pub(crate) const LATENCY_HEAD: [&str; 5] = ["mean", "p50", "p99", "p99.9", "max"];

/// A load's latencies, for the columns of [`LATENCY_HEAD`].
pub(crate) fn latency_cells(measured: &Measured<CostedRun>) -> [String; 5] {
    match measured {
        Ok(load) => [
            Some(load.run.latency.mean_ms),
            load.latency_ms(50.0),
            load.latency_ms(99.0),
            load.latency_ms(99.9),
            Some(load.run.latency.max_ms),
        ]
        .map(text::latency),
        Err(_) => [(); 5].map(|()| units::NONE.to_owned()),
    }
}

/// The runs of measured loads, labelled for a plot.
pub(crate) fn labelled<'a>(
    loads: impl IntoIterator<Item = (String, &'a Measured<CostedRun>)>,
) -> Vec<Run> {
    let runs = loads.into_iter().filter_map(|(label, load)| {
        let run = load.as_ref().ok()?.run.clone();
        Some(Run { label, ..run })
    });
    runs.collect()
}

/// Lists measurements that failed, with the reasons.
pub(crate) fn failed_measurements<'a, T: 'a>(
    page: &mut Page,
    measured: impl IntoIterator<Item = (String, &'a Measured<T>)>,
) {
    let found: Vec<String> = measured
        .into_iter()
        .filter_map(|(name, measured)| Some((name, measured.as_ref().err()?)))
        .map(|(name, problem)| trouble(&name, problem))
        .collect();
    if !found.is_empty() {
        page.results.failed.extend(found.iter().cloned());
        page.paragraph("Not measured:");
        page.list(found);
    }
}

fn trouble(name: &str, problem: &impl Display) -> String {
    format!("{name}: {problem}")
}

/// Adds a flame graph and a table: the shares of the store's parts, or for
/// waits the average number of waiters.
pub(crate) fn profile(
    page: &mut Page,
    file: &str,
    title: &str,
    measured: &Measured<FoldedProfile>,
) {
    page.subsection(title);
    let drawn = measured
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|profile| Ok((profile, profile.flame_graph(title)?)));
    let (profile, svg) = match drawn {
        Ok(drawn) => drawn,
        Err(problem) => {
            page.paragraph(&format!("No profile: {problem}."));
            page.results.failed.push(format!("{title}: {problem}"));
            page.keep_table(file, MarkdownTable::new(["part", "share"]));
            return;
        }
    };
    page.figure(file, title, svg);
    if profile.kind() == ProfileKind::Lock {
        let mut table = MarkdownTable::new(["wait", "average waiters"]);
        let waits = profile.waits().into_iter();
        for (name, at_a_time) in waits.take_while(|(_, waiting)| *waiting >= WAITING_MIN) {
            table.row([name, text::ratio(at_a_time)]);
        }
        page.table(&table);
        page.keep_table(file, table);
    } else {
        let mut table = MarkdownTable::new(["part", "share"]);
        let shares = profile.divided(PARTS);
        let named = PARTS.iter().map(|part| part.name).zip(shares);
        let mut rows: Vec<(&str, f64)> = named.filter(|(_, share)| *share >= SHARE_MIN).collect();
        rows.sort_by(|one, other| other.1.total_cmp(&one.1));
        let listed: f64 = rows.iter().map(|(_, share)| share).sum();
        for (name, share) in rows {
            table.row([name.to_owned(), text::percent(share)]);
        }
        table.row(["other".to_owned(), text::percent((1.0 - listed).max(0.0))]);
        page.table(&table);
        page.keep_table(file, table);
    }
}

/// Adds a flame graph and its table for each profile; `where_taken` follows the
/// method in the title.
pub(crate) fn operation_profiles(
    page: &mut Page,
    where_taken: &str,
    profiles: &[OperationProfile],
) {
    for OperationProfile {
        operation,
        kind,
        profile: measured,
    } in profiles
    {
        let method = method(*operation);
        let file = format!("{}-{}", method.to_lowercase(), kind.name());
        let title = format!("{method}{where_taken}: {}", kind.title());
        profile(page, &file, &title, measured);
    }
}

/// The smallest share of a profile at which a part is listed.
const SHARE_MIN: f64 = 0.01;

/// The smallest average number of waiters at which a wait is listed. The flame
/// graph has all.
const WAITING_MIN: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(study_ratio: f64, our_ratio: Option<f64>, better: Better) -> StudyComparison {
        StudyComparison {
            what: "what".to_owned(),
            study: String::new(),
            study_ratio,
            ours: String::new(),
            our_ratio,
            better,
        }
    }

    #[test]
    fn a_verdict_follows_from_the_ratios() {
        for (study, ours, better, verdict) in [
            (0.14, Some(0.40), Better::Greater, "better"),
            (0.14, Some(0.15), Better::Greater, "alike"),
            (0.14, Some(0.05), Better::Greater, "worse"),
            (3.4, Some(1.4), Better::Smaller, "better"),
            (3.4, Some(3.2), Better::Smaller, "alike"),
            (3.4, Some(9.0), Better::Smaller, "worse"),
            (3.4, None, Better::Smaller, "not measured"),
        ] {
            assert_eq!(
                comparison(study, ours, better).verdict(),
                verdict,
                "{ours:?}"
            );
        }
    }

    #[test]
    fn failed_measurements_are_listed() {
        let mut page = Page::new("a", "A");
        let bad: Measured<u8> = Err("the node answered 404".to_owned());
        failed_measurements(
            &mut page,
            [("x".to_owned(), &Ok(1)), ("y".to_owned(), &bad)],
        );
        let text = page.markdown();
        assert!(
            text.contains("Not measured:\n\n- y: the node answered 404\n"),
            "{text}"
        );
        let mut page = Page::new("a", "A");
        failed_measurements(&mut page, [("x".to_owned(), &Ok(1))]);
        assert_eq!(page.markdown(), "# A\n");
    }
}
