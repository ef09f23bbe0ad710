//! Numbers as people write and read them.
//!
//! - `written`: sizes and times as options have them. They are read exactly as they are shown.
//! - `figures`: measured numbers, rounded for people: `812 us`, `29,997/s`, `12.3 MiB`.
//! - `table`: texts in columns.

mod figures;
mod table;
mod written;

pub use figures::{
    NONE, Unit, bytes, count, counted, latency, moment, percentile, rate, rough_span, seconds,
    share,
};
pub use table::{COLUMN_WIDTH_MAX, Columns, lines_of};
pub use written::{ByteSize, TimeSpan};
