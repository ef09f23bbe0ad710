//! Owners of connections, by their addresses.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_an_ipv4_address_or_half_of_an_ipv6_address() {
        let owner = |text: &str| owner_of(text.parse().unwrap());
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:0:0:2"));
        assert_ne!(owner("2001:db8::1"), owner("2001:db8:0:1::1"));
        assert_eq!(owner("::ffff:10.0.0.1"), owner("10.0.0.1"));
        assert_ne!(owner("10.0.0.1"), owner("10.0.0.2"));
    }
}
