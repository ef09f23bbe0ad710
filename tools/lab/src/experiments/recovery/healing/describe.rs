//! The figures of the stories.

use super::{HealingResults, Observation, StoryResults};
use crate::page::{MarkdownTable, Page, text};
use crate::{figures, statistics};
use load::Run;
use load::report::plot::{self, Axis, Lines, Series};
use load::report::units::{self, Unit};
use load::results::Second;

/// A node notices within this time that another is gone or back. What fails later must not.
const NOTICED_SECONDS: f64 = 1.5;

pub(super) fn describe(page: &mut Page, results: &HealingResults) {
    page.keep_value("keys", units::count(results.keys));
    page.keep_value("breaking point", units::rate(results.breaking_point));
    let mut table = MarkdownTable::new([
        "story",
        "failed requests",
        "after the first second",
        "p99 before",
        "p99 while healing",
        "requests before",
        "while healing",
        "until all are equal",
        "bytes of repairs",
        "CPU for it",
    ]);
    for results in &results.stories {
        let title = results.story.title();
        let run = match &results.run {
            Ok(run) => run,
            Err(problem) => {
                page.results.failed.push(format!("{title}: {problem}"));
                continue;
            }
        };
        let achieved = figures::achieved_text(Some(&text::requested(run)), run);
        page.keep_value(format!("{title}: achieved"), achieved);
        for (what, svg) in [
            ("latency", plot::timeline(&[run])),
            ("throughput", plot::throughput(&[run])),
            ("keys", keys(results, run)),
            ("bytes", bytes(results, run)),
        ] {
            page.keep_chart(&format!("{}-{what}", results.story.file()), svg);
        }
        table.row(row(results, run));
    }
    page.keep_table("measured", table);
    page.data("runs", results);
}

fn keys(results: &StoryResults, run: &Run) -> String {
    let looks = results.observations.iter();
    let points = looks.map(|look| (look.at_seconds, look.differing_keys.unwrap_or(f64::NAN)));
    over_time(
        "Keys that differ between the nodes",
        Axis::linear("keys", Unit::Count),
        Series::new("keys that differ", points),
        results,
        run,
    )
}

fn bytes(results: &StoryResults, run: &Run) -> String {
    let pairs = results.observations.windows(2).map(|pair| {
        let seconds = pair[1].at_seconds - pair[0].at_seconds;
        let bytes = pair[1].repair_bytes - pair[0].repair_bytes;
        (pair[1].at_seconds, bytes / seconds.max(0.001))
    });
    over_time(
        "Bytes of repairs between the nodes a second",
        Axis::linear("bytes a second", Unit::Bytes),
        Series::new("bytes a second", pairs),
        results,
        run,
    )
}

fn over_time(title: &str, y: Axis, series: Series, results: &StoryResults, run: &Run) -> String {
    let x = Axis::linear("time since the warm-up", Unit::Seconds);
    let mut lines = Lines::new(title, x, y).with(series);
    for mark in &run.marks {
        lines = lines.mark(mark.at_seconds, mark.label.as_str());
    }
    if let Some(healed) = results.healed {
        lines = lines.mark(healed, "equal");
    }
    lines.draw()
}

fn row(results: &StoryResults, run: &Run) -> [String; 10] {
    let first = run.marks.first().map(|mark| mark.at_seconds);
    let before: Vec<&Second> = run
        .timeline
        .iter()
        .filter(|second| first.is_none_or(|first| second.at_seconds <= first))
        .collect();
    let end = results.healed.unwrap_or(f64::INFINITY);
    let healing: Vec<&Second> = run
        .timeline
        .iter()
        .filter(|second| {
            let at_seconds = second.at_seconds;
            let began = results.healing_began;
            began.is_some_and(|began| at_seconds > began) && at_seconds <= end + 0.5
        })
        .collect();
    let is_noticed = |second: &&Second| {
        let mut marks = run.marks.iter();
        marks.all(|mark| {
            let after = second.at_seconds - mark.at_seconds;
            after <= 0.0 || after >= NOTICED_SECONDS
        })
    };
    let later = run.timeline.iter().filter(is_noticed);
    let p99_ms = |seconds: &[&Second]| {
        statistics::median(seconds.iter().map(|second| second.p99_ms)).unwrap_or(f64::NAN)
    };
    let healing_seconds = results.healed.zip(results.healing_began);
    let last = results.observations.last();
    [
        results.story.title().to_owned(),
        units::count(run.failures()),
        units::count(later.map(|second| second.failed).sum()),
        units::latency(p99_ms(&before)),
        units::latency(p99_ms(&healing)),
        text::rate(mean_rate(&before)),
        text::rate(mean_rate(&healing)),
        units::seconds(healing_seconds.map_or(f64::NAN, |(healed, began)| healed - began)),
        units::bytes(last.map_or(0.0, |look| look.repair_bytes)),
        units::seconds(cpu_seconds_more(results, first).unwrap_or(f64::NAN)),
    ]
}

