//! The API as text: what a node and its clients both write and read. It does no I/O, and knows
//! neither HTTP nor the store.
//!
//! - `line`: entities as lines of JSON. `fields`: the fields of such a line and of a line of a
//!   batch, as they are read.
//! - `problem`: problems (RFC 9457) with their receipts; [`problem_type`]: all types of them.
//! - [`OPENAPI`]: the description of the API.
//! - [`status`]: how a node is. [`cluster`]: how all nodes are, and what an operator has to do.
//! - [`members`]: the list of members, and what a change of it does.
//! - [`tokens`]: the tokens that nodes share.
//! - [`runbook`]: where the console shows what to do.
//! - [`rfc3339`]: times of expiry as text.
//! - [`fuzzing`]: what fuzzers call.

pub mod cluster;
mod fields;
pub mod fuzzing;
pub mod history;
mod line;
pub mod members;
mod problem;
pub mod problem_type;
pub mod rfc3339;
pub mod runbook;
pub mod status;
pub mod tokens;

pub use fields::{Fields, bytes_of};
pub use line::{Entity, EntityLine, ListedLine, text_or_base64, write_prefix_line};
pub use problem::{NOT_APPLIED, Problem, RETRY_AFTER_SECONDS, ReplicaOutcome, UNKNOWN};
pub use problem_type::ProblemType;

/// The HTTP API as an OpenAPI document, which each node serves. It has no `HEAD`, which follows
/// from `GET`, and one `OPTIONS` for all paths.
pub const OPENAPI: &str = include_str!("../openapi.json");
