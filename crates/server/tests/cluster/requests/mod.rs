//! Requests on any node.

mod batches;
mod load;
mod long_values;
mod parameters;
mod placement;