fn mean_rate(seconds: &[&Second]) -> Option<f64> {
    let succeeded: u64 = seconds.iter().map(|second| second.succeeded).sum();
    (!seconds.is_empty()).then(|| succeeded as f64 / seconds.len() as f64)
}

/// CPU time of all nodes while they healed, beyond what the load took before.
fn cpu_seconds_more(results: &StoryResults, first_event: Option<f64>) -> Option<f64> {
    let look_at = |at_seconds: f64| -> Option<&Observation> {
        let mut looks = results.observations.iter();
        looks.rfind(|look| look.at_seconds <= at_seconds + 0.01)
    };
    let (began, healed) = (results.healing_began?, results.healed?);
    let (begin, before) = (results.observations.first()?, look_at(first_event?)?);
    let a_second = statistics::ratio(
        Some(before.cpu_seconds - begin.cpu_seconds),
        Some(before.at_seconds - begin.at_seconds),
    )?;
    let taken = look_at(healed)?.cpu_seconds - look_at(began)?.cpu_seconds;
    let more = taken - a_second * (healed - began);
    // What the load took varies by more than that.
    (more > 0.0).then_some(more)
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;
    use crate::testing::{marks, run, timeline};

    /// Killed after the second second, back after the fourth, equal after the seventh.
    fn results() -> HealingResults {
        let mut run = run(100.0, 800, 5.0);
        run.timeline = timeline(&[2.0, 2.0, 9.0, 2.0, 3.0, 3.0, 3.0, 2.0]);
        run.timeline[2].failed = 7;
        run.marks = marks([(2.0, "killed"), (4.0, "back")]);
        let look = |second: u32| Observation {
            at_seconds: f64::from(second),
            differing_keys: (second != 3).then_some(f64::from(7 - second.min(7))),
            repair_bytes: f64::from(second.saturating_sub(4).min(3) << 20),
            // Twice as much while it heals.
            cpu_seconds: f64::from(second + second.saturating_sub(4).min(3)) / 10.0,
        };
        HealingResults {
            keys: 1_000,
            breaking_point: 200.0,
            stories: vec![StoryResults {
                story: Story::LongAbsence,
                run: Ok(run),
                observations: (1..=8).map(look).collect(),
                healing_began: Some(4.0),
                healed: Some(7.0),
            }],
        }
    }

    #[test]
    fn a_story_is_told_in_figures() {
        let mut results = results();
        let mut page = Page::new("test");
        describe(&mut page, &results);
        let table = &page.results.tables["measured"];
        for (column, expected) in [
            ("failed requests", "0"),
            // The third second is the first after an event.
            ("after the first second", "0"),
            ("p99 before", "2.00 ms"),
            ("p99 while healing", "3.00 ms"),
            ("until all are equal", "3 s"),
            ("bytes of repairs", "3.00 MiB"),
            ("CPU for it", "0.3 s"),
        ] {
            assert_eq!(
                table.cell("A long absence", column),
                Some(expected),
                "{column}"
            );
        }
        results.stories[0].run = Err("cannot connect".to_owned());
        describe(&mut page, &results);
        assert_eq!(page.results.failed, ["A long absence: cannot connect"]);
    }
}
