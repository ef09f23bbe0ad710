//! `/v0/batch`.

mod bounds;
mod clients;
mod operations;
mod streams;
