//! Axes: as a plot describes them, and as they are laid out for its values.
//!
//! An [`Axis`] describes its values and their scale. [`LaidOutAxis`] is the
//! axis fitted to values: its range, its ticks, and the position of each value.
//! All values are clamped to sane sizes, so that no measurement can cause a
//! division by zero or an overflow.

use crate::report::units::Unit;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// Greater values are drawn as this one, which no measurement comes near.
const VALUE_MAX: f64 = 1e100;
/// The greatest percentile that is drawn; only one request in a hundred million
/// lies beyond it.
const PERCENTILE_MAX: f64 = 99.999_999;
/// An axis over more decades has no minor ticks.
const DECADES_WITH_MINORS_MAX: i32 = 8;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scale {
    /// Linear. Zero is always part of the range.
    Linear,
    /// Logarithmic. Values of zero and below are not drawn.
    Logarithmic,
    /// Percentiles, by the share of requests beyond them: 90% to 99% is as long
    /// as 99% to 99.9%.
    Percentile,
}

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What its values are, in one to three words.
    pub label: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Its scale.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis from zero.
    pub fn linear(label: impl Into<String>, unit: Unit) -> Self {
        Self::new(label, unit, Scale::Linear)
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: impl Into<String>, unit: Unit) -> Self {
        Self::new(label, unit, Scale::Logarithmic)
    }

    /// An axis of percentiles from 0 to 100, which stretches the last ones.
    pub fn percentile(label: impl Into<String>) -> Self {
        Self::new(label, Unit::Percentile, Scale::Percentile)
    }

    fn new(label: impl Into<String>, unit: Unit, scale: Scale) -> Self {
        Self {
            label: label.into(),
            unit,
            scale,
        }
    }

    /// The value as it is drawn; none if it cannot be drawn on this axis.
    pub(super) fn drawable(&self, value: f64) -> Option<f64> {
        match self.scale {
            _ if value.is_nan() => None,
            Scale::Linear => Some(value.clamp(-VALUE_MAX, VALUE_MAX)),
            Scale::Logarithmic => (value > 0.0).then(|| value.clamp(1.0 / VALUE_MAX, VALUE_MAX)),
            Scale::Percentile => (0.0..=100.0)
                .contains(&value)
                .then(|| value.min(PERCENTILE_MAX)),
        }
    }
}

/// How closely the range fits the values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fit {
    /// From the smallest value to the greatest.
    Tight,
    /// From tick to tick, so that the extremes are next to a grid line.
    ToTicks,
}

/// An axis laid out for some values.
#[derive(Clone, Debug)]
pub(super) struct LaidOutAxis {
    unit: Unit,
    scale: Scale,
    range: Range<f64>,
    majors: Vec<f64>,
    minors: Vec<f64>,
}

impl LaidOutAxis {
    /// Lays `axis` out for those `values` that can be drawn on it, with about
    /// `ticks_max` labelled ticks at most.
    pub(super) fn new(
        axis: &Axis,
        values: impl IntoIterator<Item = f64>,
        fit: Fit,
        ticks_max: usize,
    ) -> Self {
        let extent = values
            .into_iter()
            .filter_map(|value| axis.drawable(value))
            .fold(None, |extent, value| {
                Some(match extent {
                    None => (value, value),
                    Some((least, greatest)) => (value.min(least), value.max(greatest)),
                })
            });
        match axis.scale {
            Scale::Linear => Self::linear(axis.unit, extent.unwrap_or((0.0, 1.0)), fit, ticks_max),
            Scale::Logarithmic => {
                Self::logarithmic(axis.unit, extent.unwrap_or((1.0, 10.0)), fit, ticks_max)
            }
            Scale::Percentile => Self::percentile(extent.unwrap_or((0.0, 99.0))),
        }
    }

