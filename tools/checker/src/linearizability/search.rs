//! The search for an order: the algorithm of Wing and Gong ("Testing and
//! Verifying Concurrent Objects", 1993) with Lowe's cache of tried states
//! ("Testing for Linearizability", 2017), as porcupine implements it.
//!
//! A list holds the invocations and the completions of all calls, ordered by
//! their moments. The search takes one call after another off the list and
//! applies it to the register. A call may be taken if its invocation stands in
//! front of the first completion that is left, because a call that has completed
//! took effect before any call that was invoked later. Where no such call fits
//! the register, the search puts the last one back and tries the next. It tries
//! each combination of the set of taken calls and the register's state once.

use crate::history::OperationId;
use std::collections::BTreeSet;

/// The search gives a key up after this many states. A linearizable history
/// takes about as many as it has operations.
const STATES_MAX: usize = 200_000;

/// What the register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RegisterState {
    /// Nothing: at the beginning, and after a delete.
    Absent,
    /// The value of this put.
    Value(OperationId),
}

/// What an operation does to the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It writes this state.
    Write(RegisterState),
    /// It reads this state.
    Read(RegisterState),
    /// It finds another state.
    FindOther(RegisterState),
    /// It replaces the first state by the second one.
    Replace(RegisterState, RegisterState),
}

impl Effect {
    /// The state after the operation; `None` if the operation cannot follow `state`.
    pub(super) fn after(self, state: RegisterState) -> Option<RegisterState> {
        match self {
            Self::Write(written) => Some(written),
            Self::Read(found) => (found == state).then_some(state),
            Self::FindOther(other) => (other != state).then_some(state),
            Self::Replace(expected, written) => (expected == state).then_some(written),
        }
    }
}

/// An operation that takes effect between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The operation.
    pub(super) id: OperationId,
    /// What it does.
    pub(super) effect: Effect,
    /// When it was invoked.
    pub(super) invoked: u64,
    /// When it took effect at the latest; `None` if it may never take effect.
    pub(super) completed_by: Option<u64>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SearchResult {
    /// There is an order.
    Linearizable,
    /// There is no order. The operations show where the longest attempt ended: the
    /// last ones that it took, those that were running then, and last the one that
    /// had to take effect next but cannot.
    NotLinearizable(Vec<OperationId>),
    /// The search tried too many states and knows no answer.
    GaveUp,
}

/// How many of the operations that the longest attempt took are shown.
const SHOWN: usize = 4;

/// Searches for an order of these calls on a register that holds nothing at first.
pub(super) fn search(calls: &[Call]) -> SearchResult {
    search_within(calls, STATES_MAX)
}

pub(super) fn search_within(calls: &[Call], states_max: usize) -> SearchResult {
    let mut list = List::new(calls);
    let mut tried: BTreeSet<(Box<[u64]>, RegisterState)> = BTreeSet::new();
    let mut taken = Taken::new(calls.len());
    let mut order: Vec<(usize, RegisterState)> = Vec::new();
    let mut longest: (usize, Vec<OperationId>) = (0, Vec::new());
    let mut left = calls
        .iter()
        .filter(|call| call.completed_by.is_some())
        .count();
    let mut state = RegisterState::Absent;
    let mut at = list.first();
    while left > 0 {
        let ListItem::Invocation(call) = list.item(at) else {
            // Here stands a completion, which no later invocation may overtake, or the
            // end of the list. No call that is left fits: go back.
            if longest.1.is_empty() || order.len() > longest.0 {
                longest = (order.len(), list.show(calls, &order, at));
            }
            let Some((call, before)) = order.pop() else {
                return SearchResult::NotLinearizable(longest.1);
            };
            left += usize::from(calls[call].completed_by.is_some());
            state = before;
            taken.put_back(call);
            at = list.put_back(call);
            continue;
        };
        if let Some(after) = calls[call].effect.after(state) {
            taken.take(call);
            if tried.insert((taken.key(), after)) {
                if tried.len() > states_max {
                    return SearchResult::GaveUp;
                }
                order.push((call, state));
                left -= usize::from(calls[call].completed_by.is_some());
                state = after;
                list.take(call);
                at = list.first();
                continue;
            }
            taken.put_back(call);
        }
        at = list.next(at);
    }
    SearchResult::Linearizable
}

/// The set of calls that were taken off the list, as a bit for each.
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

/// An item of the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListItem {
    Invocation(usize),
    Completion(usize),
    End,
}

/// Invocations and completions in the order of their moments, doubly linked. A
/// call that may never take effect has no completion.
struct List {
    items: Vec<ListItem>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// For each call the positions of its invocation and of its completion.
    positions: Vec<(usize, Option<usize>)>,
}

/// The position in front of all items.
const HEAD: usize = 0;

impl List {
    fn new(calls: &[Call]) -> Self {
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            moments.push((call.invoked, true, index));
            moments.extend(
                call.completed_by
                    .map(|completed_by| (completed_by, false, index)),
            );
        }
        moments.sort_unstable();
        let mut list = Self {
            items: vec![ListItem::End],
            next: Vec::new(),
            previous: Vec::new(),
            positions: vec![(0, None); calls.len()],
        };
        for (_, is_invocation, call) in moments {
            let at = list.items.len();
            if is_invocation {
                list.positions[call].0 = at;
                list.items.push(ListItem::Invocation(call));
            } else {
                list.positions[call].1 = Some(at);
                list.items.push(ListItem::Completion(call));
            }
        }
        list.items.push(ListItem::End);
        let length = list.items.len();
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

    fn item(&self, at: usize) -> ListItem {
        self.items[at]
    }

    fn take(&mut self, call: usize) {
        let (invocation, completion) = self.positions[call];
        self.unlink(invocation);
        if let Some(completion) = completion {
            self.unlink(completion);
        }
    }

    /// Puts a call back and returns the position behind its invocation.
    fn put_back(&mut self, call: usize) -> usize {
        let (invocation, completion) = self.positions[call];
        if let Some(completion) = completion {
            self.link(completion);
        }
        self.link(invocation);
        self.next[invocation]
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

    /// The operations that show why an attempt ended at the position `at`.
    fn show(
        &self,
        calls: &[Call],
        order: &[(usize, RegisterState)],
        at: usize,
    ) -> Vec<OperationId> {
        let last = order.iter().rev().take(SHOWN).rev();
        let mut shown: Vec<usize> = last.map(|(call, _)| *call).collect();
        let mut open = self.first();
        while open != at {
            if let ListItem::Invocation(call) = self.item(open) {
                shown.push(call);
            }
            open = self.next(open);
        }
        if let ListItem::Completion(call) = self.item(at) {
            shown.retain(|each| *each != call);
            shown.push(call);
        }
        shown.into_iter().map(|call| calls[call].id).collect()
    }
}
