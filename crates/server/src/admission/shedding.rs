//! Usage of shared resources by the connections of a runtime: TLS handshakes, bytes of incomplete
//! records, bytes of unread answers. Every request for them succeeds, and another connection is
//! shed if the total is too large ([`FairQuota`]).

use base::FairQuota;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::{Rc, Weak};

/// A connection that holds something.
pub(crate) trait Shed {
    /// Ends it, because another one needs what it holds.
    fn shed(&self);
}

/// What the connections of a runtime may hold of something.
pub(crate) struct ConnectionQuota<O = IpAddr> {
    /// What it is, for the log.
    what: &'static str,
    quota: RefCell<FairQuota<O, Weak<dyn Shed>>>,
}

/// What one connection holds, until this is dropped.
pub(crate) struct Usage<O: Copy + Ord = IpAddr> {
    of: Rc<ConnectionQuota<O>>,
    number: u64,
}

impl<O: Copy + Ord> ConnectionQuota<O> {
    /// A quota of `max`, which a single connection may exceed.
    pub(crate) fn new(max: usize, what: &'static str) -> Rc<Self> {
        Rc::new(Self {
            what,
            quota: RefCell::new(FairQuota::new(max)),
        })
    }

    /// How much is held.
    pub(crate) fn used(&self) -> usize {
        self.quota.borrow().used()
    }

    /// Whether there is room without shedding.
    pub(crate) fn is_free(&self) -> bool {
        self.quota.borrow().is_free()
    }

    /// How many connections were ever shed.
    pub(crate) fn sheds(&self) -> u64 {
        self.quota.borrow().sheds()
    }

    /// Takes `amount` for `holder`, a connection of `owner`.
    pub(crate) fn take(
        self: &Rc<Self>,
        owner: O,
        amount: usize,
        holder: Weak<dyn Shed>,
    ) -> Usage<O> {
        let number = self.quota.borrow_mut().add(owner, amount, holder);
        self.shed_for(number);
        Usage {
            of: Rc::clone(self),
            number,
        }
    }

    /// Sheds connections until the rest is within the bound.
    fn shed_for(&self, number: u64) {
        // A function of its own ends the borrow: whoever is shed comes back here.
        let next = || self.quota.borrow_mut().shed_for(number);
        while let Some((amount, holder)) = next() {
            tracing::debug!(amount, what = self.what, "shed a connection");
            if let Some(holder) = holder.upgrade() {
                holder.shed();
            }
        }
    }
}

impl<O: Copy + Ord> Usage<O> {
    /// Holds `amount`, unless it is as much already. It keeps its age.
    pub(crate) fn grow_to(&self, amount: usize) {
        self.of.quota.borrow_mut().grow_to(self.number, amount);
        self.of.shed_for(self.number);
    }

    /// Whether the connection was shed.
    pub(crate) fn is_shed(&self) -> bool {
        !self.of.quota.borrow().has(self.number)
    }
}

impl<O: Copy + Ord> Drop for Usage<O> {
    fn drop(&mut self) {
        let removed = self.of.quota.borrow_mut().remove(self.number);
        // Outside of the borrow.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::connection_slots::ConnectionScope;
    use crate::net::slow_clients::ConnectionProgress;

    #[test]
    fn a_connection_that_does_not_go_on_is_shed_and_nothing_is_given_back_twice() {
        let quota = ConnectionQuota::new(2, "handshakes");
        let mut usages = Vec::new();
        let mut connections = Vec::new();
        let mut take = || {
            let progress = Rc::new(ConnectionProgress::new(
                Rc::default(),
                ConnectionScope::AnyRequest,
            ));
            let holder: Rc<dyn Shed> = Rc::<ConnectionProgress>::clone(&progress);
            usages.push(quota.take(IpAddr::from([10, 0, 0, 1]), 1, Rc::downgrade(&holder)));
            connections.push(progress);
            let shed: Vec<_> = usages.iter().map(Usage::is_shed).collect();
            let cut: Vec<_> = connections.iter().map(|it| it.is_cut()).collect();
            assert_eq!(shed, cut);
            shed
        };
        take();
        assert_eq!((take(), quota.is_free()), (vec![false; 2], false));
        assert_eq!(take(), [true, false, false]);
        usages[0].grow_to(7);
        assert_eq!((quota.used(), quota.sheds()), (2, 1));
        drop(usages);
        assert_eq!((quota.used(), quota.sheds()), (0, 1));
    }
}