    fn linear(unit: Unit, (least, greatest): (f64, f64), fit: Fit, ticks_max: usize) -> Self {
        let (mut low, mut high) = (least.min(0.0), greatest.max(0.0));
        if high - low < 1.0 / VALUE_MAX {
            (low, high) = (0.0, 1.0);
        }
        let step = step(unit, (high - low) / ticks_max as f64);
        if fit == Fit::ToTicks {
            (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        }
        Self {
            unit,
            scale: Scale::Linear,
            range: low..high,
            majors: multiples(low..high, step),
            minors: Vec::new(),
        }
    }

    fn logarithmic(unit: Unit, (least, greatest): (f64, f64), fit: Fit, ticks_max: usize) -> Self {
        let base = if unit == Unit::Bytes { 2.0 } else { 10.0 };
        let (low, high) = match fit {
            _ if greatest <= least => (least / 2.0, greatest * 2.0),
            Fit::Tight => (least, greatest),
            Fit::ToTicks => (round_down(least, base), round_up(greatest, base)),
        };
        let exponents = high.log(base).ceil() as i32 - low.log(base).floor() as i32;
        let every = (exponents.unsigned_abs() as usize)
            .div_ceil(ticks_max)
            .max(1) as i32;
        let mut majors = powers(&(low..high), base, &[1.0], every);
        let mut minors = Vec::new();
        if unit != Unit::Bytes && exponents <= DECADES_WITH_MINORS_MAX {
            minors = powers(
                &(low..high),
                base,
                &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
                1,
            );
            let finer = powers(&(low..high), base, &[1.0, 2.0, 5.0], 1);
            if finer.len() <= ticks_max + 2 {
                majors = finer;
            }
        }
        if majors.len() < 3 {
            // On less than about a decade, equal steps are more useful than
            // powers.
            majors = multiples(low..high, step(unit, (high - low) / ticks_max as f64));
        }
        Self {
            unit,
            scale: Scale::Logarithmic,
            range: low..high,
            majors,
            minors,
        }
    }

    fn percentile((least, greatest): (f64, f64)) -> Self {
        let majors = [
            0.0,
            50.0,
            90.0,
            99.0,
            99.9,
            99.99,
            99.999,
            99.999_9,
            99.999_99,
            PERCENTILE_MAX,
        ];
        // The range reaches at least to the 90th percentile, which makes it
        // readable.
        let range = least.min(0.0)..greatest.max(90.0);
        Self {
            unit: Unit::Percentile,
            scale: Scale::Percentile,
            majors: majors
                .into_iter()
                .filter(|tick| range.contains(tick) || *tick == range.end)
                .collect(),
            minors: [25.0, 75.0]
                .into_iter()
                .filter(|tick| range.contains(tick))
                .collect(),
            range,
        }
    }

    /// The smallest value of the range.
    pub(super) fn low(&self) -> f64 {
        self.range.start
    }

    /// The greatest value of the range.
    pub(super) fn high(&self) -> f64 {
        self.range.end
    }

    /// The texts of the labelled ticks.
    pub(super) fn tick_labels(&self) -> impl Iterator<Item = String> {
        self.majors.iter().map(|tick| self.unit.tick(*tick))
    }

    /// The relative position of a value: 0 at the low end, 1 at the high end.
    fn share(&self, value: f64) -> f64 {
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
            Scale::Percentile => -(1.0 - value / 100.0).log10(),
        };
        let (low, high) = (along(self.range.start), along(self.range.end));
        ((along(value) - low) / (high - low)).clamp(0.0, 1.0)
    }
}

impl Ranged for LaidOutAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        low + (self.share(*value) * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.minors.clone()
        } else {
            self.majors.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for LaidOutAxis {
    fn format_ext(&self, value: &f64) -> String {
        self.unit.tick(*value)
    }
}

/// The smallest step of 1, 2 or 5 times a power of ten that is at least
/// `least`; for bytes, in the unit in which they are written.
fn step(unit: Unit, least: f64) -> f64 {
    let mut base = 1.0;
    if unit == Unit::Bytes {
        while least >= base * 1_024.0 {
            base *= 1_024.0;
        }
    }
    let whole_only = matches!(unit, Unit::Bytes | Unit::Count);
    let step = round_up(least / base, 10.0);
    base * if whole_only { step.max(1.0) } else { step }
}

/// The smallest of 1, 2 and 5 times a power of ten, or the smallest power of
/// two, that is at least `value`.
fn round_up(value: f64, base: f64) -> f64 {
    let power = base.powf(value.log(base).floor());
    let mantissas: &[f64] = if base == 10.0 {
        &[1.0, 2.0, 5.0, 10.0]
    } else {
        &[1.0, 2.0]
    };
    // A step that is too small only by a rounding error is accepted.
    let at_least = value * (1.0 - 1e-9);
    mantissas
        .iter()
        .map(|mantissa| mantissa * power)
        .find(|step| *step >= at_least)
        .unwrap_or(value)
}

/// Like [`round_up`], but the greatest that is at most `value`.
fn round_down(value: f64, base: f64) -> f64 {
    let power = base.powf(value.log(base).floor());
    let mantissas: &[f64] = if base == 10.0 {
        &[10.0, 5.0, 2.0, 1.0]
    } else {
        &[2.0, 1.0]
    };
    let at_most = value * (1.0 + 1e-9);
    mantissas
        .iter()
        .map(|mantissa| mantissa * power)
        .find(|step| *step <= at_most)
        .unwrap_or(value)
}

/// The multiples of `step` in `range`, both ends included.
fn multiples(range: Range<f64>, step: f64) -> Vec<f64> {
    let first = (range.start / step - 1e-9).ceil() as i64;
    let last = (range.end / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// `mantissas` times powers of `base` in `range`, both ends included; only every `every`-th power.
fn powers(range: &Range<f64>, base: f64, mantissas: &[f64], every: i32) -> Vec<f64> {
    let (low, high) = (range.start * (1.0 - 1e-9), range.end * (1.0 + 1e-9));
    let first = low.log(base).floor() as i32;
    let last = high.log(base).ceil() as i32;
    (first..=last)
        .filter(|exponent| exponent.rem_euclid(every) == 0)
        .flat_map(|exponent| {
            mantissas
                .iter()
                .map(move |mantissa| mantissa * base.powi(exponent))
        })
        .filter(|value| (low..=high).contains(value))
        .collect()
}
