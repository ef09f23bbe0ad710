//! `/v0/entities` and `/v0/digest`.

mod conditions;
mod contents;
mod streams;
