//! What is sent only if both sides have a feature.

mod contact;
mod many;
pub(crate) mod node_report;
mod promises;
mod same;
mod traces;

use super::*;
