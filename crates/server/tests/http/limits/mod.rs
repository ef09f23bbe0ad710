//! What clients cannot take from a node: connections, memory, permits.

mod connections;
mod memory;
mod overload;
