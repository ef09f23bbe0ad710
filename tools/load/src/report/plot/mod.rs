//! Plots as SVG text.
//!
//! [`Lines`] and [`Bars`] draw any values; the functions here draw the results
//! of runs. Equal values give equal texts. Without values the axes are empty.

mod axis;
mod bars;
mod frame;
mod grid;
mod lines;
mod runs;

pub use axis::{Axis, Scale};
pub use bars::{BarSeries, Bars};
pub use grid::BoundLine;
pub use lines::{Lines, Mark, Series, Style};
pub use runs::{
    achieved_over_requested, failures, percentiles, probe_latencies, probes, throughput, timeline,
};

#[cfg(test)]
mod tests;
