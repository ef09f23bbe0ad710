//! A counter of nodes that may be restarted.

/// The sum of a counter over nodes, which begins at zero again when a node is restarted.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrowingSum {
    last: Vec<f64>,
    total: f64,
}

impl GrowingSum {
    /// Adds what a node's counter has grown by.
    pub(crate) fn add(&mut self, node: usize, value: f64) {
        if self.last.len() <= node {
            self.last.resize(node + 1, 0.0);
        }
        let last = std::mem::replace(&mut self.last[node], value);
        self.total += if value >= last { value - last } else { value };
    }

    /// Counts from now on.
    pub(crate) fn reset(&mut self) {
        self.total = 0.0;
    }

    /// How much all counters have grown.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_goes_on_where_a_counter_begins_again() {
        let mut sum = GrowingSum::default();
        for (node, value) in [(0, 5.0), (1, 1.0), (0, 7.0), (0, 2.0), (1, 1.0)] {
            sum.add(node, value);
        }
        assert_eq!(sum.total(), 10.0);
    }
}
