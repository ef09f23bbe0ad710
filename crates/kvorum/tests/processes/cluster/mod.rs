//! Three nodes as processes: what the others do while one is down, frozen, cut off or empty.

mod forgotten_day;
mod frozen_scans;
mod healing;
mod lost_folder;
mod node_reports;
mod outages;
mod partitions;
mod refusals;
mod starts;
mod tombstone_gc;
mod traces;
