//! Ends the process if the store's work panics, because writers would wait forever and the state in
//! memory could be wrong. At the next start the WAL restores all acknowledged writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// What the process does before it ends.
static BEFORE_ABORT: OnceLock<fn()> = OnceLock::new();

/// Has `last` called before [`or_abort`] ends the process, so that what was logged is also
/// written. Only the first call counts.
pub fn before_abort(last: fn()) {
    let _is_first = BEFORE_ABORT.set(last).is_ok();
}

/// Runs `work`, and ends the process if it panics.
pub fn or_abort(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("the store panicked: ending the process");
        if let Some(last) = BEFORE_ABORT.get() {
            last();
        }
        std::process::abort();
    }
}
