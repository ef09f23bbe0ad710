//! A cluster in one thread, in which nothing is left to chance.
//!
//! Each seed makes a world ([`world`]): some nodes, which are the real ones
//! without HTTP ([`host`]), on a simulated network, disks, clocks and executor;
//! clients with a mix of requests ([`workload`]); and faults ([`faults`],
//! [`weather`]). A checker of its own ([`checker`]) holds what the clients were
//! told ([`history`]) against every promise of the contract.
//!
//! `KVORUM_SEED=7 cargo test --test sim` replays the world of seed 7, with the
//! end of its trace when a promise is broken (`KVORUM_LINES=100000` for more of
//! it); `KVORUM_SEEDS=10000` runs so many, from that seed on.

#[cfg(test)]
mod clock;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod executor;
#[cfg(test)]
mod expiry;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod host;
#[cfg(test)]
mod log;
#[cfg(test)]
mod network;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod trace;
#[cfg(test)]
mod value;
#[cfg(test)]
mod weather;
#[cfg(test)]
mod workload;
#[cfg(test)]
mod world;
