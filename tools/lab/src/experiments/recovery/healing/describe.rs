//! What the page says about the stories.

use super::story::Story;
use super::{HealingResults, Observation, SHARE, StoryResults};
use crate::page::{MarkdownTable, Page, text};
use crate::statistics;
use load::Run;
use load::report::plot::{self, Axis, Lines, Series};
use load::report::units::{self, Unit};
use load::results::Second;

/// A node notices within this time that another is gone or back. What fails later must not.
const NOTICED_SECONDS: f64 = 1.5;

/// What the page says of a story in figures.
#[derive(Clone, Debug, Default, PartialEq)]
struct Figures {
    failed: u64,
    /// Failed later than in the second after an event.
    failed_later: u64,
    p99_before_ms: Option<f64>,
    p99_healing_ms: Option<f64>,
    /// Requests per second.
    rate_before: Option<f64>,
    rate_healing: Option<f64>,
    /// From the begin of the healing until all stores were equal.
    healing_seconds: Option<f64>,
    sweep_bytes: f64,
    /// CPU time of all nodes while they healed, beyond what the load took before.
    cpu_seconds_more: Option<f64>,
}

pub(super) fn describe(page: &mut Page, results: &HealingResults) {
    page.section("Measured");
    page.paragraph(&format!(
        "{} keys. The three nodes break at {}; the load is {} of that.",
        units::count(results.keys),
        units::rate(results.breaking_point),
        text::percent(SHARE)
    ));
    for results in &results.stories {
        describe_story(page, results);
    }
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
    let told: Vec<(Story, Figures)> = results
        .stories
        .iter()
        .filter_map(|story| Some((story.story, figures(story, story.run.as_ref().ok()?))))
        .collect();
    for (story, figures) in &told {
        table.row([
            story.title().to_owned(),
            units::count(figures.failed),
            units::count(figures.failed_later),
            text::latency(figures.p99_before_ms),
            text::latency(figures.p99_healing_ms),
            text::rate(figures.rate_before),
            text::rate(figures.rate_healing),
            units::seconds(figures.healing_seconds.unwrap_or(f64::NAN)),
            units::bytes(figures.sweep_bytes),
            units::seconds(figures.cpu_seconds_more.unwrap_or(f64::NAN)),
        ]);
    }
    page.section("What it shows");
    page.list(
        told.iter()
            .flat_map(|(story, figures)| findings(*story, figures)),
    );
    page.table(&table);
    page.paragraph("The studies have no such figures.");
    page.data("run", results);
}

