//! A client of the store: what a program needs to use a cluster over HTTP as its contract
//! asks for (`docs/reference/api.md`). The commands of `kvorum` that work with entities are made of
//! it. It depends on no crate of the store.
//!
//! - `client`: several nodes, what is repeated at which of them, and how often.
//! - `entity`: requests for one key.
//! - `range`: ranges that go on when a node dies, and never take a cut stream for a whole one.
//! - `import`: many lines as batches, without losing one; `batch`: one batch; `line`: entities
//!   as lines of JSON.
//! - `page`: what only one node knows, asked once.
//! - `error`, `problem`: what went wrong, which replica did what, and what to do.
//! - [`fuzzing`]: what fuzzers call.
//! - `connection`: one connection: HTTP by hyper, silence noticed, cut answers refused.
//! - `query`, `node`: how requests and nodes are written; `text`: bytes as text.
//! - `token`: who the client is.

mod batch;
mod client;
mod connection;
mod entity;
mod error;
pub mod fuzzing;
mod import;
mod line;
mod node;
mod page;
mod problem;
mod query;
mod range;
#[cfg(test)]
mod testing;
mod text;
mod token;

pub use client::{Client, Settings};
pub use connection::Limits;
pub use entity::{EntityHead, Found, KeyReplica, KeyReplicas};
pub use error::{Error, Remedy};
pub use import::{
    ImportError, ImportObserver, ImportSettings, LineFailure, Position, Progress, Waiting, import,
};
pub use line::Entity;
pub use node::{HostError, Node};
pub use page::{Page, PageRequest, fetch};
pub use problem::{Problem, Refusal, ReplicaOutcome};
pub use query::Replicas;
pub use range::{RangeReader, RangeRequest, Scope};
pub use text::{base64_form, one_line, parse_base64, parse_percent, percent_form};
pub use token::{Token, TokenError};
