//! Permits for chunked batches. Each batch holds memory that no quota counts and lasts as long as
//! its client wants, so their number is bounded.
//!
//! One owner (`owners`) gets at most half of them, so a client that keeps batches open shuts out
//! only its own.

use super::owners::owner_of;
use base::{FairQuota, Refused};
use profile::lock;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The chunked batches of all runtimes.
pub(crate) struct BatchStreams {
    running: Mutex<FairQuota<IpAddr, ()>>,
    each_max: usize,
}

/// Lets one batch run, until this is dropped.
pub(crate) struct BatchStream {
    streams: Arc<BatchStreams>,
    number: u64,
}

impl BatchStreams {
    /// So many may run.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            running: Mutex::new(FairQuota::new(max)),
            each_max: max.div_ceil(2),
        })
    }

    /// How many run.
    pub(crate) fn used(&self) -> usize {
        lock(&self.running).used()
    }

    /// Admits a batch of a client of this address.
    ///
    /// # Errors
    /// [`Refused`] if too many run, or too many of its owner.
    pub(crate) fn admit(self: &Arc<Self>, client: IpAddr) -> Result<BatchStream, Refused> {
        let owner = owner_of(client);
        let number = lock(&self.running).try_add(owner, 1, self.each_max, ())?;
        Ok(BatchStream {
            streams: Arc::clone(self),
            number,
        })
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        lock(&self.streams.running).remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_half_of_the_batches_at_most() {
        let streams = BatchStreams::new(5);
        let admit = |address: &str| streams.admit(address.parse().unwrap());
        let mut of_one: Vec<_> = (0..3).map(|_| admit("10.0.0.1").unwrap()).collect();
        assert!(admit("10.0.0.1").is_err() && admit("::ffff:10.0.0.1").is_err());
        let other = [admit("10.0.0.2").unwrap(), admit("2001:db8::1").unwrap()];
        assert!(admit("10.0.0.3").is_err(), "none is left");
        assert_eq!(streams.used(), 5);
        of_one.pop();
        let again = admit("10.0.0.1").unwrap();
        drop((of_one, other, again));
        assert_eq!(streams.used(), 0);
    }
}
