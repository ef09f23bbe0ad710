//! What becomes of a panic in the store's work: the end of the process. Every
//! writer would wait in vain, and what is in memory could not be trusted. The
//! log restores all that was acknowledged.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does work of the store, and ends the process if that panics.
pub fn or_abort(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("the store panicked: ending the process");
        std::process::abort();
    }
}
