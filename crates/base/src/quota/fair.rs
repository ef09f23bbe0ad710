//! A bound on the total usage of something, divided fairly between owners.
//!
//! [`FairQuota::add`] always succeeds, and if the total is too large, another usage is shed.
//! [`FairQuota::try_add`] is for usages that cannot be shed: it refuses what is too much for the
//! quota or for its owner.
//!
//! The quota sheds the oldest usage of the owner that uses the most. A stalled usage shuts nobody
//! out, because it is the oldest; an owner that floods the node loses its own, because it uses the
//! most. The quota finds it without a look at all of them.

use super::Refused;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// All current usages of one resource, by number and by owner. Each carries a `T`, which is handed
/// back when it is shed.
#[derive(Debug)]
pub struct FairQuota<O, T> {
    max: usize,
    used: usize,
    /// By their numbers, which are in the order in which they began.
    usages: BTreeMap<u64, Usage<O, T>>,
    by_owner: BTreeMap<O, OfOwner>,
    /// All owners by what they use. Ascending, so the last owner uses most.
    by_usage: BTreeSet<Rank<O>>,
    next_number: u64,
    sheds: u64,
}

/// What an owner uses, its oldest usage, and itself.
type Rank<O> = (usize, Reverse<u64>, O);

#[derive(Debug)]
struct Usage<O, T> {
    owner: O,
    amount: usize,
    user: T,
}

#[derive(Debug, Default)]
struct OfOwner {
    amount: usize,
    /// Its usages.
    numbers: BTreeSet<u64>,
}

impl<O: Copy + Ord, T> FairQuota<O, T> {
    /// A quota of `max`, which a single usage may exceed.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            used: 0,
            usages: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_usage: BTreeSet::new(),
            next_number: 0,
            sheds: 0,
        }
    }

    /// How much is used.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Whether more may be used, and nothing is shed for it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.used < self.max
    }

    /// How many usages were ever shed.
    #[must_use]
    pub fn sheds(&self) -> u64 {
        self.sheds
    }

    /// Whether there is a usage with this number: it was neither removed nor shed.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        self.usages.contains_key(&number)
    }

    /// Adds a usage, and returns its number. Then [`FairQuota::shed_for`] is to be called.
    pub fn add(&mut self, owner: O, amount: usize, user: T) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let usage = Usage {
            owner,
            amount,
            user,
        };
        self.usages.insert(number, usage);
        self.used += amount;
        self.change(owner, |of_owner| {
            of_owner.amount += amount;
            of_owner.numbers.insert(number);
        });
        number
    }

    /// Adds a usage without shedding another one. With it, its owner may use `each_max` at most.
    ///
    /// # Errors
    /// [`Refused`] if it is too much.
    pub fn try_add(
        &mut self,
        owner: O,
        amount: usize,
        each_max: usize,
        user: T,
    ) -> Result<u64, Refused> {
        let of_owner = self.by_owner.get(&owner);
        let of_owner = of_owner.map_or(0, |of_owner| of_owner.amount);
        if self.used + amount > self.max || of_owner + amount > each_max {
            return Err(Refused);
        }
        Ok(self.add(owner, amount, user))
    }

    /// Raises a usage to `amount`, unless it has as much already. It keeps its age. Then
    /// [`FairQuota::shed_for`] is to be called.
    pub fn grow_to(&mut self, number: u64, amount: usize) {
        let Some(usage) = self.usages.get_mut(&number) else {
            return;
        };
        let more = amount.saturating_sub(usage.amount);
        if more > 0 {
            usage.amount += more;
            self.used += more;
            let owner = usage.owner;
            self.change(owner, |of_owner| of_owner.amount += more);
        }
    }

    /// Ends a usage. Returns what came with it.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let Usage {
            owner,
            amount,
            user,
        } = self.usages.remove(&number)?;
        self.used -= amount;
        self.change(owner, |of_owner| {
            of_owner.amount -= amount;
            of_owner.numbers.remove(&number);
        });
        Some(user)
    }

    /// If too much is used, ends the usage that is to be shed for the one with this number, and
    /// returns how much it had and what came with it. Call it until it returns nothing.
    pub fn shed_for(&mut self, number: u64) -> Option<(usize, T)> {
        if self.used <= self.max {
            return None;
        }
        let shed = self.first_to_shed(number)?;
        let before = self.used;
        let user = self.remove(shed)?;
        self.sheds += 1;
        Some((before - self.used, user))
    }

    /// Picks a victim for usage `number`, never `number` itself: the oldest usage of the owner that
    /// uses most, with `number` counted in. `None` if there is no other usage.
    fn first_to_shed(&self, number: u64) -> Option<u64> {
        let owner = self.usages.get(&number)?.owner;
        let own = self.by_owner.get(&owner)?;
        let own_oldest = own.numbers.iter().find(|own| **own != number);
        let own = own_oldest.map(|oldest| (own.amount, Reverse(*oldest)));
        let mut others = self.by_usage.iter().rev();
        let other = others.find(|(_, _, ranked)| *ranked != owner);
        let other = other.map(|(amount, oldest, _)| (*amount, *oldest));
        own.max(other).map(|(_, Reverse(oldest))| oldest)
    }

    /// Changes what an owner uses, and its rank with it.
    fn change(&mut self, owner: O, change: impl FnOnce(&mut OfOwner)) {
        let of_owner = self.by_owner.entry(owner).or_default();
        if let Some(rank) = of_owner.rank(owner) {
            self.by_usage.remove(&rank);
        }
        change(of_owner);
        match of_owner.rank(owner) {
            Some(rank) => drop(self.by_usage.insert(rank)),
            None => drop(self.by_owner.remove(&owner)),
        }
    }
}

