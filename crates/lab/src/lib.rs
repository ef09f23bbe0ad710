//! The laboratory: experiments on the store that write their own reports.
//!
//! An [`Experiment`] starts its own nodes (`nodes`), puts loads on them with
//! the generator (`measure`), looks into them (`profile`) and tells what it
//! found on a page (`page`). What a page concludes is computed from the run
//! that wrote it; fixed words only say how something was measured, and why
//! the store behaves as it does.

mod context;
mod error;
mod experiment;
mod experiments;
mod http;
mod machine;
mod measure;
mod nodes;
mod page;
mod profile;
mod sections;
mod settings;
mod statistics;
#[cfg(test)]
mod testing;

pub use error::Error;
pub use experiment::Experiment;
pub use experiments::EXPERIMENTS;
pub use settings::{Effort, Settings};
