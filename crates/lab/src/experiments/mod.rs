//! The experiments, each a file. They all have the same parts: `run` measures
//! and hands over to functions that turn figures into tables, plots and
//! sentences; those are tested on figures made by hand.

mod single;
mod tables;

use crate::Experiment;

/// All of them, in the order in which they are best read.
pub const EXPERIMENTS: &[Experiment] = &[single::EXPERIMENT, tables::EXPERIMENT];
