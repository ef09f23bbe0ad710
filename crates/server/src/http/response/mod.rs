//! The bytes of an answer.
//!
//! - `headers`: the header fields that several resources set.
//! - `body`: bodies; `chunk`: a chunk of a body in several parts.
//! - `page`: bodies that are whole texts; `json_line`: an entity as a line of JSON.

pub(crate) mod body;
pub(crate) mod chunk;
pub(crate) mod headers;
pub(crate) mod json_line;
pub(crate) mod page;
