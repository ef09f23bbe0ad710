//! Tables and charts that several experiments share.

use crate::measure::Measured;
use crate::measure::matrix::Done;
use crate::measure::profile::{FoldedProfile, PARTS, ProfileKind};
use crate::page::{MarkdownTable, Page, text};
use load::Run;
use load::plan::Operation;
use load::report::plot::{self, Axis, Bars, Lines, Series, Style};
use load::report::units;

/// A column of a table of cases: its head, and a cell.
pub(crate) type Column = (&'static str, fn(&Done) -> String);

/// The capacity of nodes.
pub(crate) const CAPACITY: &[Column] = &[
    ("breaking point", |done| match &done.search {
        Some(search) if search.rate.is_none() => "none held".to_owned(),
        _ => units::rate(done.breaking_point()),
    }),
    ("p99 there", |done| {
        let best = done.search.as_ref().and_then(|search| search.best.as_ref());
        text::latency(best.and_then(|run| run.latency.percentile_ms(99.0)))
    }),
    ("closed loop", |done| units::rate(done.rate())),
    CPU,
];

/// The CPU time of a request.
pub(crate) const CPU: Column = ("CPU per request", |done| {
    text::cpu(Some(done.cpu_ms() * 1e3).filter(|cpu_us| cpu_us.is_finite()))
});

/// What was requested and achieved.
pub(crate) const RATES: &[Column] = &[
    REQUESTED,
    ("achieved", |done| units::rate(done.rate())),
    ("refused", |done| units::count(done.failed("503"))),
    CPU,
];

/// The rate that was requested.
pub(crate) const REQUESTED: Column = ("requested", |done| {
    let first = done.first().map(|round| &round.load.run);
    first.map_or(units::NONE.to_owned(), text::requested)
});

/// What was achieved.
pub(crate) const RATE: Column = ("rate", |done| units::rate(done.rate()));

/// Latencies.
pub(crate) const P50: Column = ("p50", |done| units::latency(done.latency_ms(50.0)));
pub(crate) const P99: Column = ("p99", |done| units::latency(done.latency_ms(99.0)));
pub(crate) const LATENCIES: &[Column] = &[
    ("mean", |done| {
        units::latency(done.median(|round| Some(round.load.run.latency.mean_ms)))
    }),
    P50,
    P99,
    ("p99.9", |done| units::latency(done.latency_ms(99.9))),
    ("max", |done| {
        units::latency(done.median(|round| Some(round.load.run.latency.max_ms)))
    }),
];

/// Keeps a table with a row for each case, below the heads of its names and of these columns,
/// and what could not be measured.
pub(crate) fn table<'a>(
    page: &mut Page,
    name: &str,
    first: &[&str],
    columns: &[&[Column]],
    rows: impl IntoIterator<Item = &'a Done>,
) {
    let table = table_of(page, name, first, columns, rows);
    page.keep_table(name, table);
}

/// The same without keeping the table.
pub(crate) fn table_of<'a>(
    page: &mut Page,
    name: &str,
    first: &[&str],
    columns: &[&[Column]],
    rows: impl IntoIterator<Item = &'a Done>,
) -> MarkdownTable {
    let columns: Vec<Column> = columns.concat();
    let heads = columns.iter().map(|(head, _)| *head);
    let mut table = MarkdownTable::new(first.iter().copied().chain(heads));
    for done in rows {
        let cells = columns.iter().map(|(_, cell)| cell(done));
        table.row(done.names.iter().cloned().chain(cells));
        let named = (format!("{name}, {}", done.name()), &done.rounds);
        failed_measurements(page, [named]);
    }
    table
}

/// Keeps a chart with a bar for each case, by the groups and the series that they belong to.
pub(crate) fn bars<'a>(
    page: &mut Page,
    file: &str,
    title: &str,
    axis: Axis,
    rows: impl IntoIterator<Item = &'a Done>,
    value: fn(&Done) -> f64,
) {
    let rows: Vec<&Done> = rows.into_iter().collect();
    let groups = in_order(rows.iter().map(|done| &*done.at.1));
    let mut bars = Bars::new(title, groups.iter().map(|group| (*group).to_owned()), axis);
    for series in series(rows.iter().copied()) {
        let values = groups.iter().map(|group| {
            let at = |done: &&&Done| (&*done.at.0, &*done.at.1) == (series, *group);
            rows.iter().find(at).map_or(f64::NAN, |done| value(done))
        });
        bars = bars.with(series, values);
    }
    page.keep_chart(file, bars.draw());
}

/// A chart with a line for each series of cases, over the numbers of their groups.
pub(crate) fn lines<'a>(
    title: &str,
    axes: (Axis, Axis),
    rows: impl IntoIterator<Item = &'a Done>,
    value: fn(&Done) -> f64,
) -> String {
    let rows: Vec<&Done> = rows.into_iter().collect();
    let mut lines = Lines::new(title, axes.0, axes.1);
    for series in series(rows.iter().copied()) {
        let of_series = rows.iter().filter(|done| done.at.0 == series);
        let points = of_series.filter_map(|done| Some((done.at.1.parse().ok()?, value(done))));
        let points = points.filter(|(_, value): &(f64, f64)| value.is_finite());
        lines = lines.with(Series::new(series, points).style(Style::Dotted));
    }
    lines.draw()
}

