//! Whose turn it is to have a page made.
//!
//! Status and metrics are outside admission, so that an overloaded node can be
//! looked at. A page takes many times what a request takes, though: whoever
//! asks for one again and again would have the node do nothing else. So each
//! runtime makes one page at a time, and rests from pages afterwards for
//! [`RESTS`] times as long as that took. What waits is bounded; the bytes of
//! pages that are not taken count with other answers (`unsent`).

use base::{Clock, Refused};
use std::cell::Cell;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Pages take a fifth of a runtime at most.
const RESTS: u32 = 4;

/// How many requests for pages may wait. With pages that take half a
/// millisecond the last of them waits for a third of a second.
const WAITING_MAX: usize = 128;

/// Who makes a page, and how many wait for that, of one runtime.
pub(crate) struct PageTurns {
    turn: Arc<Semaphore>,
    waiting: Cell<usize>,
}

/// One that waits or has its turn.
struct Waiting<'a>(&'a Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl PageTurns {
    pub(crate) fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            waiting: Cell::new(0),
        }
    }

    /// Makes a page when it is its turn.
    ///
    /// # Errors
    /// [`Refused`] where too many wait.
    pub(crate) async fn make<T>(
        &self,
        clock: &dyn Clock,
        page: impl FnOnce() -> T,
    ) -> Result<T, Refused> {
        if self.waiting.get() == WAITING_MAX {
            return Err(Refused);
        }
        self.waiting.set(self.waiting.get() + 1);
        let waiting = Waiting(&self.waiting);
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let turn = turn.map_err(|_| Refused)?;
        drop(waiting);
        let began = clock.monotonic();
        let page = page();
        let took = clock.monotonic().saturating_sub(began);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(took * RESTS).await;
            drop(turn);
        });
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;
    use std::rc::Rc;
    use std::time::Duration;
    use tokio::task::LocalSet;

    #[tokio::test(start_paused = true)]
    async fn pages_are_made_one_at_a_time_with_rests_between_them() {
        let clock = Rc::new(ManualClock::new(0));
        let turns = Rc::new(PageTurns::new());
        let local = LocalSet::new();
        let made = Rc::new(Cell::new(0));
        let ask = || {
            let (clock, turns, made) = (Rc::clone(&clock), Rc::clone(&turns), Rc::clone(&made));
            async move {
                let page = || {
                    // It takes 10 ms of this clock and none of tokio's.
                    clock.advance(Duration::from_millis(10));
                    made.set(made.get() + 1);
                };
                turns.make(&*clock, page).await
            }
        };
        local
            .run_until(async {
                let began = tokio::time::Instant::now();
                // The first has its turn at once.
                let mut pages: Vec<_> = (0..WAITING_MAX + 2)
                    .map(|_| tokio::task::spawn_local(ask()))
                    .collect();
                let last = pages.pop();
                assert_eq!(last.unwrap().await.unwrap(), Err(Refused));
                for (number, page) in pages.into_iter().enumerate() {
                    assert_eq!(page.await.unwrap(), Ok(()));
                    let rested = Duration::from_millis(40) * number as u32;
                    assert!(began.elapsed() >= rested, "{number}");
                    assert_eq!(made.get(), number + 1);
                }
                assert_eq!(turns.waiting.get(), 0);
                assert_eq!(ask().await, Ok(()));
            })
            .await;
    }
}
