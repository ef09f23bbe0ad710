//! Reports of what was measured: pages and plots.

mod page;
pub mod plot;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use ::units;
pub use page::{PAGE, write, write_search};
