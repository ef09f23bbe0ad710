//! Several nodes as their clients see them: the HTTP contract of a cluster,
//! over real sockets, on disks in memory and clocks that can be set wrong.

#[cfg(test)]
mod clocks;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod monitoring;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod scans;
#[cfg(test)]
mod support;
#[cfg(test)]
mod unauthenticated_peers;
#[cfg(test)]
#[path = "../http/support/mod.rs"]
#[expect(dead_code, reason = "the tests of one node use the rest of it")]
mod wire;
