//! Plots, as the text of SVG files.
//!
//! [`Lines`] and [`Bars`] draw whatever is given to them; the functions here
//! draw what runs measured. The same values make the same text, whatever they
//! are: where there is nothing to draw, the axes stay empty.

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
    achieved_against_asked, failures, percentiles, probe_latencies, probes, throughput, timeline,
};

#[cfg(test)]
mod tests;
