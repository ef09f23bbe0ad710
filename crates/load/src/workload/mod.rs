//! What is asked: keys, values and the order in which they come.
//!
//! A key is a number below `Plan::keys`, written out by [`keys::KeySpace`];
//! everything else is about numbers. All choices are made by generators that
//! are seeded from `Plan::seed` and the thread's number, so a plan asks for
//! the same things each time, only interleaved differently.

pub(crate) mod choice;
pub(crate) mod keys;
pub(crate) mod operations;
pub(crate) mod permutation;
pub(crate) mod sizes;
pub(crate) mod values;
pub(crate) mod zipf;
