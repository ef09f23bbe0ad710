//! Several nodes as their clients see them: the HTTP contract of a cluster,
//! over real sockets, on disks in memory and clocks that can be set wrong.

#[cfg(test)]
mod batches;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod compact_requests;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod digests;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod filled_stores;
#[cfg(test)]
mod handoff;
#[cfg(test)]
mod health;
#[cfg(test)]
mod load;
#[cfg(test)]
mod long_values;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod node_report;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod range_partners;
#[cfg(test)]
mod ranges;
#[cfg(test)]
mod rebuilds;
#[cfg(test)]
mod repair_requests;
#[cfg(test)]
mod repairs;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tombstone_gc;
#[cfg(test)]
mod unauthenticated_peers;
#[cfg(test)]
mod voter;
#[cfg(test)]
#[path = "../http/support.rs"]
#[expect(dead_code, reason = "the tests of one node use the rest of it")]
mod wire;
