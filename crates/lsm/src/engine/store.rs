//! The store: the core, and above it the jobs that take several steps.

use super::compaction::Compactor;
use super::core::Core;
use super::flush::Flusher;

/// What the clones of an engine and its jobs share: the core, and above it the
/// jobs that take several steps.
pub(super) struct Store {
    pub(super) core: Core,
    pub(super) flusher: Flusher,
    pub(super) compactor: Compactor,
}
