//! `/v0/entities` and `/v0/digest`.

mod aggregates;
mod conditions;
mod contents;
mod streams;
