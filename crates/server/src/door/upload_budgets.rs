//! Budgets for the bodies of requests that are being received.

use base::{Budget, LONG_VALUE_BYTES, Refused, Share};
use std::sync::Arc;

/// By how many bytes at a time the share of a long body grows.
const UPLOAD_STEP_BYTES: usize = 256 << 10;

/// Budgets for the bodies of requests that are being received, in bytes.
///
/// A body counts by the bytes that were received, not by those that were announced,
/// so that a body that never arrives takes no room from others. Short bodies have a
/// budget of their own, so that slow long bodies do not keep them out.
#[derive(Debug)]
pub(crate) struct Uploads {
    short: Arc<Budget>,
    long: Arc<Budget>,
}

impl Uploads {
    /// A budget of `short_bytes` for bodies of which up to [`LONG_VALUE_BYTES`] were
    /// received, and one of `long_bytes` for longer ones.
    pub(crate) fn new(short_bytes: usize, long_bytes: usize) -> Self {
        Self {
            short: Budget::new(short_bytes),
            long: Budget::new(long_bytes),
        }
    }

    /// How many bytes are in use.
    pub(crate) fn used(&self) -> usize {
        self.short.used() + self.long.used()
    }

    /// Checks that a body of this length would fit now. This reserves nothing, so the
    /// body may be refused later all the same.
    ///
    /// # Errors
    /// [`Refused`] when it would not fit, so that the client need not send it.
    pub(crate) fn check_room(&self, announced_bytes: usize) -> Result<(), Refused> {
        let free = self.long.max().saturating_sub(self.long.used());
        if announced_bytes > LONG_VALUE_BYTES && announced_bytes > free {
            return Err(Refused);
        }
        Ok(())
    }

    /// Makes `share` cover the `bytes` that were received of a body that has at most
    /// `bytes_max`.
    ///
    /// # Errors
    /// [`Refused`] when the budget is used up.
    pub(crate) fn cover(
        &self,
        share: &mut Option<Share>,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<(), Refused> {
        let covered = share.as_ref().map_or(0, Share::amount);
        if bytes <= covered {
            return Ok(());
        }
        let (budget, wanted) = if bytes <= LONG_VALUE_BYTES {
            (&self.short, bytes)
        } else {
            let stepped = bytes
                .checked_next_multiple_of(UPLOAD_STEP_BYTES)
                .unwrap_or(bytes);
            (&self.long, stepped.min(bytes_max).max(bytes))
        };
        match share {
            Some(share) if share.is_of(budget) => share.grow(wanted - covered),
            _ => {
                *share = Some(budget.take(wanted)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_counts_by_its_received_bytes_and_a_long_one_leaves_room_for_short_ones() {
        let (short, long) = (2 * LONG_VALUE_BYTES, 1 << 20);
        let uploads = Uploads::new(short, long);
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
        assert!(uploads.check_room(long).is_err());
        assert_eq!(uploads.check_room(long - UPLOAD_STEP_BYTES), Ok(()));
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
        assert_eq!(uploads.check_room(LONG_VALUE_BYTES), Ok(()));
        drop((slow, other));
        assert_eq!(uploads.used(), 0);
    }
}
