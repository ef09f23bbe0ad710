//! What an incremental repair may pass over.
//!
//! A pair of nodes that was found equal up to a cut differs later only in
//! versions that arrived since. Each node knows, for parts of the key space, the
//! least timestamp that arrived since then. Versions below it are as they were,
//! so they need not be compared, and blocks that hold nothing else need not be
//! read. A margin in time would not do: the write of a node whose clock is slow
//! can be older than any margin.

use base::Timestamp;

/// The most steps of a function: more are made one by taking the lower bound.
pub const STEPS_MAX: usize = 64;

/// A bound for each key: a step function over the key space.
///
/// What is below the bound of its key need not be compared. A lower bound is
/// always safe, so steps may be joined at the cost of comparing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBounds {
    /// Where each step begins, with the bound from there on. The first begins at
    /// the empty key; keys ascend.
    steps: Vec<(Vec<u8>, Timestamp)>,
}

/// A walk over [`KeyBounds`] in the order of the keys.
pub struct AscendingBounds<'a> {
    /// The bound where the walk is.
    bound: Timestamp,
    /// The steps behind that.
    later: &'a [(Vec<u8>, Timestamp)],
}

impl AscendingBounds<'_> {
    /// The bound of a key that is not before any key that was asked for.
    #[inline]
    pub fn of(&mut self, key: &[u8]) -> Timestamp {
        while let Some(((begin, bound), later)) = self.later.split_first()
            && begin.as_slice() <= key
        {
            (self.bound, self.later) = (*bound, later);
        }
        self.bound
    }

    fn advanced_to(mut self, key: &[u8]) -> Self {
        self.of(key);
        self
    }
}

impl KeyBounds {
    /// The same bound for all keys.
    #[must_use]
    pub fn constant(bound: Timestamp) -> Self {
        Self {
            steps: vec![(Vec::new(), bound)],
        }
    }

    /// Everything is compared.
    #[must_use]
    pub fn everything() -> Self {
        Self::constant(Timestamp::ZERO)
    }

    /// The function with these steps. Those out of order, and those after the
    /// most there may be, are joined with the one before.
    #[must_use]
    pub fn from_steps(steps: impl IntoIterator<Item = (Vec<u8>, Timestamp)>) -> Self {
        let mut function = Self { steps: Vec::new() };
        for (key, bound) in steps {
            function.push(key, bound);
        }
        // Nothing is known of the keys before the first step.
        match function.steps.first() {
            None => Self::everything(),
            Some((key, _)) if !key.is_empty() => {
                function.steps.insert(0, (Vec::new(), Timestamp::ZERO));
                function.shorten();
                function
            }
            Some(_) => {
                function.shorten();
                function
            }
        }
    }

    /// Where each step begins, and its bound.
    pub fn steps(&self) -> impl Iterator<Item = (&[u8], Timestamp)> {
        self.steps
            .iter()
            .map(|(key, bound)| (key.as_slice(), *bound))
    }

    /// The function, shortened to at most this many steps. No bound rises.
    #[must_use]
    pub fn with_steps_at_most(mut self, steps_max: usize) -> Self {
        self.shorten_to(steps_max.max(1));
        self
    }

    /// The bound of a key.
    #[must_use]
    pub fn of(&self, key: &[u8]) -> Timestamp {
        let after = self
            .steps
            .partition_point(|(begin, _)| begin.as_slice() <= key);
        self.steps[..after]
            .last()
            .map_or(Timestamp::ZERO, |(_, bound)| *bound)
    }

