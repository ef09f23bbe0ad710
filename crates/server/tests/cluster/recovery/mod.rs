//! Stores that lost something: they do not count, and are rebuilt by the others.

mod rebuilds;
mod rebuilt_stores;
mod voter;
