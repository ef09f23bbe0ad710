//! The workload: keys, values and operations.
//!
//! A key is a number below `Plan::keys`, written out by [`keys::KeySpace`]; the
//! other modules work with numbers. All choices come from generators that are
//! seeded with `Plan::seed` and the thread's number, so a plan always sends the
//! same requests, only interleaved differently.

pub(crate) mod choice;
pub(crate) mod keys;
pub(crate) mod operations;
pub(crate) mod permutation;
pub(crate) mod sizes;
pub(crate) mod values;
pub(crate) mod zipf;
