//! What a request says.
//!
//! - `head`: checks its head; `verb`: its method; `trace_context`: the trace that it is part of.
//! - `negotiation`: which format of an answer it asks for; `entity_tag`: its conditions;
//!   `condition`: the condition of a write.
//! - `body`: its body, which a handler may leave unread.

pub(crate) mod body;
pub(crate) mod condition;
pub(crate) mod entity_tag;
pub(crate) mod head;
pub(crate) mod negotiation;
#[cfg(test)]
mod testing;
mod trace_context;
pub(crate) mod verb;