    /// The bounds of keys that are asked for in ascending order. That costs one
    /// comparison a key at most, and none for a constant function.
    #[must_use]
    pub fn ascending(&self) -> AscendingBounds<'_> {
        AscendingBounds {
            bound: Timestamp::ZERO,
            later: &self.steps,
        }
        .advanced_to(&[])
    }

    /// The least bound of the keys from `start` on, up to `end` (without it).
    #[must_use]
    pub fn least_in(&self, start: &[u8], end: Option<&[u8]>) -> Timestamp {
        let starts_before = |key: &[u8]| end.is_none_or(|end| key < end);
        self.steps()
            .filter(|(begin, _)| *begin > start && starts_before(begin))
            .map(|(_, bound)| bound)
            .fold(self.of(start), Timestamp::min)
    }

    /// The lower of two bounds, key by key.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        let mut keys: Vec<&Vec<u8>> = [self, other]
            .iter()
            .flat_map(|function| function.steps.iter().map(|(key, _)| key))
            .collect();
        keys.sort_unstable();
        let mut joined = Self { steps: Vec::new() };
        for key in keys {
            joined.push(key.clone(), self.of(key).min(other.of(key)));
        }
        joined.shorten();
        joined
    }

    /// The function with no bound above `most`.
    #[must_use]
    pub fn at_most(mut self, most: Timestamp) -> Self {
        for (_, bound) in &mut self.steps {
            *bound = most.min(*bound);
        }
        self
    }

    /// The function with no bound below `least`.
    #[must_use]
    pub fn at_least(mut self, least: Timestamp) -> Self {
        for (_, bound) in &mut self.steps {
            *bound = least.max(*bound);
        }
        self
    }

    fn push(&mut self, key: Vec<u8>, bound: Timestamp) {
        match self.steps.last_mut() {
            Some((last, lower)) if *last >= key => *lower = bound.min(*lower),
            Some((_, same)) if *same == bound => {}
            _ => self.steps.push((key, bound)),
        }
    }

    fn shorten(&mut self) {
        self.shorten_to(STEPS_MAX);
    }

    /// Joins neighbours until there are few enough, those first that are nearest.
    fn shorten_to(&mut self, steps_max: usize) {
        while self.steps.len() > steps_max {
            let gap = |index: &usize| {
                let (left, right) = (self.steps[*index - 1].1, self.steps[*index].1);
                left.as_u64().abs_diff(right.as_u64())
            };
            let Some(nearest) = (1..self.steps.len()).min_by_key(gap) else {
                return;
            };
            let (_, bound) = self.steps.remove(nearest);
            let lower = &mut self.steps[nearest - 1].1;
            *lower = bound.min(*lower);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(number: u64) -> Timestamp {
        Timestamp::from_u64(number)
    }

    fn function(steps: &[(&str, u64)]) -> KeyBounds {
        let steps = steps.iter();
        KeyBounds::from_steps(
            steps.map(|(key, bound)| (key.as_bytes().to_vec(), timestamp(*bound))),
        )
    }

    #[test]
    fn a_key_has_the_bound_of_its_step() {
        let bounds = function(&[("", 5), ("b", 2), ("d", 9)]);
        for (key, bound) in [("", 5), ("a", 5), ("b", 2), ("c", 2), ("d", 9), ("z", 9)] {
            assert_eq!(bounds.of(key.as_bytes()), timestamp(bound), "{key}");
        }
        assert_eq!(bounds.least_in(b"a", Some(b"b")), timestamp(5));
        assert_eq!(bounds.least_in(b"a", Some(b"ba")), timestamp(2));
        assert_eq!(bounds.least_in(b"d", None), timestamp(9));
        assert_eq!(bounds.least_in(b"", None), timestamp(2));
    }

    #[test]
    fn nothing_is_passed_over_before_the_first_step() {
        assert_eq!(function(&[]), KeyBounds::everything());
        assert_eq!(function(&[("m", 7)]).of(b"a"), Timestamp::ZERO);
        assert_eq!(function(&[("m", 7)]).of(b"n"), timestamp(7));
    }

    #[test]
    fn the_minimum_holds_for_every_key_and_stays_short() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut any = |steps: usize| {
            let mut keys: Vec<u8> = (0..steps).map(|_| random.u8(..)).collect();
            keys.sort_unstable();
            let first = (Vec::new(), timestamp(random.u64(0..1000)));
            let others = keys
                .iter()
                .map(|key| (vec![*key], timestamp(random.u64(0..1000))));
            KeyBounds::from_steps(std::iter::once(first).chain(others.collect::<Vec<_>>()))
        };
        for _ in 0..200 {
            let (left, right) = (any(100), any(40));
            let joined = left.min(&right);
            assert!(joined.steps().count() <= STEPS_MAX);
            for key in 0..=u8::MAX {
                assert!(joined.of(&[key]) <= left.of(&[key]).min(right.of(&[key])));
            }
        }
        // With few steps nothing is given away.
        let joined = function(&[("", 5), ("b", 2)]).min(&function(&[("", 3), ("c", 8)]));
        assert_eq!(joined, function(&[("", 3), ("b", 2)]));
    }
}
