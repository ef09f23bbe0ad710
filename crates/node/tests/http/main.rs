//! A node as its clients see it: the HTTP contract over real sockets, byte by
//! byte, on a disk in memory.

mod connections;
mod entities;
mod general;
mod lifecycle;
mod overload;
mod ranges;
mod support;
