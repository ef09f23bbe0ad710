//! Chooses the next request of a thread.

use crate::plan::{KeyChoice, Operation, Plan};
use crate::workload::choice::{KeyChooser, KeyCounters};
use crate::workload::operations::OperationMix;
use crate::workload::permutation::Permutation;

/// The source of a thread's requests.
pub(super) enum RequestSource<'a> {
    /// Operations and keys as weighted by the plan, without end.
    Load {
        mix: OperationMix,
        chooser: KeyChooser,
        counters: &'a KeyCounters,
    },
    /// Each key once, in some order.
    Fill {
        keys: u64,
        /// The order of the keys; none for ascending order.
        order: Option<Permutation>,
        counters: &'a KeyCounters,
    },
}

/// What happens when a request fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OnFailure {
    /// The failure is counted.
    Count,
    /// The request is repeated, until it was sent this many times.
    Repeat { attempts_max: u32 },
}

/// How often a fill sends a key. With the pauses in between this takes seconds.
const FILL_ATTEMPTS_MAX: u32 = 10;

impl<'a> RequestSource<'a> {
    pub(super) fn load(plan: &Plan, counters: &'a KeyCounters) -> Self {
        Self::Load {
            mix: OperationMix::new(&plan.operations),
            chooser: KeyChooser::new(plan),
            counters,
        }
    }

    pub(super) fn fill(plan: &Plan, counters: &'a KeyCounters) -> Self {
        Self::Fill {
            keys: plan.keys,
            order: match plan.key_choice {
                KeyChoice::Sequential => None,
                _ => Some(Permutation::new(plan.keys, plan.seed)),
            },
            counters,
        }
    }

    /// The next operation and the number of its key; [`None`] after the last
    /// request.
    pub(super) fn next(&self, random: &mut fastrand::Rng) -> Option<(Operation, u64)> {
        match self {
            Self::Load {
                mix,
                chooser,
                counters,
            } => {
                let operation = mix.draw(random);
                let number = match operation {
                    Operation::Insert => counters.insert(),
                    _ => chooser.choose(counters, random),
                };
                Some((operation, number))
            }
            Self::Fill {
                keys,
                order,
                counters,
            } => {
                let number = counters.next();
                let number_of = |order: &Permutation| order.of(number);
                (number < *keys).then(|| (Operation::Put, order.as_ref().map_or(number, number_of)))
            }
        }
    }

    pub(super) fn on_failure(&self) -> OnFailure {
        match self {
            Self::Load { .. } => OnFailure::Count,
            Self::Fill { .. } => OnFailure::Repeat {
                attempts_max: FILL_ATTEMPTS_MAX,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Rate;

    #[test]
    fn a_fill_takes_each_key_once() {
        let mut random = fastrand::Rng::with_seed(1);
        for choice in [KeyChoice::Sequential, KeyChoice::Uniform] {
            let plan = Plan {
                keys: 1_000,
                key_choice: choice,
                ..Plan::new("http://h:1", Operation::Get, Rate::Max)
            };
            let counters = KeyCounters::new(plan.keys);
            let sources = [
                RequestSource::fill(&plan, &counters),
                RequestSource::fill(&plan, &counters),
            ];
            let mut turns = sources.iter().cycle();
            let mut numbers: Vec<u64> = std::iter::from_fn(|| turns.next()?.next(&mut random))
                .map(|(operation, number)| {
                    assert_eq!(operation, Operation::Put);
                    number
                })
                .collect();
            assert_eq!(numbers.is_sorted(), choice == KeyChoice::Sequential);
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..1_000));
        }
    }
}
