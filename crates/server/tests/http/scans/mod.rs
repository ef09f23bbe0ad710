//! `/v0/entities` and `/v0/digest`.

mod contents;
mod streams;
