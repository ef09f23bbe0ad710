//! A load generator for the store.
//!
//! A [`Plan`] says what to ask, of whom and how fast; a [`Run`] what came of it.

pub mod outcome;
pub mod plan;
pub mod report;

pub use outcome::Run;
pub use plan::Plan;
