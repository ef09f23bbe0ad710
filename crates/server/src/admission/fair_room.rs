//! Fair room: a bound on what the connections of a runtime hold together, such as TLS
//! handshakes or bytes of incomplete records.
//!
//! Whoever needs room gets it. If there is too little, another connection is cut: the
//! oldest one of the owner that holds the most (`owners`). A client that does not go on
//! keeps nobody out, because its place is the oldest; a client that floods the node cuts
//! its own connections, because it holds the most.

use super::holdings::Holdings;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::{Rc, Weak};

/// A connection that holds something.
pub(crate) trait GivesWay {
    /// Ends it, because another one needs what it holds.
    fn give_way(&self);
}

/// What the connections of a runtime may hold of something.
pub(crate) struct FairRoom {
    max: usize,
    used: Cell<usize>,
    /// By their numbers, which are in the order in which they were taken.
    holdings: RefCell<Holdings<Weak<dyn GivesWay>>>,
    number_next: Cell<u64>,
    cuts: Cell<u64>,
}

/// What one connection holds, until this is dropped.
pub(crate) struct Place {
    room: Rc<FairRoom>,
    number: u64,
}

impl FairRoom {
    /// Room for `max`, which a single connection may exceed.
    pub(crate) fn new(max: usize) -> Rc<Self> {
        Rc::new(Self {
            max,
            used: Cell::new(0),
            holdings: RefCell::new(Holdings::new()),
            number_next: Cell::new(0),
            cuts: Cell::new(0),
        })
    }

    /// How much is held.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Whether somebody could hold more without cutting another.
    pub(crate) fn is_free(&self) -> bool {
        self.used.get() < self.max
    }

    /// How many connections were ever cut to make room.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.get()
    }

    /// Takes a place with `amount` for `holder`, a connection of `owner`.
    pub(crate) fn enter(
        self: &Rc<Self>,
        owner: IpAddr,
        amount: usize,
        holder: Weak<dyn GivesWay>,
    ) -> Place {
        let number = self.number_next.get();
        self.number_next.set(number + 1);
        let mut holdings = self.holdings.borrow_mut();
        holdings.insert(number, owner, amount, holder);
        drop(holdings);
        self.used.set(self.used.get() + amount);
        self.make_room(number);
        Place {
            room: Rc::clone(self),
            number,
        }
    }

    /// Cuts connections until the rest is within the bound, but not the one that needs room.
    fn make_room(&self, needs: u64) {
        while self.used.get() > self.max {
            let Some(number) = self.holdings.borrow().gives_way(needs) else {
                return;
            };
            self.cut(number);
        }
    }

    fn cut(&self, number: u64) {
        let Some(holder) = self.remove(number) else {
            return;
        };
        self.cuts.set(self.cuts.get() + 1);
        if let Some(holder) = holder.upgrade() {
            holder.give_way();
        }
    }

    fn remove(&self, number: u64) -> Option<Weak<dyn GivesWay>> {
        let (amount, holder) = self.holdings.borrow_mut().remove(number)?;
        self.used.set(self.used.get() - amount);
        Some(holder)
    }
}

impl Place {
    /// Makes the place as large as `amount`, unless it is as large already. It keeps its age.
    pub(crate) fn grow_to(&self, amount: usize) {
        let room = &self.room;
        let more = room.holdings.borrow_mut().grow_to(self.number, amount);
        if more > 0 {
            room.used.set(room.used.get() + more);
            room.make_room(self.number);
        }
    }

    /// Whether the connection was cut to make room for another.
    pub(crate) fn gave_way(&self) -> bool {
        !self.room.holdings.borrow().has(self.number)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::connection_slots::ConnectionScope;
    use crate::net::slow_clients::Progress;

    fn progress() -> Rc<Progress> {
        Rc::new(Progress::new(Rc::default(), ConnectionScope::AnyRequest))
    }

    fn weak(progress: &Rc<Progress>) -> Weak<dyn GivesWay> {
        let holder: Rc<dyn GivesWay> = Rc::<Progress>::clone(progress);
        Rc::downgrade(&holder)
    }

    fn owner(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn who_does_not_go_on_gives_way() {
        let room = FairRoom::new(2);
        let connections: Vec<_> = (0..3).map(|_| progress()).collect();
        let enter = |index: usize| room.enter(owner(1), 1, weak(&connections[index]));
        let mut places = vec![enter(0), enter(1)];
        let given_up = |places: &[Place]| -> Vec<bool> {
            let both = places.iter().zip(&connections);
            both.map(|(place, connection)| {
                assert_eq!(place.gave_way(), connection.is_cut());
                place.gave_way()
            })
            .collect()
        };
        assert_eq!((given_up(&places), room.used()), (vec![false; 2], 2));
        places.push(enter(2));
        assert_eq!(given_up(&places), [true, false, false]);
        assert_eq!((room.used(), room.cuts()), (2, 1));
        drop(places);
        assert_eq!(
            (room.used(), room.cuts()),
            (0, 1),
            "no place is freed twice"
        );
    }

    #[test]
    fn a_flood_of_one_address_keeps_no_other_out() {
        let room = FairRoom::new(8);
        let quiet = progress();
        let place = room.enter(owner(9), 1, weak(&quiet));
        let flood: Vec<_> = (0..1000)
            .map(|_| {
                let connection = progress();
                (room.enter(owner(1), 1, weak(&connection)), connection)
            })
            .collect();
        assert!(!quiet.is_cut() && !place.gave_way());
        assert_eq!((room.used(), room.cuts()), (8, 993));
        let other = progress();
        let _other = room.enter(owner(8), 1, weak(&other));
        assert!(!other.is_cut() && !quiet.is_cut());
        assert!(flood[993].1.is_cut(), "the flood makes room for others");
    }

    #[test]
    fn what_grows_cuts_others_and_never_itself() {
        let room = FairRoom::new(100);
        let (first, second) = (progress(), progress());
        let growing = room.enter(owner(1), 10, weak(&first));
        let other = room.enter(owner(2), 60, weak(&second));
        growing.grow_to(40);
        growing.grow_to(20);
        assert_eq!((room.used(), room.cuts()), (100, 0));
        growing.grow_to(41);
        assert!(other.gave_way() && second.is_cut());
        assert_eq!(room.used(), 41);
        growing.grow_to(1000);
        assert!(!growing.gave_way() && !first.is_cut());
        other.grow_to(7);
        assert_eq!(room.used(), 1000, "who gave way holds nothing");
        drop((growing, other));
        assert_eq!(room.used(), 0);
    }
}
