//! What connections hold of something, by connection and by owner. It knows who gives way
//! (`owners` says which that is) without a look at all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What connections hold, each with a `T` of its own.
pub(super) struct Holdings<T> {
    by_number: BTreeMap<u64, Holding<T>>,
    by_owner: BTreeMap<IpAddr, OfOwner>,
    /// All owners. The last one gives way.
    ranking: BTreeSet<Rank>,
}

/// What an owner holds, its oldest connection, and itself.
type Rank = (usize, Reverse<u64>, IpAddr);

struct Holding<T> {
    owner: IpAddr,
    amount: usize,
    holder: T,
}

#[derive(Default)]
struct OfOwner {
    amount: usize,
    /// Its connections.
    numbers: BTreeSet<u64>,
}

impl<T> Holdings<T> {
    /// Nobody holds anything.
    pub(super) fn new() -> Self {
        Self {
            by_number: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            ranking: BTreeSet::new(),
        }
    }

    /// Whether the connection with this number holds something.
    pub(super) fn has(&self, number: u64) -> bool {
        self.by_number.contains_key(&number)
    }

    /// Adds a connection of `owner`, whose number is greater than all before.
    pub(super) fn insert(&mut self, number: u64, owner: IpAddr, amount: usize, holder: T) {
        let holding = Holding {
            owner,
            amount,
            holder,
        };
        self.by_number.insert(number, holding);
        self.change(owner, |of_owner| {
            of_owner.amount += amount;
            of_owner.numbers.insert(number);
        });
    }

    /// Lets a connection hold `amount`, unless it holds as much already. Returns how much more
    /// that is.
    pub(super) fn grow_to(&mut self, number: u64, amount: usize) -> usize {
        let Some(holding) = self.by_number.get_mut(&number) else {
            return 0;
        };
        let more = amount.saturating_sub(holding.amount);
        holding.amount += more;
        if more > 0 {
            let owner = holding.owner;
            self.change(owner, |of_owner| of_owner.amount += more);
        }
        more
    }

    /// Takes a connection out: how much it held, and what came with it.
    pub(super) fn remove(&mut self, number: u64) -> Option<(usize, T)> {
        let Holding {
            owner,
            amount,
            holder,
        } = self.by_number.remove(&number)?;
        self.change(owner, |of_owner| {
            of_owner.amount -= amount;
            of_owner.numbers.remove(&number);
        });
        Some((amount, holder))
    }

    /// Which connection gives way to the one with the number `newcomer`, which counts as well:
    /// the oldest other one of the owner that holds the most; `None` if there is no other one.
    pub(super) fn gives_way(&self, newcomer: u64) -> Option<u64> {
        let owner = self.by_number.get(&newcomer)?.owner;
        let own = self.by_owner.get(&owner)?;
        let own_oldest = own.numbers.iter().find(|number| **number != newcomer);
        let own = own_oldest.map(|oldest| (own.amount, Reverse(*oldest)));
        let mut others = self.ranking.iter().rev();
        let other = others.find(|(_, _, ranked)| *ranked != owner);
        let other = other.map(|(amount, oldest, _)| (*amount, *oldest));
        own.max(other).map(|(_, Reverse(number))| number)
    }

    /// Changes what an owner holds, and its rank with it.
    fn change(&mut self, owner: IpAddr, change: impl FnOnce(&mut OfOwner)) {
        let of_owner = self.by_owner.entry(owner).or_default();
        if let Some(rank) = of_owner.rank(owner) {
            self.ranking.remove(&rank);
        }
        change(of_owner);
        match of_owner.rank(owner) {
            Some(rank) => drop(self.ranking.insert(rank)),
            None => drop(self.by_owner.remove(&owner)),
        }
    }
}

impl OfOwner {
    /// `None` if it has no connection.
    fn rank(&self, owner: IpAddr) -> Option<Rank> {
        let oldest = self.numbers.first()?;
        Some((self.amount, Reverse(*oldest), owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::owners;
    use base::{Random, SeededRandom};

    /// What a look at all holdings finds.
    fn found_by_all(holdings: &Holdings<()>, newcomer: u64) -> Option<u64> {
        let all = || holdings.by_number.iter();
        let others: Vec<_> = all().filter(|(number, _)| **number != newcomer).collect();
        let pair = |holding: &Holding<()>| (holding.owner, holding.amount);
        let held: Vec<_> = others.iter().map(|(_, holding)| pair(holding)).collect();
        let index = owners::gives_way(&held, pair(&holdings.by_number[&newcomer]));
        others.get(index).map(|(number, _)| **number)
    }

    #[test]
    fn it_finds_who_a_look_at_all_finds() {
        let random = SeededRandom::new(5);
        let below = |bound: u64| random.next_u64() % bound;
        let mut holdings = Holdings::new();
        for number in 0..3000 {
            let owner = IpAddr::from([10, 0, 0, below(6) as u8]);
            holdings.insert(number, owner, below(4) as usize, ());
            let grows = below(number + 1);
            let held = holdings.by_number.get(&grows).map_or(0, |it| it.amount);
            let amount = below(6) as usize;
            let more = holdings.grow_to(grows, amount);
            let is_there = holdings.has(grows);
            assert_eq!(
                more,
                if is_there {
                    amount.saturating_sub(held)
                } else {
                    0
                }
            );
            for newcomer in [number, grows].into_iter().filter(|it| holdings.has(*it)) {
                let found = holdings.gives_way(newcomer);
                assert_eq!(found, found_by_all(&holdings, newcomer), "{number}");
            }
            if holdings.by_number.len() > 20 {
                let cut = holdings.gives_way(number).unwrap();
                assert!(holdings.remove(cut).is_some() && holdings.remove(cut).is_none());
            }
        }
        for number in 0..3000 {
            holdings.remove(number);
        }
        assert!(holdings.by_owner.is_empty() && holdings.ranking.is_empty());
    }
}
