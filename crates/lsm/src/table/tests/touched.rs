//! Counts how often an operation looks at what a table holds.

use std::cell::Cell;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Notes a look at a table.
pub(crate) fn note() {
    LOOKS.set(LOOKS.get() + 1);
}

/// How often `work` looks at tables.
pub(crate) fn looks(work: impl FnOnce()) -> u64 {
    let before = LOOKS.get();
    work();
    LOOKS.get() - before
}
