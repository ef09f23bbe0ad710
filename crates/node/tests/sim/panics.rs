//! Panics inside a node's tasks, which the runtime would swallow.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// The first panic of this thread since it was last forgotten.
    static FIRST: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOKED: Once = Once::new();

/// Begins to note panics, with none noted.
pub(crate) fn forget() {
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

/// The first panic since they were last forgotten.
pub(crate) fn take() -> Option<String> {
    FIRST.take()
}
