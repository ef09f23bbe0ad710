//! How many acknowledged writes may be lost with the stores that are learners now.
//!
//! A write that several stores acknowledged is lost only if all of them are. So the loss of a
//! single store takes only versions with a single copy. If several stores are lost at a time,
//! writes that only they acknowledged may be gone, too: at most as many as they have acknowledged
//! since a full repair last made them equal with a store that is left.

/// A store that is a learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostStore {
    /// The versions of which it was to keep the only copy, as of its last full session;
    /// `None` if that is not known.
    pub single_copies: Option<u64>,
    /// The writes that it has acknowledged since a full session last made it equal with a
    /// store that is left; `None` if that is not known.
    pub since_full_session: Option<u64>,
}

/// How many acknowledged writes may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PossibleLoss {
    /// The versions of which a lost store was to keep the only copy.
    pub single_copies: u64,
    /// The writes that several lost stores have acknowledged since a full session.
    pub since_full_session: u64,
    /// Whether there is a part that is not known.
    pub has_unknown: bool,
}

impl PossibleLoss {
    /// What may be lost with these stores, which are learners at one time.
    pub fn of(lost: &[LostStore]) -> Self {
        let mut loss = Self::default();
        for store in lost {
            let shared = match lost.len() {
                1 => Some(0),
                _ => store.since_full_session,
            };
            let sum = |sum: u64, more: Option<u64>| sum.saturating_add(more.unwrap_or(0));
            loss.single_copies = sum(loss.single_copies, store.single_copies);
            loss.since_full_session = sum(loss.since_full_session, shared);
            loss.has_unknown |= store.single_copies.is_none() || shared.is_none();
        }
        loss
    }

    /// At most this many are lost, besides what is not known.
    pub fn writes_max(self) -> u64 {
        self.single_copies.saturating_add(self.since_full_session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(single_copies: Option<u64>, since_full_session: Option<u64>) -> LostStore {
        LostStore {
            single_copies,
            since_full_session,
        }
    }

    fn loss_of(lost: &[LostStore]) -> (u64, bool) {
        let loss = PossibleLoss::of(lost);
        (loss.writes_max(), loss.has_unknown)
    }

    #[test]
    fn of_one_store_only_single_copies_are_lost() {
        assert_eq!(loss_of(&[]), (0, false));
        assert_eq!(loss_of(&[store(Some(3), Some(10))]), (3, false));
        assert_eq!(loss_of(&[store(Some(0), None)]), (0, false));
        assert_eq!(loss_of(&[store(None, Some(10))]), (0, true));
    }

    #[test]
    fn of_several_stores_the_writes_since_the_last_full_session_are_lost_too() {
        let (one, other) = (store(Some(3), Some(10)), store(Some(0), Some(7)));
        assert_eq!(loss_of(&[one, other]), (20, false));
        assert_eq!(loss_of(&[one, store(Some(1), None)]), (14, true));
        let endless = store(Some(u64::MAX), Some(u64::MAX));
        assert_eq!(loss_of(&[endless, one]), (u64::MAX, false));
    }
}
