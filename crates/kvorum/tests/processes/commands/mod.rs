//! The commands that speak with nodes, and how a wrong command line is refused.

mod closed_stdout;
mod contexts;
mod hostile_node;
pub(crate) mod keys;
mod options;
mod profile;
mod questions;
mod tokens;
mod transfers;
