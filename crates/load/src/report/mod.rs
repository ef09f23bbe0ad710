//! Reports of what was measured: pages, plots and text.

pub mod plot;
pub mod units;

#[cfg(test)]
mod samples;
