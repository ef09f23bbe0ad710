//! Scans of the whole cluster.

mod contents;
mod partners;
