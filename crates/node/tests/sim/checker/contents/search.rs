//! The search for an order: Wing and Gong's algorithm ("Testing and Verifying
//! Concurrent Objects", 1993) with Lowe's memory of what was tried ("Testing
//! for Linearizability", 2017), as porcupine does it.
//!
//! Questions and answers lie in a list in the order of their moments. The
//! search takes operations off it, one that fits what the register holds after
//! another, as long as their question stands before the first answer that is
//! left: that one must not be passed. Where none fits, the last one is put back and
//! the next is tried. A set of operations that were taken off, with what the
//! register holds then, is tried once.

use crate::history::Number;
use std::collections::BTreeSet;

/// How many sets of operations are tried for a key. Histories that are
/// linearizable take about as many as they have operations.
const TRIES_MAX: usize = 200_000;

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Nothing: as at the beginning, and after a delete.
    Absent,
    /// The value of this put.
    Value(Number),
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It leaves this.
    Write(State),
    /// It found this.
    Read(State),
}

impl Effect {
    /// What the register holds after it; `None` where it cannot have been.
    fn after(self, state: State) -> Option<State> {
        match self {
            Self::Write(written) => Some(written),
            Self::Read(found) => (found == state).then_some(state),
        }
    }
}

/// An operation that takes effect between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Which operation.
    pub(super) number: Number,
    /// What it does.
    pub(super) effect: Effect,
    /// When it began.
    pub(super) from: u64,
    /// When it had taken effect at the latest; `None` for one that may never.
    pub(super) until: Option<u64>,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is an order.
    Order,
    /// There is none. The operations show where the longest attempt ended: what
    /// it took last, what was on its way then, and the one that had to follow.
    NoOrder(Vec<Number>),
    /// It was given up.
    TooMuchWork,
}

/// How many of the operations before the end of an attempt are shown.
const SHOWN: usize = 4;

/// Looks for an order of these operations, on a register that holds nothing.
pub(super) fn search(calls: &[Call]) -> Found {
    search_within(calls, TRIES_MAX)
}

pub(super) fn search_within(calls: &[Call], tries_max: usize) -> Found {
    let mut list = List::new(calls);
    let mut tried: BTreeSet<(Box<[u64]>, State)> = BTreeSet::new();
    let mut taken = Taken::new(calls.len());
    let mut order: Vec<(usize, State)> = Vec::new();
    let mut longest: (usize, Vec<Number>) = (0, Vec::new());
    let mut left = calls.iter().filter(|call| call.until.is_some()).count();
    let mut state = State::Absent;
    let mut at = list.first();
    while left > 0 {
        let Place::Question(call) = list.place(at) else {
            // An answer that must not be passed, or nothing is left that must be.
            if longest.1.is_empty() || order.len() > longest.0 {
                longest = (order.len(), list.show(calls, &order, at));
            }
            let Some((call, before)) = order.pop() else {
                return Found::NoOrder(longest.1);
            };
            left += usize::from(calls[call].until.is_some());
            state = before;
            taken.put_back(call);
            at = list.put_back(call);
            continue;
        };
        if let Some(after) = calls[call].effect.after(state) {
            taken.take(call);
            if tried.insert((taken.key(), after)) {
                if tried.len() > tries_max {
                    return Found::TooMuchWork;
                }
                order.push((call, state));
                left -= usize::from(calls[call].until.is_some());
                state = after;
                list.take(call);
                at = list.first();
                continue;
            }
            taken.put_back(call);
        }
        at = list.next(at);
    }
    Found::Order
}

/// Which operations were taken off the list.
struct Taken(Box<[u64]>);

impl Taken {
    fn new(calls: usize) -> Self {
        Self(vec![0; calls.div_ceil(64)].into_boxed_slice())
    }

    fn take(&mut self, call: usize) {
        self.0[call / 64] |= 1 << (call % 64);
    }

    fn put_back(&mut self, call: usize) {
        self.0[call / 64] &= !(1 << (call % 64));
    }

    fn key(&self) -> Box<[u64]> {
        self.0.clone()
    }
}

/// What stands at a place of the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Question(usize),
    Answer(usize),
    End,
}

/// Questions and answers in the order of their moments, doubly linked. The
/// answers of those that may never take effect are left out.
struct List {
    places: Vec<Place>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Of each operation: where its question stands, and its answer.
    stands: Vec<(usize, Option<usize>)>,
}

/// Before all places.
const HEAD: usize = 0;

impl List {
    fn new(calls: &[Call]) -> Self {
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (place, call) in calls.iter().enumerate() {
            moments.push((call.from, true, place));
            moments.extend(call.until.map(|until| (until, false, place)));
        }
        moments.sort_unstable();
        let mut list = Self {
            places: vec![Place::End],
            next: Vec::new(),
            previous: Vec::new(),
            stands: vec![(0, None); calls.len()],
        };
        for (_, is_question, call) in moments {
            let at = list.places.len();
            if is_question {
                list.stands[call].0 = at;
                list.places.push(Place::Question(call));
            } else {
                list.stands[call].1 = Some(at);
                list.places.push(Place::Answer(call));
            }
        }
        list.places.push(Place::End);
        let length = list.places.len();
        list.next = (1..=length).collect();
        list.previous = (0..length).map(|at| at.saturating_sub(1)).collect();
        list
    }

    fn first(&self) -> usize {
        self.next[HEAD]
    }

    fn next(&self, at: usize) -> usize {
        self.next[at]
    }

    fn place(&self, at: usize) -> Place {
        self.places[at]
    }

    fn take(&mut self, call: usize) {
        let (question, answer) = self.stands[call];
        self.unlink(question);
        if let Some(answer) = answer {
            self.unlink(answer);
        }
    }

    /// Puts an operation back; gives the place behind its question.
    fn put_back(&mut self, call: usize) -> usize {
        let (question, answer) = self.stands[call];
        if let Some(answer) = answer {
            self.link(answer);
        }
        self.link(question);
        self.next[question]
    }

    fn unlink(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn link(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = at;
        self.previous[next] = at;
    }

    /// What shows why an attempt ended at `at`.
    fn show(&self, calls: &[Call], order: &[(usize, State)], at: usize) -> Vec<Number> {
        let last = order.iter().rev().take(SHOWN).rev();
        let mut shown: Vec<usize> = last.map(|(call, _)| *call).collect();
        let mut open = self.first();
        while open != at {
            if let Place::Question(call) = self.place(open) {
                shown.push(call);
            }
            open = self.next(open);
        }
        if let Place::Answer(call) = self.place(at) {
            shown.retain(|each| *each != call);
            shown.push(call);
        }
        shown.into_iter().map(|call| calls[call].number).collect()
    }
}
