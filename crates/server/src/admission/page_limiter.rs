//! A limit on the time that a runtime spends on pages (status and metrics).
//!
//! Pages are outside admission, so that an operator can inspect an overloaded node. But rendering a
//! page costs many times what a request costs, and a client that keeps asking for pages could keep
//! the node busy with them. So each runtime renders one page at a time, and then renders none for
//! [`REST_FACTOR`] times as long as that took. The number of requests that wait for a page is
//! bounded. The bytes of pages whose clients do not read them count with those of other answers
//! (`unsent_answers`).

use crate::admission::wait_sites;
use base::{Admitted, Clock, Permits, Refused};
use std::rc::Rc;
use std::time::Duration;

/// How much longer than it renders pages a runtime rests from them: so pages take
/// a fifth of its time at most.
const REST_FACTOR: u32 = 4;

/// How many requests for pages may wait. If a page takes half a millisecond, the
/// last of them waits for a third of a second.
const QUEUED_MAX: usize = 128;

/// Lets the pages of one runtime be rendered one at a time.
pub(crate) struct PageLimiter {
    permits: Rc<Permits>,
}

impl PageLimiter {
    pub(crate) fn new() -> Self {
        Self {
            permits: Permits::with_queue(1, QUEUED_MAX, &wait_sites::PAGE),
        }
    }

    /// Renders a page once all pages that were asked for before are done.
    ///
    /// # Errors
    /// [`Refused`] when too many requests wait for pages.
    pub(crate) async fn render<T>(
        &self,
        clock: &dyn Clock,
        page: impl FnOnce() -> T,
    ) -> Result<T, Refused> {
        let permit = match self.permits.admit(Duration::MAX)? {
            Admitted::Granted(permit) => permit,
            Admitted::Queued(queued) => queued.await?,
        };
        let began = clock.monotonic();
        let page = page();
        let took = clock.monotonic().saturating_sub(began);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(took * REST_FACTOR).await;
            drop(permit);
        });
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;
    use std::cell::Cell;
    use tokio::task::LocalSet;

    #[tokio::test(start_paused = true)]
    async fn pages_are_rendered_one_at_a_time_with_rests_between_them() {
        let clock = Rc::new(ManualClock::new(0));
        let limiter = Rc::new(PageLimiter::new());
        let local = LocalSet::new();
        let rendered = Rc::new(Cell::new(0));
        let ask = || {
            let (clock, limiter, rendered) =
                (Rc::clone(&clock), Rc::clone(&limiter), Rc::clone(&rendered));
            async move {
                let page = || {
                    // Rendering takes 10 ms of this clock and none of tokio's.
                    clock.advance(Duration::from_millis(10));
                    rendered.set(rendered.get() + 1);
                };
                limiter.render(&*clock, page).await
            }
        };
        local
            .run_until(async {
                let began = tokio::time::Instant::now();
                // The first is rendered at once, so it does not count as queued.
                let mut pages: Vec<_> = (0..QUEUED_MAX + 2)
                    .map(|_| tokio::task::spawn_local(ask()))
                    .collect();
                let last = pages.pop();
                assert_eq!(last.unwrap().await.unwrap(), Err(Refused));
                for (number, page) in pages.into_iter().enumerate() {
                    assert_eq!(page.await.unwrap(), Ok(()));
                    let rested = Duration::from_millis(40) * number as u32;
                    assert!(began.elapsed() >= rested, "{number}");
                    assert_eq!(rendered.get(), number + 1);
                }
                assert_eq!(limiter.permits.queued(), 0);
                assert_eq!(ask().await, Ok(()));
            })
            .await;
    }
}
