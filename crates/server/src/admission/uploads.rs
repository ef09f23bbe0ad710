//! The memory for request bodies that are being received.

use super::upload_wait::UploadWait;
use crate::admission::wait_sites;
use base::{LONG_VALUE_BYTES, Promise, Quota, Refused, Reservation, Turn};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// By how many bytes at a time the reservation of a long body grows.
pub(super) const UPLOAD_STEP_BYTES: usize = 256 << 10;

/// Quotas for the bodies of requests that are being received, in bytes.
///
/// A body counts by the bytes that were received, not by those that were announced,
/// so that a body that never arrives takes nothing from others. Short bodies have a
/// quota of their own, so that slow long bodies do not keep them out.
///
/// A write keeps its body until the last replica has it or a hint is kept for it, which may be
/// `--timeout` after its client has the answer. A client that sends the next body at once must
/// not be refused because of that. So a body whose length is announced and finds too little waits
/// that long for some, in line, before any of it is read (`upload_wait`). Once it is let in, others
/// are let in for a second only beside all of it.
///
/// Nothing is reserved for longer, so a slow body, or one of unknown length, may still find
/// too little when a part of it is here. It waits then only if no other such body does, so two that
/// lack memory do not wait for each other's. What has no announced length takes what is free,
/// whoever waits.
pub(crate) struct Uploads {
    short: Arc<Quota>,
    long: Arc<Quota>,
    /// How long a body waits.
    wait_max: Duration,
}

impl Uploads {
    /// A quota of `short_bytes` for bodies of which up to [`LONG_VALUE_BYTES`] were
    /// received, and one of `long_bytes` for longer ones. For each so many may wait, for so long.
    pub(crate) fn new(
        (short_bytes, long_bytes): (usize, usize),
        waiting_max: usize,
        wait_max: Duration,
    ) -> Self {
        Self {
            // One is next, and so many wait behind it.
            short: Quota::with_line(short_bytes, waiting_max.saturating_add(1)),
            long: Quota::with_line(long_bytes, waiting_max.saturating_add(1)),
            wait_max,
        }
    }

    /// How many bytes are in use.
    pub(crate) fn used(&self) -> usize {
        self.short.used() + self.long.used()
    }

    /// Waits until a body of this length fits, and promises it that much, if it is long or had to
    /// wait.
    ///
    /// # Errors
    /// [`Refused`] when it does not fit in time, or too many wait, so that the client need not
    /// send it.
    pub(crate) async fn wait_for_memory(
        &self,
        announced_bytes: usize,
    ) -> Result<Option<Promise>, Refused> {
        let quota = self.quota(announced_bytes);
        // A short body is about to be here, and most are short.
        let is_short = announced_bytes <= LONG_VALUE_BYTES;
        if announced_bytes == 0 || (is_short && is_free(quota, announced_bytes)) {
            return Ok(None);
        }
        let mut wait = UploadWait::begin(quota, Turn::Passable, self.deadline())?;
        let mut waiting = None;
        let polled = poll_fn(|cx| {
            let polled = wait.poll(announced_bytes, cx);
            if polled.is_pending() {
                waiting.get_or_insert_with(|| wait_sites::UPLOAD_MEMORY.begin());
            }
            polled
        });
        polled.await?;
        Ok(Some(wait.into_promise(announced_bytes)))
    }

