//! A panic in the work of the store ends the process, because writers would wait
//! forever and the state in memory could be wrong. At the next start the log restores
//! all acknowledged writes.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, and ends the process if it panics.
pub fn or_abort(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("the store panicked: ending the process");
        std::process::abort();
    }
}
