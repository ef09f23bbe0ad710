//! The tokens that all nodes of a cluster share, as `/v0/admin/tokens` takes and lists them.

#![expect(
    missing_docs,
    reason = "a field whose name says it all needs no text in the OpenAPI document"
)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A token that the nodes share, or that it is revoked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedToken {
    pub name: String,
    /// Which change of the token with this name it is. A later one takes the place of an earlier one.
    pub change: u64,
    /// Whether the token is revoked. Then it has no rights.
    #[serde(default)]
    pub revoked: bool,
    /// The SHA-256 of the token, in hexadecimal digits.
    pub sha256: String,
    #[serde(default)]
    pub read: bool,
    #[serde(default)]
    pub write: bool,
    /// The prefixes of the keys that it may read or write, in base64; none for all keys.
    #[serde(default)]
    pub prefixes_base64: Vec<String>,
    #[serde(default)]
    pub admin: bool,
    #[serde(default)]
    pub metrics: bool,
    /// From when on it is not in force any more, as RFC 3339 writes it; left out: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// The tokens of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct SharedTokens {
    /// Whether the node has a tokens file, without which clients need no tokens.
    pub has_tokens_file: bool,
    /// The names of the tokens in that file, which only this node has.
    pub from_file: Vec<String>,
    /// What the nodes share, revoked tokens included, in the order of their names.
    pub tokens: Vec<SharedToken>,
}
