//! Bytes of bodies on their way in.

use base::{Budget, LONG_VALUE_BYTES, Refused, Share};
use std::sync::Arc;

/// The share of a long body grows by so many bytes at a time.
const UPLOAD_STEP_BYTES: usize = 256 << 10;

/// Bytes of bodies on their way in. A body counts by what has arrived of it,
/// so that one that is announced and does not come takes no room from others,
/// and short bodies have a budget of their own, so that long ones that are
/// slow to come do not keep them out.
#[derive(Debug)]
pub(crate) struct Uploads {
    short: Arc<Budget>,
    long: Arc<Budget>,
}

impl Uploads {
    /// So many bytes for bodies that have brought up to [`LONG_VALUE_BYTES`],
    /// and so many for longer ones.
    pub(crate) fn new(short_bytes: usize, long_bytes: usize) -> Self {
        Self {
            short: Budget::new(short_bytes),
            long: Budget::new(long_bytes),
        }
    }

    /// How many bytes are taken.
    pub(crate) fn used(&self) -> usize {
        self.short.used() + self.long.used()
    }

    /// Whether a body of this length would fit as things are, which is no promise.
    ///
    /// # Errors
    /// [`Refused`] when not: then it had better not begin.
    pub(crate) fn check_room(&self, announced_bytes: usize) -> Result<(), Refused> {
        let free = self.long.max().saturating_sub(self.long.used());
        if announced_bytes > LONG_VALUE_BYTES && announced_bytes > free {
            return Err(Refused);
        }
        Ok(())
    }

    /// Makes `share` cover the `bytes` that have arrived of a body that has at
    /// most `bytes_max`.
    ///
    /// # Errors
    /// [`Refused`] when there is not as much left.
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
    fn a_body_counts_as_it_comes_and_a_long_one_leaves_room_for_short_ones() {
        let (short, long) = (2 * LONG_VALUE_BYTES, 1 << 20);
        let uploads = Uploads::new(short, long);
        let bytes_max = long;
        let mut slow = None;
        uploads.cover(&mut slow, 1, bytes_max).unwrap();
        assert_eq!(uploads.used(), 1, "what is announced takes nothing");
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
