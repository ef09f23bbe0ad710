//! Places of chunked batches. Each holds memory that no budget counts, so their number is
//! bounded, and they last as long as their clients want.
//!
//! One owner (`owners`) has half of them at most: whoever keeps batches open keeps out only
//! further ones of its own.

use super::owners::owner_of;
use base::{Budget, Refused, Share};
use profile::lock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The chunked batches of all runtimes.
pub(crate) struct BatchPlaces {
    all: Arc<Budget>,
    each_max: usize,
    /// How many places each owner has, if any.
    by_owner: Mutex<BTreeMap<IpAddr, usize>>,
}

/// The place of one batch, until this is dropped.
pub(crate) struct BatchPlace {
    places: Arc<BatchPlaces>,
    owner: IpAddr,
    _share: Share,
}

impl BatchPlaces {
    /// So many places, all of them free.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Budget::new(max),
            each_max: max.div_ceil(2),
            by_owner: Mutex::default(),
        })
    }

    /// How many are taken.
    pub(crate) fn used(&self) -> usize {
        self.all.used()
    }

    /// Takes a place for a client of this address.
    ///
    /// # Errors
    /// [`Refused`] if none is left, or none for its owner.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Result<BatchPlace, Refused> {
        let owner = owner_of(client);
        let mut by_owner = lock(&self.by_owner);
        let held = by_owner.get(&owner).copied().unwrap_or_default();
        if held >= self.each_max {
            return Err(Refused);
        }
        let share = self.all.take(1)?;
        by_owner.insert(owner, held + 1);
        Ok(BatchPlace {
            places: Arc::clone(self),
            owner,
            _share: share,
        })
    }
}

impl Drop for BatchPlace {
    fn drop(&mut self) {
        let mut by_owner = lock(&self.places.by_owner);
        if let Some(held) = by_owner.get_mut(&self.owner) {
            *held -= 1;
            if *held == 0 {
                by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_half_of_the_places_at_most() {
        let places = BatchPlaces::new(5);
        let take = |address: &str| places.take(address.parse().unwrap());
        let mut of_one: Vec<_> = (0..3).map(|_| take("10.0.0.1").unwrap()).collect();
        assert!(take("10.0.0.1").is_err() && take("::ffff:10.0.0.1").is_err());
        let other = [take("10.0.0.2").unwrap(), take("2001:db8::1").unwrap()];
        assert!(take("10.0.0.3").is_err(), "none is left");
        assert_eq!(places.used(), 5);
        of_one.pop();
        let again = take("10.0.0.1").unwrap();
        drop((of_one, other, again));
        assert_eq!(places.used(), 0);
        assert!(lock(&places.by_owner).is_empty());
    }
}
