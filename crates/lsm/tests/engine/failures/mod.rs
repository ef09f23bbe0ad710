//! Failing calls, full disks and damaged tables.

mod damage;
mod damaged_tables;
mod faults;
mod full_disk;
