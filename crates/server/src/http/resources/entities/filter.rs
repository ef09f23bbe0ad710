//! `where=`: which entities a scan tells.
//!
//! The condition is evaluated over a batch before any of it is told. Evaluation takes turns with
//! the other tasks of the thread, so that a scan does not hold up requests.

use crate::http::problem::Problem;
use base::{Entry, Expiry};
use query::{Entity, Expression, Subject};
use std::cell::Cell;

/// After how many steps of evaluation others have their turn: less than a millisecond.
const STEPS_A_TURN: u32 = 2_000;

/// Which entities a scan tells.
pub(super) struct Filter {
    condition: Expression,
    /// The time of the question, which also decides which versions have expired.
    now_unix_ms: u64,
    /// How many live entities were looked at.
    asked: Cell<u64>,
}

/// An entity took too many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooCostly {
    /// How many entities were looked at, with this one.
    pub(crate) asked: u64,
}

impl Filter {
    /// A filter by this condition.
    pub(super) fn new(condition: Expression, now_unix_ms: u64) -> Self {
        Self {
            condition,
            now_unix_ms,
            asked: Cell::new(0),
        }
    }

    /// Those of some entries that are live and match.
    ///
    /// # Errors
    /// One of them takes too many steps.
    pub(super) async fn select(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, TooCostly> {
        self.select_while(entries, async || Ok(())).await
    }

    /// As [`Self::select`], for as long as `goes_on` says so between two turns.
    ///
    /// # Errors
    /// One of the entries takes too many steps, or what `goes_on` says.
    pub(super) async fn select_while<E: From<TooCostly>>(
        &self,
        entries: Vec<Entry>,
        goes_on: impl AsyncFn() -> Result<(), E>,
    ) -> Result<Vec<Entry>, E> {
        let mut matching = Vec::new();
        let mut turns = Turns::default();
        for entry in entries {
            if !entry.is_live(self.now_unix_ms) {
                continue;
            }
            self.asked.set(self.asked.get() + 1);
            let (is_match, steps) = self.matches(&entry)?;
            if is_match {
                matching.push(entry);
            }
            if turns.took(steps).await {
                goes_on().await?;
            }
        }
        Ok(matching)
    }

    /// Whether an entry matches, and how many steps that took.
    fn matches(&self, entry: &Entry) -> Result<(bool, u32), TooCostly> {
        let entity = entity_of(entry, self.now_unix_ms);
        let subject = Subject::new(&entity);
        let matches = self.condition.matches(&subject);
        let is_match = matches.map_err(|_| TooCostly {
            asked: self.asked.get(),
        })?;
        Ok((is_match, subject.steps()))
    }
}

impl From<TooCostly> for Problem {
    fn from(costly: TooCostly) -> Self {
        Self::expression_too_costly(costly.asked)
    }
}

/// An entry as expressions see it.
pub(super) fn entity_of(entry: &Entry, now_unix_ms: u64) -> Entity<'_> {
    let expiry = entry.expiry();
    Entity {
        key: entry.key(),
        version: entry.timestamp().as_u64(),
        expires_unix_ms: (expiry != Expiry::NEVER).then_some(expiry.unix_ms()),
        value: entry.value_bytes(),
        now_unix_ms,
    }
}

/// Gives others their turn.
#[derive(Default)]
pub(super) struct Turns {
    steps: u32,
}

impl Turns {
    /// Waits for the others if this turn has taken enough steps, with those that were taken now.
    /// Returns whether it did.
    pub(super) async fn took(&mut self, steps: u32) -> bool {
        self.steps = self.steps.saturating_add(steps.max(1));
        let is_over = self.steps >= STEPS_A_TURN;
        if is_over {
            self.steps = 0;
            tokio::task::yield_now().await;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn entry(key: &str, value: &str) -> Entry {
        let timestamp = Timestamp::from_u64(9);
        Entry::value(
            key.as_bytes(),
            timestamp,
            value.as_bytes(),
            Expiry::NEVER,
            1,
        )
    }

    /// A condition, and ten entities that all match it, each in more than a turn.
    fn long() -> (Filter, Vec<Entry>) {
        let condition = Expression::condition("value.a.all(x, x == 1)").unwrap();
        let value = format!(r#"{{"a":[{}]}}"#, vec!["1"; 1000].join(","));
        let entries = (0..10).map(|number| entry(&number.to_string(), &value));
        (Filter::new(condition, 0), entries.collect())
    }

    #[tokio::test]
    async fn a_selection_ends_with_the_turn_after_which_nobody_waits_for_it() {
        let (filter, entries) = long();
        let turns = Cell::new(0);
        let selected = filter.select_while(entries, async || {
            turns.set(turns.get() + 1);
            match turns.get() {
                2 => Err(Problem::client_left()),
                _ => Ok(()),
            }
        });
        assert!(selected.await.is_err());
        assert_eq!(turns.get(), 2);
        assert!(filter.asked.get() < 10, "{:?}", filter.asked);
    }

    #[test]
    fn a_long_evaluation_gives_others_their_turn() {
        let (filter, entries) = long();
        let mut selected = pin!(filter.select(entries));
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 1;
        let matching = loop {
            match selected.as_mut().poll(&mut context) {
                Poll::Ready(matching) => break matching.unwrap(),
                Poll::Pending => turns += 1,
            }
        };
        assert_eq!(matching.len(), 10);
        assert!(turns > 5, "{turns}");
    }
}
