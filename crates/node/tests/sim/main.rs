//! The simulation: whole clusters on one thread, determined by a seed.
//!
//! Each seed makes a world ([`world`]):
//!
//! - *Hosts* ([`host`]) run the real nodes without HTTP, on a simulated [`network`] and
//!   simulated disks, clocks ([`clock`]) and executors ([`executor`]).
//! - A *workload* ([`workload`]) of several clients sends requests.
//! - A *nemesis* ([`faults`]) injects faults. The [`scenario`] says which kinds, and how
//!   large and how fast the world is.
//! - At the end all faults are healed, and the cluster must reach *quiescence*
//!   (`world/quiescence.rs`): hints drain and replicas agree.
//! - The *checker* (the crate `checker`) compares the history of what clients saw with
//!   every promise of the API. Other checks of [`world`] look into the stores.
//!
//! All chance comes from [`dice`], so a seed always leads to the same [`trace`].
//!
//! `KVORUM_SEED=7 cargo test -p node --test sim` replays the world of seed 7. If a
//! promise is broken, it prints the end of the trace (`KVORUM_LINES=100000` prints more
//! lines). `KVORUM_SEEDS=10000` runs 10,000 seeds, beginning with `KVORUM_SEED` or 0.

#[cfg(test)]
mod clock;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod executor;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod host;
#[cfg(test)]
mod network;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod trace;
#[cfg(test)]
mod value;
#[cfg(test)]
mod workload;
#[cfg(test)]
mod world;
