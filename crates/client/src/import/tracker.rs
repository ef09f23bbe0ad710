//! Which sections of an import are done, and so from where on nothing is sure.

use super::input::Position;
use super::{LineFailure, Progress};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedSemaphorePermit;

/// How many failures wait to be told. More are only counted.
const FAILURES_MAX: usize = 1000;

/// What a section holds while it is under way.
pub(super) type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

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
}

struct OpenSection {
    parts_left: usize,
    passed_over: u64,
    end: Position,
    /// Given up when the section is done.
    places: Option<Places>,
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
        }))
    }

    /// Adds the next section of the input, with its number of parts. Returns its number.
    pub(super) fn open(
        &self,
        parts: usize,
        end: Position,
        failures: &[LineFailure],
        places: Places,
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
            places: Some(places),
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

    /// How far the import is, and the failures since the last call.
    pub(super) fn take_news(&self) -> (Progress, Vec<LineFailure>) {
        let mut state = self.lock();
        let progress = Progress {
            position: state.position,
            stored: state.stored,
        };
        (progress, std::mem::take(&mut state.failures))
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
                section.places = None;
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
    use tokio::sync::Semaphore;

    fn at(lines: u64) -> Position {
        Position {
            lines,
            bytes: lines * 10,
            ..Position::default()
        }
    }

    fn places(semaphore: &Arc<Semaphore>) -> Places {
        let place = || Arc::clone(semaphore).try_acquire_owned().unwrap();
        (place(), place())
    }

    #[test]
    fn the_position_stays_before_the_first_section_that_is_not_done() {
        let semaphore = Arc::new(Semaphore::new(6));
        let tracker = Tracker::new(at(0));
        let failure = LineFailure {
            line: 7,
            problem: "p".to_owned(),
        };
        let one = tracker.open(2, at(5), &[], places(&semaphore));
        let two = tracker.open(1, at(9), std::slice::from_ref(&failure), places(&semaphore));
        let position = || {
            let position = tracker.take_news().0.position;
            (position.lines, position.passed_over)
        };
        tracker.part_done(two, 3, Vec::new());
        assert_eq!(position(), (0, 0));
        tracker.part_done(one, 2, Vec::new());
        assert_eq!(position(), (0, 0));
        // A section that is done gives its places up, wherever it stands.
        assert_eq!(semaphore.available_permits(), 4);
        tracker.part_done(one, 2, vec![failure]);
        assert_eq!(position(), (9, 2));
        // A section of empty lines is done at once.
        tracker.open(0, at(10), &[], places(&semaphore));
        assert_eq!(position(), (10, 2));
        assert_eq!(semaphore.available_permits(), 6);
        assert_eq!(tracker.take_news().0.stored, 7);
    }
}
