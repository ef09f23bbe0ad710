//! The laboratory: experiments on the store that write their own pages.
//!
//! An [`Experiment`] starts nodes of its own (`nodes`), puts load on them with
//! the generator (`measure`), profiles them (`profile`) and keeps what it found
//! for a page (`page`). A person wrote the text of the page, beside the experiment; figures,
//! tables and charts are filled in.

mod context;
mod error;
mod experiment;
mod experiments;
mod figures;
mod http;
mod machine;
mod measure;
mod nodes;
mod page;
mod settings;
mod statistics;
#[cfg(test)]
mod testing;

pub use error::Error;
pub use experiment::Experiment;
pub use experiments::EXPERIMENTS;
pub use settings::{Effort, Settings};
