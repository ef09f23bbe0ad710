//! Statistics that several experiments need.

/// The quotient of two figures; none if a figure is missing or the divisor is 0.
pub(crate) fn ratio(dividend: Option<f64>, divisor: Option<f64>) -> Option<f64> {
    let (dividend, divisor) = (dividend?, divisor?);
    (divisor > 0.0).then(|| dividend / divisor)
}

/// The median; none if there are no values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_both_figures() {
        assert_eq!(ratio(Some(1.0), Some(2.0)), Some(0.5));
        assert_eq!(ratio(Some(1.0), Some(0.0)), None);
        assert_eq!(ratio(None, Some(2.0)), None);
    }
}