    /// Makes `reservation` cover the `bytes` that were received of a body that has at most
    /// `bytes_max`.
    ///
    /// # Errors
    /// [`Refused`] when the quota is used up.
    pub(crate) fn cover(
        &self,
        reservation: &mut Option<Reservation>,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<(), Refused> {
        let more = self.lacking(reservation.as_ref(), bytes, bytes_max);
        if more == 0 {
            return Ok(());
        }
        let quota = self.quota(bytes);
        match reservation {
            Some(reservation) if reservation.is_of(quota) => reservation.grow(more),
            _ => {
                *reservation = Some(quota.try_reserve(more)?);
                Ok(())
            }
        }
    }

    /// As [`Uploads::cover`], but waits for memory as [`Uploads`] says.
    ///
    /// # Errors
    /// [`Refused`] when the quota stays used up.
    pub(crate) async fn cover_patiently(
        &self,
        reservation: &mut Option<Reservation>,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<(), Refused> {
        if self.cover(reservation, bytes, bytes_max).is_ok() {
            return Ok(());
        }
        let mut wait = self.begin_wait(bytes, self.deadline())?;
        loop {
            let more = self.lacking(reservation.as_ref(), bytes, bytes_max);
            poll_fn(|cx| wait.poll(more, cx)).await?;
            if self.cover(reservation, bytes, bytes_max).is_ok() {
                return Ok(());
            }
        }
    }

    /// Until when a body waits that begins to wait now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.wait_max
    }

    /// Begins to wait for memory for a body of which so many bytes were received.
    ///
    /// # Errors
    /// [`Refused`] if another such body waits.
    pub(crate) fn begin_wait(&self, bytes: usize, until: Instant) -> Result<UploadWait, Refused> {
        UploadWait::begin(self.quota(bytes), Turn::First, until)
    }

    /// How much more a reservation takes to cover so many bytes.
    pub(crate) fn lacking(
        &self,
        reservation: Option<&Reservation>,
        bytes: usize,
        bytes_max: usize,
    ) -> usize {
        if bytes <= reservation.map_or(0, Reservation::amount) {
            return 0;
        }
        let quota = self.quota(bytes);
        let wanted = if bytes <= LONG_VALUE_BYTES {
            bytes
        } else {
            let stepped = bytes
                .checked_next_multiple_of(UPLOAD_STEP_BYTES)
                .unwrap_or(bytes);
            stepped.min(bytes_max).max(bytes)
        };
        let covered = reservation.filter(|reservation| reservation.is_of(quota));
        wanted - covered.map_or(0, Reservation::amount)
    }

    fn quota(&self, bytes: usize) -> &Arc<Quota> {
        if bytes <= LONG_VALUE_BYTES {
            &self.short
        } else {
            &self.long
        }
    }
}

/// Whether so much is free, and nobody waits.
fn is_free(quota: &Quota, bytes: usize) -> bool {
    quota.waiting() == 0 && bytes <= quota.left()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = UPLOAD_STEP_BYTES;

    #[tokio::test]
    async fn a_body_counts_by_its_received_bytes_and_a_long_one_leaves_memory_to_short_ones() {
        let (short, long) = (2 * LONG_VALUE_BYTES, 1 << 20);
        let uploads = Uploads::new((short, long), 0, Duration::ZERO);
        let bytes_max = long;
        let mut slow = None;
        uploads.cover(&mut slow, 1, bytes_max).unwrap();
        assert_eq!(uploads.used(), 1, "announced bytes do not count");
        uploads
            .cover(&mut slow, LONG_VALUE_BYTES + 1, bytes_max)
            .unwrap();
        assert_eq!(
            (uploads.short.used(), uploads.long.used()),
            (0, UPLOAD_STEP_BYTES)
        );
        assert!(uploads.wait_for_memory(long).await.is_err());
        assert!(uploads.wait_for_memory(long - STEP).await.is_ok());
        uploads.cover(&mut slow, long, bytes_max).unwrap();
        assert_eq!(uploads.used(), long);
        let mut other = None;
        assert!(
            uploads
                .cover(&mut other, LONG_VALUE_BYTES + 1, bytes_max)
                .is_err()
        );
        uploads
            .cover(&mut other, LONG_VALUE_BYTES, bytes_max)
            .unwrap();
        assert!(uploads.wait_for_memory(LONG_VALUE_BYTES).await.is_ok());
        drop((slow, other));
        assert_eq!(uploads.used(), 0);
    }
}
