//! Three nodes as processes: what the others do while one is down, frozen, cut off or empty.

mod backups;
mod conditional_writes;
mod frozen_scans;
mod healing;
mod lost_folder;
mod node_reports;
mod outages;
mod pairs;
mod partitions;
mod refusals;
mod starts;
mod tombstone_gc;
mod tombstone_gc_day;
mod traces;
