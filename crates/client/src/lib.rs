//! A client of the store's HTTP API (`docs/reference/api.md`). The commands of `kvorum` for
//! entities use it, and so can any program. It depends on no crate of the store.
//!
//! The README has its first lines, and `examples/sessions/rust` a whole program. [`Client`] is where
//! to begin: it takes [`Node`]s and [`Settings`].
//!
//! - `client`: several nodes, and which of them to retry, and how often.
//! - `entity`: requests for one key. `batch`: many of them in one request. `pipeline`:
//!   many batches over one connection, none of which waits for the one before it.
//! - `scan`: scans that survive the death of a node, and never mistake a truncated stream for a
//!   complete one.
//! - `import`: many lines in batches, without losing one.
//! - `single`: one request to one node.
//! - `error`: what went wrong, which replica did what, and what to do.
//! - `connection`: one HTTP connection (hyper), which detects silence and refuses truncated
//!   answers.
//! - `query`, `node`: the syntax of requests, nodes and tokens; `text`: bytes as text.

mod batch;
mod client;
mod connection;
mod entity;
mod error;
mod import;
mod node;
mod pipeline;
mod query;
mod scan;
mod single;
#[cfg(test)]
mod testing;
mod text;

pub use api::{Entity, ListedLine, Problem};
pub use batch::{BatchAnswer, BatchCondition, BatchOperation};
pub use client::{Client, Settings};
pub use connection::Limits;
pub use entity::{Condition, EntityHead, Found, KeyReplica, KeyReplicas};
pub use error::refusal::Refusal;
pub use error::{Error, Remedy, reasons};
pub use import::{
    ImportError, ImportObserver, ImportOperation, ImportProgress, ImportSettings, LineFailure,
    Position, Waiting, import,
};
pub use node::{HostError, Node, Token, TokenError, UrlError};
pub use pipeline::{BatchAnswers, Pipeline};
pub use query::Replicas;
pub use scan::{Aggregate, AggregatedGroup, Aggregates, Operand, ScanReader, ScanRequest, Scope};
pub use single::{KeptConnection, SingleRequest, SingleResponse, fetch, fetch_pieces};
pub use text::{one_line, parse_base64, parse_percent, percent_form};
