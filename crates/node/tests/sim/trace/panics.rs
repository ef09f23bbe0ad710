//! Panics in the tasks of nodes, which the runtime would hide.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// The first panic of this thread since the last reset.
    static FIRST: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOKED: Once = Once::new();

/// Records panics from now on, and forgets earlier ones.
pub(crate) fn reset() {
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            FIRST.with_borrow_mut(|first| {
                first.get_or_insert_with(|| format!("a task panicked: {panic}"));
            });
            before(panic);
        }));
    });
    FIRST.take();
}

/// The first panic since the last reset.
pub(crate) fn take() -> Option<String> {
    FIRST.take()
}