/// The series of these cases.
pub(crate) fn series<'a>(rows: impl Iterator<Item = &'a Done>) -> Vec<&'a str> {
    in_order(rows.map(|done| &*done.at.0))
}

/// Each of these once, in the order in which they come first.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The latencies of cases by percentile, as a picture.
pub(crate) fn percentiles<'a>(rows: impl IntoIterator<Item = &'a Done>) -> String {
    let labelled = |done: &Done| {
        let run = done.first()?.load.run.clone();
        let label = done.name();
        Some(Run { label, ..run })
    };
    let runs: Vec<Run> = rows.into_iter().filter_map(labelled).collect();
    plot::percentiles(&runs.iter().collect::<Vec<_>>())
}

/// Keeps the pictures and the tables of all profiles.
pub(crate) fn profiles<'a>(page: &mut Page, rows: impl IntoIterator<Item = &'a Done>) {
    for done in rows {
        if let (Some(measured), [file, title]) = (&done.profile, &*done.names) {
            profile(page, file, title, measured);
        }
    }
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

/// The HTTP method of an operation.
pub(crate) fn method(operation: Operation) -> &'static str {
    match operation {
        Operation::Put
        | Operation::Insert
        | Operation::ReadModifyWrite
        | Operation::CompareAndSet => "PUT",
        Operation::Get | Operation::GetMissing | Operation::Scan => "GET",
        Operation::Delete => "DELETE",
    }
}

/// Keeps measurements that failed, with the reasons.
pub(crate) fn failed_measurements<'a, T: 'a>(
    page: &mut Page,
    measured: impl IntoIterator<Item = (String, &'a Measured<T>)>,
) {
    for (name, measured) in measured {
        if let Err(problem) = measured {
            page.results.failed.push(format!("{name}: {problem}"));
        }
    }
}

/// Keeps a flame graph and a table: the shares of the store's parts, or for
/// waits the average number of waiters.
pub(crate) fn profile(
    page: &mut Page,
    file: &str,
    title: &str,
    measured: &Measured<FoldedProfile>,
) {
    let drawn = measured
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|profile| Ok((profile, profile.flame_graph(title)?)));
    let (profile, svg) = match drawn {
        Ok(drawn) => drawn,
        Err(problem) => {
            page.results.failed.push(format!("{title}: {problem}"));
            page.keep_table(file, MarkdownTable::new(["part", "share"]));
            return;
        }
    };
    page.keep_chart(file, svg);
    let mut table;
    if profile.kind() == ProfileKind::Wait {
        table = MarkdownTable::new(["wait", "average waiters"]);
        let waits = profile.waits().into_iter();
        for (name, at_a_time) in waits.take_while(|(_, waiting)| *waiting >= WAITING_MIN) {
            table.row([name, text::ratio(at_a_time)]);
        }
    } else {
        table = MarkdownTable::new(["part", "share"]);
        let shares = profile.divided(PARTS);
        let named = PARTS.iter().map(|part| part.name).zip(shares);
        let mut rows: Vec<(&str, f64)> = named.filter(|(_, share)| *share >= SHARE_MIN).collect();
        rows.sort_by(|one, other| other.1.total_cmp(&one.1));
        let listed: f64 = rows.iter().map(|(_, share)| share).sum();
        for (name, share) in rows {
            table.row([name.to_owned(), text::percent(share)]);
        }
        table.row(["other".to_owned(), text::percent((1.0 - listed).max(0.0))]);
    }
    page.keep_table(file, table);
}

/// The smallest share of a profile at which a part is listed.
const SHARE_MIN: f64 = 0.01;

/// The smallest average number of waiters at which a wait is listed. The flame
/// graph has all.
const WAITING_MIN: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::done;

    #[test]
    fn a_table_has_a_row_for_each_case_and_names_those_that_failed() {
        let mut rows = [done("PUT", "1", 1000), done("PUT", "2", 2000)];
        rows[1].rounds = Err("the node answered 404".to_owned());
        let mut page = Page::new("test");
        let table = table_of(&mut page, "measured", &["load"], &[&[RATE, P99]], &rows);
        assert_eq!(table.cell("PUT 1", "rate"), Some("1,000/s"));
        assert_eq!(table.cell("PUT 2", "p99"), Some(units::NONE));
        assert_eq!(
            page.results.failed,
            ["measured, PUT 2: the node answered 404"]
        );
    }

    #[test]
    fn a_profile_that_failed_is_named() {
        let mut page = Page::new("test");
        profile(&mut page, "cpu", "PUT: CPU time", &Err("none".to_owned()));
        assert_eq!(page.results.failed, ["PUT: CPU time: none"]);
        let folded = "runtime;hyper::read 1\nruntime;x 1";
        let measured = FoldedProfile::parse(ProfileKind::Cpu, 1.0, folded);
        profile(&mut page, "cpu", "PUT: CPU time", &measured);
        assert_eq!(
            page.results.tables["cpu"].cell("HTTP", "share"),
            Some("50%")
        );
    }
}
