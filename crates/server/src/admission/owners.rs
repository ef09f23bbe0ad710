//! Owners of connections, by their addresses, and whose connection gives way where there
//! are too many: the oldest one of the owner that holds the most. So an owner that floods
//! the node takes room from itself, and not from others.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// The bits of an IPv6 address that are the same in all addresses of one owner.
const IPV6_OWNER_BITS: u32 = 64;

/// One address that stands for all addresses of the same owner. The owner of an
/// IPv6 address can choose the lower half of its bits.
pub(crate) fn owner_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let kept = u128::MAX << (u128::BITS - IPV6_OWNER_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & kept))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Which of several holdings gives way for another one. `held` has the owners and the
/// amounts, the oldest first; `newcomer` has those of the other one, which counts as well.
pub(crate) fn gives_way(held: &[(IpAddr, usize)], newcomer: (IpAddr, usize)) -> usize {
    let mut sums = BTreeMap::from([newcomer]);
    for (owner, amount) in held {
        *sums.entry(*owner).or_insert(0) += amount;
    }
    let most = held.iter().filter_map(|(owner, _)| sums.get(owner)).max();
    held.iter()
        .position(|(owner, _)| sums.get(owner) == most)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_oldest_of_the_owner_with_the_most_gives_way() {
        for (owners, newcomer, index) in [
            (&[1][..], 1, 0),
            (&[1], 2, 0),
            (&[1, 2, 3], 4, 0),
            (&[1, 2, 2, 3, 3], 4, 1),
            (&[1, 2, 3, 3, 2], 2, 1),
            (&[1, 2, 3], 3, 2),
            // A flood from one address takes nothing from the older connection of another.
            (&[9, 1, 1, 1, 1], 1, 1),
            (&[9, 1, 1, 1, 1], 9, 1),
        ] {
            let held: Vec<_> = owners.iter().map(|last| (address(*last), 1)).collect();
            let found = gives_way(&held, (address(newcomer), 1));
            assert_eq!(found, index, "{owners:?} {newcomer}");
        }
        // The amounts count, and not how many there are.
        let held = [(1, 4), (1, 4), (2, 9), (1, 4), (2, 1)];
        let held = held.map(|(last, amount)| (address(last), amount));
        for (newcomer, index) in [((1, 1), 0), ((2, 3), 2), ((3, 1), 0), ((3, 99), 0)] {
            let found = gives_way(&held, (address(newcomer.0), newcomer.1));
            assert_eq!(found, index, "{newcomer:?}");
        }
    }

    #[test]
    fn an_owner_has_an_ipv4_address_or_half_of_an_ipv6_address() {
        let owner = |text: &str| owner_of(text.parse().unwrap());
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:0:0:2"));
        assert_ne!(owner("2001:db8::1"), owner("2001:db8:0:1::1"));
        assert_eq!(owner("::ffff:10.0.0.1"), owner("10.0.0.1"));
        assert_ne!(owner("10.0.0.1"), owner("10.0.0.2"));
    }
}
