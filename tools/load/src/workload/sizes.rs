//! Draws sizes.

use crate::plan::SizeDistribution;

impl SizeDistribution {
    /// Draws a size.
    pub(crate) fn draw(self, random: &mut fastrand::Rng) -> usize {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform(least, most) => random.usize(least..=most),
            Self::Exponential(mean, most) => {
                let (least, _) = self.bounds();
                let bytes = -(1.0 - random.f64()).ln() * mean as f64;
                (bytes as usize).clamp(least, most)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(size: SizeDistribution) -> Vec<usize> {
        let mut random = fastrand::Rng::with_seed(1);
        (0..10_000).map(|_| size.draw(&mut random)).collect()
    }

    #[test]
    fn sizes_follow_their_distribution() {
        assert!(
            draws(SizeDistribution::Fixed(7))
                .iter()
                .all(|bytes| *bytes == 7)
        );

        let uniform = draws(SizeDistribution::Uniform(3, 5));
        for bytes in 3..=5 {
            let hits = uniform.iter().filter(|drawn| **drawn == bytes).count();
            assert!((3_000..3_700).contains(&hits), "{bytes}: {hits}");
        }

        let exponential = draws(SizeDistribution::Exponential(100, 400));
        assert!(exponential.iter().all(|bytes| (1..=400).contains(bytes)));
        let above_mean = exponential.iter().filter(|bytes| **bytes >= 100).count();
        assert!((3_400..4_000).contains(&above_mean), "{above_mean}");
    }
}
