//! Reports of what was measured: pages and plots.

mod page;
pub mod plot;
pub mod units;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use page::{PAGE, write, write_search};
