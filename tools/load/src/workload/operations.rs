//! Draws operations.

use crate::plan::Operation;
use smallvec::SmallVec;

/// Draws operations by their weights.
#[derive(Clone, Debug)]
pub(crate) struct OperationMix {
    /// Each operation with the cumulative share up to it.
    steps: SmallVec<[(Operation, f64); 4]>,
}

impl OperationMix {
    /// Creates a mix from weights, at least one of which is above zero.
    pub(crate) fn new(weights: &[(Operation, f64)]) -> Self {
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut upto = 0.0;
        let used = weights.iter().filter(|(_, weight)| *weight > 0.0);
        let steps = used.map(|(operation, weight)| {
            upto += weight / sum;
            (*operation, upto)
        });
        Self {
            steps: steps.collect(),
        }
    }

    /// Draws an operation.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> Operation {
        if let [(only, _)] = self.steps[..] {
            return only;
        }
        let chance = random.f64();
        let drawn = self.steps.iter().find(|(_, upto)| chance < *upto);
        // The last cumulative share may be below one by a rounding error.
        let last = self.steps.last();
        drawn.or(last).map_or(Operation::Get, |(drawn, _)| *drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_drawn_in_proportion_to_their_weights() {
        let mix = OperationMix::new(&[
            (Operation::Get, 70.0),
            (Operation::Delete, 0.0),
            (Operation::Put, 30.0),
        ]);
        let mut random = fastrand::Rng::with_seed(3);
        let drawn: Vec<Operation> = (0..10_000).map(|_| mix.draw(&mut random)).collect();
        let count = |operation| drawn.iter().filter(|drawn| **drawn == operation).count();
        assert!((6_800..7_200).contains(&count(Operation::Get)));
        assert_eq!(count(Operation::Get) + count(Operation::Put), 10_000);
    }
}
