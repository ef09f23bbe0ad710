//! Requests to a node, and what each costs.

pub(super) mod growth;
pub(super) mod overload;
pub(super) mod queue;
pub(super) mod single;
pub(super) mod tls;
