//! Stores that lost something: they do not count, and are rebuilt by the others.

mod filled_stores;
mod rebuilds;
mod voter;
