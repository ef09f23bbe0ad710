//! Requests on any node.

mod batches;
mod conditions;
mod load;
mod long_values;
mod parameters;
mod placement;
