//! Ports for nodes.

use crate::Error;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Where ports are looked for: below those that Linux gives to outgoing
/// connections (from 32,768). A port of that range could be taken by a client
/// while its node is down, or a client could even be connected to itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// So many ports of 127.0.0.1 that were free a moment ago.
///
/// # Errors
/// There are not so many.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    // Laboratories side by side begin in different places.
    let length = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(97) % length;
    let turned = (0..length).filter_map(|step| u16::try_from((first + step) % length).ok());
    // Each is held until all are found.
    let held: Vec<(u16, TcpListener)> = turned
        .map(|offset| PORTS.start + offset)
        .filter_map(|port| Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
        .take(count)
        .collect();
    if held.len() < count {
        return Err(Error::system("free ports")(io::ErrorKind::AddrInUse.into()));
    }
    Ok(held.into_iter().map(|(port, _)| port).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_one_in_use_is_not_given() {
        let taken = free_ports(1).unwrap()[0];
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, taken)).unwrap();
        let mut ports = free_ports(20).unwrap();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
        assert!(!ports.contains(&taken));
        drop(listener);
    }
}
