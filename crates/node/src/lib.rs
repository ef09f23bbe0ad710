//! A node.
