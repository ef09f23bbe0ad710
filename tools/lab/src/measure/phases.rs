//! A run in parts, between the things that happen during it.

use crate::statistics;
use load::Run;
use load::results::Second;

/// The part of a run between two events.
pub(crate) struct Phase<'a> {
    pub(crate) name: &'a str,
    pub(crate) seconds: &'a [Second],
}

/// The phases of a run, by its marks; the first one has this name.
pub(crate) fn phases<'a>(run: &'a Run, first: &'a str) -> Vec<Phase<'a>> {
    let index = |at_seconds: f64| {
        let seconds = &run.timeline;
        seconds.partition_point(|second| second.at_seconds <= at_seconds)
    };
    let begins = std::iter::once((0, first)).chain(
        run.marks
            .iter()
            .map(|mark| (index(mark.at_seconds), mark.label.as_str())),
    );
    let begins: Vec<(usize, &str)> = begins.collect();
    let ends = begins.iter().skip(1).map(|(begin, _)| *begin);
    let ends = ends.chain([run.timeline.len()]);
    begins
        .iter()
        .zip(ends)
        .map(|((begin, name), end)| Phase {
            name,
            seconds: run.timeline.get(*begin..end).unwrap_or_default(),
        })
        .collect()
}

impl Phase<'_> {
    pub(crate) fn failed(&self) -> u64 {
        self.seconds.iter().map(|second| second.failed).sum()
    }

    pub(crate) fn max_ms(&self) -> Option<f64> {
        self.seconds
            .iter()
            .map(|second| second.max_ms)
            .reduce(f64::max)
    }

    /// The median of the p99 per second, without the first second, in which the
    /// nodes notice the event.
    pub(crate) fn p99_ms(&self) -> Option<f64> {
        let later = self.seconds.get(1..).unwrap_or_default();
        statistics::median(later.iter().map(|second| second.p99_ms))
    }

    pub(crate) fn first(&self) -> Option<&Second> {
        self.seconds.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{marks, run, timeline};

    #[test]
    fn a_second_belongs_to_the_event_before_it() {
        let mut run = run(100.0, 800, 5.0);
        run.timeline = timeline(&[2.0, 2.0, 2.0, 50.0, 3.0, 4.0, 400.0, 2.0]);
        run.timeline[3].failed = 7;
        run.marks = marks([(3.0, "killed"), (6.0, "frozen")]);
        let phases = phases(&run, "all nodes up");
        let seen: Vec<(&str, usize, u64)> = phases
            .iter()
            .map(|phase| (phase.name, phase.seconds.len(), phase.failed()))
            .collect();
        let expected = [("all nodes up", 3, 0), ("killed", 3, 7), ("frozen", 2, 0)];
        assert_eq!(seen, expected);
        assert_eq!(phases[2].max_ms(), Some(800.0));
    }
}
