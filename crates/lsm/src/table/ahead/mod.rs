//! What a walk over a table reads ahead, and what it leaves to the next walk.

mod read;
mod scan;
mod values;

pub(in crate::table) use read::ReadAhead;
pub use scan::ScanAhead;
pub(in crate::table) use values::ValuesAhead;
