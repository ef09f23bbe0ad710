//! The laboratory: experiments on the store that write their own pages.
//!
//! An [`Experiment`] starts nodes of its own (`nodes`), puts load on them with
//! the generator (`measure`), profiles them (`profile`) and describes the
//! results on a page (`page`). The conclusions of a page are computed from its
//! run; fixed sentences only say how something was measured and why the store
//! behaves so.

mod certificates;
mod context;
mod equality;
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
