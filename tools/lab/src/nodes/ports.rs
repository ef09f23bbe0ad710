//! Finds ports for nodes.

use crate::Error;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// The range in which ports are chosen, below the ports that Linux uses for
/// outgoing connections (from 32,768). Otherwise a client could take the port
/// of a node that is down, or a connection could even connect to itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Returns `count` ports of 127.0.0.1 that were free a moment ago.
///
/// # Errors
/// There are not enough free ports.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    // Laboratories that run at the same time begin at different ports.
    let length = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(97) % length;
    let turned = (0..length).filter_map(|step| u16::try_from((first + step) % length).ok());
    // Each port is held until all are found.
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
    fn ports_are_distinct_and_unused() {
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
