//! The plots: each engine's figure relative to the best, for each workload.

use super::table::{Better, Row};
use crate::store::EngineName;
use crate::task::Measurement;
use load::report::plot::{Axis, Bars};
use load::report::units::Unit;

/// Bars for each workload. The bar of the best engine is 1.
pub fn beside_the_best(
    title: &str,
    rows: &[&Row<'_>],
    better: Better,
    figure: fn(&Measurement) -> f64,
) -> String {
    let names = rows.iter().map(|row| row.name.as_str());
    let axis = Axis::linear("", Unit::Count);
    EngineName::ALL
        .iter()
        .enumerate()
        .fold(Bars::new(title, names, axis), |bars, (index, engine)| {
            let values = rows.iter().map(|row| {
                let medians = EngineName::ALL.map(|engine| row.median(engine, figure));
                share(medians, better, index).unwrap_or(f64::NAN)
            });
            bars.with(engine.to_string(), values)
        })
        .draw()
}

/// One engine's figure over the best of all.
fn share(medians: [Option<f64>; 3], better: Better, index: usize) -> Option<f64> {
    let best = better.best(medians.into_iter().flatten())?;
    Some(medians[index]? / best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_one() {
        let medians = [Some(3.0), Some(6.0), None];
        assert_eq!(share(medians, Better::Higher, 0), Some(0.5));
        assert_eq!(share(medians, Better::Higher, 1), Some(1.0));
        assert_eq!(share(medians, Better::Lower, 1), Some(2.0));
        assert_eq!(share(medians, Better::Lower, 2), None);
    }
}
