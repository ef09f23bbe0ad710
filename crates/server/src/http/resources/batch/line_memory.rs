//! The memory for an arriving line of a batch, and the wait for it.

use super::lines::Lines;
use crate::admission::{UploadWait, Uploads};
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

/// Waits for memory for the lines of a batch, one after another.
#[derive(Default)]
pub(super) struct LineMemory {
    /// None as soon as it is over, whatever the line does then: a line may take minutes, and
    /// nobody else gets memory while somebody waits for it.
    wait: Option<UploadWait>,
    /// Until when the line may wait behind which so many have ended.
    until: Option<(u64, Instant)>,
}

impl LineMemory {
    /// Waits until there is memory for the line that stands still, or has it refused.
    pub(super) fn poll(
        &mut self,
        lines: &mut Lines,
        uploads: &Uploads,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let Some(bytes) = lines.waiting_bytes() else {
            return Poll::Ready(());
        };
        if self.wait.is_none() {
            self.wait = uploads
                .begin_wait(bytes, self.deadline(lines, uploads))
                .ok();
        }
        let has_memory = match &mut self.wait {
            Some(wait) => ready!(wait.poll(lines.lacking(uploads), cx)).is_ok(),
            None => false,
        };
        self.wait = None;
        if !has_memory {
            lines.refuse();
        }
        Poll::Ready(())
    }

    /// Ends a wait that nobody polls for now.
    pub(super) fn leave(&mut self) {
        self.wait = None;
    }

    /// However often a line waits, it has as long as a body in all.
    fn deadline(&mut self, lines: &Lines, uploads: &Uploads) -> Instant {
        match self.until {
            Some((ended, until)) if ended == lines.ended() => until,
            _ => {
                let until = uploads.deadline();
                self.until = Some((lines.ended(), until));
                until
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{LONG_VALUE_BYTES, Reservation};
    use bytes::Bytes;
    use std::task::Waker;
    use std::time::Duration;

    const WAIT_MAX: Duration = Duration::from_secs(60);
    const LONG_BYTES: usize = 1 << 20;

    /// A batch that reads lines, and the memory that others hold.
    struct Reader {
        uploads: Uploads,
        lines: Lines,
        memory: LineMemory,
        short: Option<Reservation>,
        long: Option<Reservation>,
    }

    impl Reader {
        /// All memory is held.
        fn new() -> Self {
            let uploads = Uploads::new((LONG_VALUE_BYTES, LONG_BYTES), 1, WAIT_MAX);
            let [mut short, mut long] = [None, None];
            let max = usize::MAX;
            uploads.cover(&mut short, LONG_VALUE_BYTES, max).unwrap();
            uploads.cover(&mut long, LONG_BYTES, max).unwrap();
            Self {
                lines: Lines::new(LONG_BYTES, None),
                memory: LineMemory::default(),
                uploads,
                short,
                long,
            }
        }

        /// The client sends so much more of a blank line. Returns whether there is memory for it.
        fn send(&mut self, bytes: usize) -> bool {
            self.lines.push(Bytes::from(vec![b' '; bytes]));
            self.take();
            self.lines.waiting_bytes().is_none()
        }

        fn take(&mut self) {
            assert!(self.lines.next(&self.uploads).is_none());
        }

        fn poll(&mut self) -> Poll<()> {
            let mut cx = Context::from_waker(Waker::noop());
            self.memory.poll(&mut self.lines, &self.uploads, &mut cx)
        }

        /// Whether anybody waits for memory of bodies of this length.
        fn is_awaited(&self, bytes: usize) -> bool {
            let until = self.uploads.deadline();
            self.uploads.begin_wait(bytes, until).is_err()
        }
    }

    #[tokio::test]
    async fn a_line_that_has_got_its_memory_waits_no_more_although_it_goes_on() {
        let mut reader = Reader::new();
        assert!(!reader.send(20 << 10));
        assert!(reader.poll().is_pending());
        assert!(reader.is_awaited(1));
        reader.short = None;
        assert!(reader.poll().is_ready());
        reader.take();
        assert!(
            !reader.is_awaited(1),
            "the line has memory, and has not ended"
        );
    }

    #[tokio::test]
    async fn a_line_that_grows_waits_for_the_memory_of_long_ones_next() {
        let mut reader = Reader::new();
        assert!(!reader.send(20 << 10));
        assert!(reader.poll().is_pending());
        reader.short = None;
        assert!(reader.poll().is_ready());
        reader.take();
        assert!(!reader.send(50 << 10));
        assert!(reader.poll().is_pending(), "it must not spin");
        assert!(reader.is_awaited(LONG_BYTES) && !reader.is_awaited(1));
        reader.long = None;
        assert!(reader.poll().is_ready());
        reader.take();
        assert_eq!(reader.lines.waiting_bytes(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_line_waits_for_so_long_in_all_and_no_more_once_it_is_refused() {
        let mut reader = Reader::new();
        assert!(!reader.send(20 << 10));
        assert!(reader.poll().is_pending());
        tokio::time::advance(WAIT_MAX / 2).await;
        reader.short = None;
        assert!(reader.poll().is_ready());
        reader.take();
        assert!(!reader.send(50 << 10));
        assert!(reader.poll().is_pending());
        tokio::time::advance(WAIT_MAX / 2).await;
        assert!(reader.poll().is_ready());
        assert_eq!(reader.lines.waiting_bytes(), None, "it is refused");
        assert!(!reader.is_awaited(LONG_BYTES), "the rest is skipped");
        reader.take();
        reader.lines.push(Bytes::from_static(b"\n"));
        assert!(reader.lines.next(&reader.uploads).is_some());
        // The next one has its own time.
        assert!(reader.lines.next(&reader.uploads).is_none());
        assert!(!reader.send(70 << 10));
        assert!(reader.poll().is_pending());
        tokio::time::advance(WAIT_MAX / 2).await;
        assert!(reader.poll().is_pending());
        reader.memory.leave();
        assert!(!reader.is_awaited(LONG_BYTES));
    }
}
