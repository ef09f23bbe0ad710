//! Formats figures that the generator's reports do not have.

use load::Run;
use load::plan::Rate;
use load::report::units;

/// A ratio with three significant digits: `0.41`, `3.42`, `24.8`, `120`.
pub(crate) fn ratio(value: f64) -> String {
    if !value.is_finite() {
        return units::NONE.to_owned();
    }
    let digits = match value.abs() {
        absolute if absolute >= 99.95 => 0,
        absolute if absolute >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// CPU time per request: `15.4 us`; a dash if there is none.
pub(crate) fn cpu(microseconds: Option<f64>) -> String {
    match microseconds {
        Some(microseconds) => format!("{} us", ratio(microseconds)),
        None => units::NONE.to_owned(),
    }
}

/// A latency; a dash if there is none.
pub(crate) fn latency(milliseconds: Option<f64>) -> String {
    units::latency(milliseconds.unwrap_or(f64::NAN))
}

/// Requests per second; a dash if there is no rate.
pub(crate) fn rate(per_second: Option<f64>) -> String {
    units::rate(per_second.unwrap_or(f64::NAN))
}

/// The requested rate of a run.
pub(crate) fn requested(run: &Run) -> String {
    match run.plan.rate {
        Rate::PerSecond(rate) => units::rate(rate),
        Rate::Max => "closed loop".to_owned(),
    }
}

/// A count, which a metric tells as a fraction.
pub(crate) fn count(count: f64) -> String {
    units::count(count as u64)
}

/// A share in percent: `97%`, `0.4%`.
pub(crate) fn percent(share: f64) -> String {
    let percents = share * 100.0;
    if !percents.is_finite() {
        units::NONE.to_owned()
    } else if percents.abs() >= 9.95 || percents == 0.0 {
        format!("{percents:.0}%")
    } else {
        format!("{percents:.1}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_they_need() {
        for (text, expected) in [
            (ratio(0.0), "0.00"),
            (ratio(3.424), "3.42"),
            (ratio(9.996), "10.0"),
            (ratio(119.6), "120"),
            (ratio(f64::NAN), units::NONE),
            (cpu(Some(15.44)), "15.4 us"),
            (cpu(None), units::NONE),
            (latency(Some(1.5)), "1.50 ms"),
            (latency(None), units::NONE),
            (rate(Some(1_500.0)), "1,500/s"),
            (rate(None), units::NONE),
            (percent(0.97), "97%"),
            (percent(0.004), "0.4%"),
            (percent(0.0), "0%"),
            (percent(f64::INFINITY), units::NONE),
        ] {
            assert_eq!(text, expected);
        }
    }
}
