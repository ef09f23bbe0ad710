//! A client of the store: what a program needs to use a cluster over HTTP as its contract
//! asks for (`docs/reference/api.md`). The commands of `kvorum` that work with entities are made of
//! it. It depends on no crate of the store.
//!
//! - `client`: several nodes, what is repeated at which of them, and how often.
//! - `entity`: requests for one key.
//! - `range`: ranges that go on when a node dies, and never take a cut stream for a whole one.
//! - `import`: many lines as batches, without losing one.
//! - `single`: one request to one node.
//! - `error`: what went wrong, which replica did what, and what to do.
//! - `connection`: one connection: HTTP by hyper, silence noticed, cut answers refused.
//! - `query`, `node`: how requests, nodes and tokens are written; `text`: bytes as text.

mod client;
mod connection;
mod entity;
mod error;
mod import;
mod node;
mod query;
mod range;
mod single;
#[cfg(test)]
mod testing;
mod text;

pub use client::{Client, Settings};
pub use connection::Limits;
pub use entity::{EntityHead, Found, KeyReplica, KeyReplicas};
pub use error::refusal::Refusal;
pub use error::{Error, Remedy};
pub use import::{
    ImportError, ImportObserver, ImportProgress, ImportSettings, LineFailure, Position, Waiting,
    import,
};
pub use node::{HostError, Node, Token, TokenError};
pub use query::Replicas;
pub use range::{RangeReader, RangeRequest, Scope};
pub use single::{SingleRequest, SingleResponse, fetch};
pub use text::{one_line, parse_base64, parse_percent, percent_form};
