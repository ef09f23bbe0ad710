//! The end of a store, and its opening.

mod close;
mod crashes;
mod drop_above;
mod lost_files;
mod lost_tables;
mod many_tables;
mod replay;
