//! Tracks which sections of an import are done, and so the confirmed position.

use super::caller::{ImportProgress, LineFailure, Position, Waiting};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;

/// How many failures wait to be told. More are only counted.
const FAILURES_MAX: usize = 1000;

/// The permits of a section, while it is under way: one of the sections, and those of its bytes.
pub(super) type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// The sections that are under way.
pub(super) struct Tracker(Mutex<State>);

struct State {
    /// In the order of the input; the first one has the number `first`.
    open: VecDeque<OpenSection>,
    first: u64,
    /// All lines before it are done.
    position: Position,
    stored: u64,
    failures: Vec<LineFailure>,
    /// What each shard sends again, and since when.
    waiting: BTreeMap<usize, (Instant, Waiting)>,
}

/// What has happened since the last time, and what happens.
pub(super) struct News {
    /// How far the import is.
    pub(super) progress: ImportProgress,
    /// The lines that were passed over since.
    pub(super) failures: Vec<LineFailure>,
    /// The lines that have been sent again for the longest time.
    pub(super) waiting: Option<Waiting>,
}

struct OpenSection {
    parts_left: usize,
    passed_over: u64,
    end: Position,
    /// Given up when the section is done.
    permits: Option<Permits>,
}

impl Tracker {
    /// Nothing is under way, and all before the position is done.
    pub(super) fn new(position: Position) -> Self {
        Self(Mutex::new(State {
            open: VecDeque::new(),
            first: 0,
            position,
            stored: 0,
            failures: Vec::new(),
            waiting: BTreeMap::new(),
        }))
    }

    /// Adds the next section of the input, with its number of parts. Returns its number.
    pub(super) fn open(
        &self,
        parts: usize,
        end: Position,
        failures: &[LineFailure],
        permits: Permits,
    ) -> u64 {
        let mut state = self.lock();
        for failure in failures {
            state.tell(failure.clone());
        }
        let number = state.first + state.open.len() as u64;
        state.open.push_back(OpenSection {
            parts_left: parts,
            passed_over: failures.len() as u64,
            end,
            permits: Some(permits),
        });
        state.advance();
        number
    }

    /// A part of a section is done: so many lines are stored, and these passed over.
    pub(super) fn part_done(&self, section: u64, stored: u64, failures: Vec<LineFailure>) {
        let mut state = self.lock();
        let index = usize::try_from(section - state.first).unwrap_or(usize::MAX);
        if let Some(open) = state.open.get_mut(index) {
            open.parts_left -= 1;
            open.passed_over += failures.len() as u64;
        }
        state.stored += stored;
        for failure in failures {
            state.tell(failure);
        }
        state.advance();
    }

    /// A shard sends these lines again since a time; `None` once it has stopped.
    pub(super) fn waits(&self, shard: usize, waiting: Option<(Instant, Waiting)>) {
        let mut state = self.lock();
        match waiting {
            Some(waiting) => drop(state.waiting.insert(shard, waiting)),
            None => drop(state.waiting.remove(&shard)),
        }
    }

    /// What there is to tell.
    pub(super) fn take_news(&self) -> News {
        let mut state = self.lock();
        let longest = state.waiting.values().min_by_key(|(since, _)| *since);
        let waiting = longest.map(|(since, waiting)| Waiting {
            waited: since.elapsed(),
            ..waiting.clone()
        });
        News {
            progress: ImportProgress {
                position: state.position,
                stored: state.stored,
            },
            failures: std::mem::take(&mut state.failures),
            waiting,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self, failure: LineFailure) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(failure);
        }
    }

    /// Moves the position over all sections that are done, up to the first that is not.
    fn advance(&mut self) {
        for section in &mut self.open {
            if section.parts_left == 0 {
                section.permits = None;
            }
        }
        while let Some(section) = self.open.front().filter(|section| section.parts_left == 0) {
            self.position = Position {
                passed_over: self.position.passed_over + section.passed_over,
                ..section.end
            };
            self.open.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    fn at(lines: u64) -> Position {
        Position {
            lines,
            bytes: lines * 10,
            ..Position::default()
        }
    }

    fn permits(semaphore: &Arc<Semaphore>) -> Permits {
        let permit = || Arc::clone(semaphore).try_acquire_owned().unwrap();
        (permit(), permit())
    }

    #[test]
    fn the_position_stays_before_the_first_section_that_is_not_done() {
        let semaphore = Arc::new(Semaphore::new(6));
        let tracker = Tracker::new(at(0));
        let failure = LineFailure {
            line: 7,
            problem: "p".to_owned(),
        };
        let one = tracker.open(2, at(5), &[], permits(&semaphore));
        let two = tracker.open(
            1,
            at(9),
            std::slice::from_ref(&failure),
            permits(&semaphore),
        );
        let position = || {
            let position = tracker.take_news().progress.position;
            (position.lines, position.passed_over)
        };
        tracker.part_done(two, 3, Vec::new());
        assert_eq!(position(), (0, 0));
        tracker.part_done(one, 2, Vec::new());
        assert_eq!(position(), (0, 0));
        // A section that is done gives its permits up, wherever it stands.
        assert_eq!(semaphore.available_permits(), 4);
        tracker.part_done(one, 2, vec![failure]);
        assert_eq!(position(), (9, 2));
        // A section of empty lines is done at once.
        tracker.open(0, at(10), &[], permits(&semaphore));
        assert_eq!(position(), (10, 2));
        assert_eq!(semaphore.available_permits(), 6);
        assert_eq!(tracker.take_news().progress.stored, 7);
    }

    #[test]
    fn those_that_have_waited_longest_are_told() {
        let tracker = Tracker::new(at(0));
        let waiting = |line| Waiting {
            line,
            more: 0,
            waited: Duration::ZERO,
            problem: "p".to_owned(),
        };
        let told = || tracker.take_news().waiting.map(|waiting| waiting.line);
        let began = Instant::now();
        tracker.waits(2, Some((began + Duration::from_nanos(1), waiting(5))));
        tracker.waits(0, Some((began, waiting(9))));
        assert_eq!(told(), Some(9));
        tracker.waits(0, None);
        assert_eq!(told(), Some(5));
        tracker.waits(2, None);
        assert_eq!(told(), None);
    }
}