fn describe_story(page: &mut Page, results: &StoryResults) {
    let story = results.story;
    page.subsection(story.title());
    let run = match &results.run {
        Ok(run) => run,
        Err(problem) => {
            page.paragraph(&format!("Not measured: {problem}."));
            return;
        }
    };
    let failed = run.failures();
    page.paragraph(&format!(
        "{} requested, {} achieved over {}; {} of {} requests failed.",
        text::requested(run),
        units::rate(run.achieved()),
        units::seconds(run.measured_seconds),
        units::count(failed),
        units::count(failed + run.succeeded)
    ));
    if let Some(reason) = &run.cut_short {
        page.paragraph(&format!("The run was cut short: {reason}."));
    }
    let file = story.file();
    let figures = [
        ("latency", "latency over time", plot::timeline(&[run])),
        ("throughput", "requests over time", plot::throughput(&[run])),
        ("keys", "keys that differ", keys(results, run)),
        ("bytes", "bytes of repairs", bytes(results, run)),
    ];
    for (what, caption, svg) in figures {
        let caption = format!("{}: {caption}", story.title());
        page.figure(&format!("{file}-{what}"), &caption, svg);
    }
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
        let bytes = pair[1].sweep_bytes - pair[0].sweep_bytes;
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

fn figures(results: &StoryResults, run: &Run) -> Figures {
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
    let looks = &results.observations;
    let healing_seconds = match (results.healing_began, results.healed) {
        (Some(began), Some(healed)) => Some(healed - began),
        _ => None,
    };
    Figures {
        failed: run.failures(),
        failed_later: later.map(|second| second.failed).sum(),
        p99_before_ms: statistics::median(before.iter().map(|second| second.p99_ms)),
        p99_healing_ms: statistics::median(healing.iter().map(|second| second.p99_ms)),
        rate_before: mean_rate(&before),
        rate_healing: mean_rate(&healing),
        healing_seconds,
        sweep_bytes: looks.last().map_or(0.0, |look| look.sweep_bytes),
        cpu_seconds_more: cpu_seconds_more(results, first),
    }
}

fn mean_rate(seconds: &[&Second]) -> Option<f64> {
    let succeeded: u64 = seconds.iter().map(|second| second.succeeded).sum();
    (!seconds.is_empty()).then(|| succeeded as f64 / seconds.len() as f64)
}

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

fn findings(story: Story, figures: &Figures) -> Vec<String> {
    let title = story.title();
    let mut found = vec![match figures.failed_later {
        0 => format!("{title}: no request failed after the first second."),
        failed => format!(
            "{title}: {} requests failed after the first second.",
            units::count(failed)
        ),
    }];
    let what = match story {
        Story::LongAbsence => "all three stores were equal",
        Story::LostDisk => "all three stores were equal and the lost one counted again",
        Story::FullSweep => "everything had been compared",
    };
    found.push(match figures.healing_seconds {
        Some(seconds) => format!(
            "{title}: {what} after {}, for {} of repairs between the nodes.",
            units::seconds(seconds),
            units::bytes(figures.sweep_bytes)
        ),
        None => format!("{title}: it was not over when the experiment ended."),
    });
    let latency = statistics::ratio(figures.p99_healing_ms, figures.p99_before_ms);
    let rate = statistics::ratio(figures.rate_healing, figures.rate_before);
    if let (Some(latency), Some(rate)) = (latency, rate) {
        found.push(format!(
            "{title}: meanwhile p99 was {} times that before, and throughput {} of it.",
            text::ratio(latency),
            text::percent(rate)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, marks, page_text, run, timeline};

    /// Killed after the second second, back after the fourth, equal after the seventh.
    fn results() -> HealingResults {
        let mut run = run(100.0, 800, 5.0);
        run.timeline = timeline(&[2.0, 2.0, 9.0, 2.0, 3.0, 3.0, 3.0, 2.0]);
        run.timeline[2].failed = 7;
        run.marks = marks([(2.0, "killed"), (4.0, "back")]);
        let look = |second: u32| Observation {
            at_seconds: f64::from(second),
            differing_keys: (second != 3).then_some(f64::from(7 - second.min(7))),
            sweep_bytes: f64::from(second.saturating_sub(4).min(3) << 20),
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
        let results = results();
        let story = &results.stories[0];
        let figures = figures(story, story.run.as_ref().unwrap());
        assert_eq!(
            figures.failed_later, 0,
            "the third second is the first after"
        );
        assert_eq!(figures.healing_seconds, Some(3.0));
        assert_eq!(figures.sweep_bytes, f64::from(3 << 20));
        assert!((figures.cpu_seconds_more.unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(figures.p99_healing_ms, Some(3.0));
        assert_contains(
            &page_text(|page| describe(page, &results)),
            &[
                "### A long absence",
                "absence-keys.svg",
                "A long absence: no request failed after the first second.",
                "all three stores were equal after 3 s, for 3.00 MiB of repairs",
                "p99 was 1.50 times that before, and throughput 100% of it",
            ],
        );
    }

    #[test]
    fn what_failed_or_did_not_end_is_said() {
        let mut results = results();
        let story = &mut results.stories[0];
        if let Ok(run) = &mut story.run {
            run.timeline[3].failed = 2;
        }
        story.healed = None;
        assert_contains(
            &page_text(|page| describe(page, &results)),
            &[
                "A long absence: 2 requests failed after the first second.",
                "it was not over when the experiment ended",
            ],
        );
        results.stories[0].run = Err("cannot connect".to_owned());
        assert_contains(
            &page_text(|page| describe(page, &results)),
            &["Not measured: cannot connect."],
        );
    }
}
