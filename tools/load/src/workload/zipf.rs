//! Draws ranks by Zipf's law, after Gray et al., "Quickly generating
//! billion-record synthetic databases" (SIGMOD 1994), as YCSB does.

/// The constant of YCSB: the most popular of a million keys takes 6.5% of all requests.
pub(crate) const THETA: f64 = 0.99;

/// How many terms of the zeta function are added up; the rest is integrated,
/// which is more exact than any result shows.
const TERMS_MAX: u64 = 100_000;

/// Draws ranks from `0..count`, rank `r` with a probability proportional to `1
/// / (r + 1)^θ`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    count: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    half_to_theta: f64,
}

impl Zipf {
    /// Creates a distribution over `count` ranks, at least one.
    pub(crate) fn new(count: u64) -> Self {
        let zeta_of_two = zeta(2);
        let zeta = zeta(count);
        let count = count as f64;
        Self {
            count,
            zeta,
            alpha: 1.0 / (1.0 - THETA),
            eta: (1.0 - (2.0 / count).powf(1.0 - THETA)) / (1.0 - zeta_of_two / zeta),
            half_to_theta: 0.5f64.powf(THETA),
        }
    }

    /// The rank for `chance`, a number from 0 to 1.
    pub(crate) fn rank(&self, chance: f64) -> u64 {
        let scaled = chance * self.zeta;
        if scaled < 1.0 || self.count < 2.0 {
            return 0;
        }
        if scaled < 1.0 + self.half_to_theta {
            return 1;
        }
        let rank = self.count * (self.eta * chance - self.eta + 1.0).powf(self.alpha);
        rank.min(self.count - 1.0) as u64
    }
}

/// The sum of `1 / i^θ` for `i` from 1 to `count`.
fn zeta(count: u64) -> f64 {
    let added = count.min(TERMS_MAX);
    let sum: f64 = (1..=added).map(|i| (i as f64).powf(-THETA)).sum();
    let (from, to) = (added as f64, count as f64);
    let area = (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
    // The correction at both ends (Euler and Maclaurin).
    sum + area + (to.powf(-THETA) - from.powf(-THETA)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_continues_the_sum() {
        let count = TERMS_MAX * 3;
        let exact: f64 = (1..=count).map(|i| (i as f64).powf(-THETA)).sum();
        assert!((zeta(count) - exact).abs() < 1e-9);
    }

    #[test]
    fn ranks_are_as_frequent_as_the_law_says() {
        let (count, draws) = (1_000u64, 1_000_000);
        let zipf = Zipf::new(count);
        let mut random = fastrand::Rng::with_seed(7);
        let mut hits = vec![0u64; 1_000];
        for _ in 0..draws {
            hits[zipf.rank(random.f64()) as usize] += 1;
        }
        let expected = |rank: u64| draws as f64 / ((rank + 1) as f64).powf(THETA) / zeta(count);
        for rank in [0, 1] {
            let share = hits[rank as usize] as f64 / expected(rank);
            assert!((0.97..1.03).contains(&share), "rank {rank}: {share}");
        }
        // Gray's formula is exact for the first two ranks and close for the others.
        for (from, to) in [(2, 10), (10, 100), (100, 1_000)] {
            let hit: u64 = hits[from as usize..to as usize].iter().sum();
            let due: f64 = (from..to).map(expected).sum();
            let share = hit as f64 / due;
            assert!((0.9..1.1).contains(&share), "{from}..{to}: {share}");
        }
    }

    #[test]
    fn few_ranks_stay_in_range() {
        for count in 1..5 {
            let zipf = Zipf::new(count);
            for chance in [0.0, 0.3, 0.7, 0.999_999_999] {
                assert!(zipf.rank(chance) < count, "{count} {chance}");
            }
        }
    }
}