impl OfOwner {
    /// `None` if it uses nothing.
    fn rank<O>(&self, owner: O) -> Option<Rank<O>> {
        let oldest = self.numbers.first()?;
        Some((self.amount, Reverse(*oldest), owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, SeededRandom};

    /// Adds usages of these owners and amounts to a quota of `max`, and sheds for each. Returns
    /// which were shed, by their numbers.
    fn shed_by(max: usize, usages: &[(u8, usize)]) -> Vec<usize> {
        let mut quota = FairQuota::new(max);
        let mut shed = Vec::new();
        for (user, (owner, amount)) in usages.iter().enumerate() {
            let number = quota.add(*owner, *amount, user);
            shed.extend(std::iter::from_fn(|| quota.shed_for(number)).map(|(_, user)| user));
        }
        assert_eq!(quota.sheds(), shed.len() as u64);
        shed
    }

    #[test]
    fn the_oldest_of_the_owner_with_the_most_is_shed() {
        for (owners, shed) in [
            (&[1, 1][..], 0),
            (&[1, 2], 0),
            (&[1, 2, 3, 4], 0),
            (&[1, 2, 2, 3, 3, 4], 1),
            (&[1, 2, 3, 3, 2, 2], 1),
            (&[1, 2, 3, 3], 2),
            // A flood of one owner takes nothing from the older usage of another.
            (&[9, 1, 1, 1, 1, 1], 1),
            (&[9, 1, 1, 1, 1, 9], 1),
        ] {
            let usages: Vec<_> = owners.iter().map(|owner| (*owner, 1)).collect();
            assert_eq!(shed_by(owners.len() - 1, &usages), [shed], "{owners:?}");
        }
        // The amounts count, and not how many there are.
        let held = [(1, 4), (1, 4), (2, 9), (1, 4), (2, 1)];
        for (newcomer, shed) in [((1, 1), 0), ((2, 3), 2), ((3, 1), 0)] {
            let usages = [&held[..], &[newcomer]].concat();
            assert_eq!(shed_by(22, &usages), [shed], "{newcomer:?}");
        }
        assert_eq!(
            shed_by(22, &[&held[..], &[(3, 22)]].concat()),
            [0, 2, 1, 3, 4]
        );
    }

    #[test]
    fn a_flood_of_one_owner_keeps_no_other_out() {
        let mut usages = vec![(9, 1)];
        usages.extend([(1, 1); 1000]);
        usages.push((8, 1));
        let shed = shed_by(8, &usages);
        assert_eq!(shed, (1..995).collect::<Vec<_>>());
    }

    #[test]
    fn what_grows_sheds_others_and_never_itself() {
        let mut quota = FairQuota::new(100);
        let (growing, other) = (quota.add(1, 10, "growing"), quota.add(2, 60, "other"));
        quota.grow_to(growing, 40);
        quota.grow_to(growing, 20);
        assert_eq!((quota.used(), quota.shed_for(growing)), (100, None));
        assert!(!quota.is_free());
        quota.grow_to(growing, 41);
        assert_eq!(quota.shed_for(growing), Some((60, "other")));
        assert_eq!((quota.used(), quota.shed_for(growing)), (41, None));
        quota.grow_to(growing, 1000);
        assert_eq!(quota.shed_for(growing), None);
        assert!(quota.has(growing) && !quota.has(other));
        quota.grow_to(other, 7);
        assert_eq!(quota.used(), 1000, "what was shed uses nothing");
        assert_eq!(
            (quota.remove(growing), quota.remove(other)),
            (Some("growing"), None)
        );
        assert_eq!((quota.used(), quota.sheds()), (0, 1));
    }

    #[test]
    fn an_owner_may_be_refused_more_than_its_part() {
        let mut quota = FairQuota::new(5);
        for _ in 0..3 {
            quota.try_add(1, 1, 3, ()).unwrap();
        }
        assert_eq!(quota.try_add(1, 1, 3, ()), Err(Refused));
        quota.try_add(2, 1, 3, ()).unwrap();
        let last = quota.try_add(2, 1, 3, ()).unwrap();
        assert_eq!(quota.try_add(3, 1, 3, ()), Err(Refused), "none is left");
        quota.remove(last);
        quota.try_add(3, 1, 3, ()).unwrap();
    }

    /// Which one is shed, by a look at all of them.
    fn found_by_all(quota: &FairQuota<u64, ()>, newcomer: u64) -> Option<u64> {
        let mut sums = BTreeMap::new();
        for usage in quota.usages.values() {
            *sums.entry(usage.owner).or_insert(0) += usage.amount;
        }
        let others = quota
            .usages
            .iter()
            .filter(|(number, _)| **number != newcomer);
        let others = others.map(|(number, usage)| (sums.get(&usage.owner), Reverse(*number)));
        others.max().map(|(_, Reverse(number))| number)
    }

    #[test]
    fn it_finds_what_a_look_at_all_finds() {
        let random = SeededRandom::new(5);
        let below = |bound: u64| random.next_u64() % bound;
        let mut quota = FairQuota::new(30);
        for step in 0..3000 {
            let number = quota.add(below(6), below(4) as usize, ());
            assert_eq!(number, step);
            let grows = below(number + 1);
            quota.grow_to(grows, below(6) as usize);
            for newcomer in [number, grows].into_iter().filter(|it| quota.has(*it)) {
                let expected = found_by_all(&quota, newcomer);
                assert_eq!(quota.first_to_shed(newcomer), expected, "{number}");
            }
            while quota.shed_for(number).is_some() {}
            assert!(quota.used() <= 30 || quota.usages.len() == 1);
        }
        for number in 0..3000 {
            quota.remove(number);
        }
        assert!(quota.by_owner.is_empty() && quota.by_usage.is_empty());
    }
}
