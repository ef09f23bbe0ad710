//! Test doubles for [`lsm`]: simulated disks, an executor without threads, and what else
//! tests of a store and of its owners share.
//!
//! - [`MemoryDisk`] simulates power cuts, [`FaultyDisk`] fails chosen calls, [`HookedDisk`]
//!   gives a test control of syncs, [`MountedDisk`] has a part that several disks share.
//! - [`StepExecutor`] runs jobs one at a time, as the test says.
//! - [`environment`] is a store's environment made of these; [`BlockingWrite`] waits for the
//!   outcome of a write.
//! - [`fuzz_operations`] compares a store with a model.
//! - [`waiting`] is for tests whose threads wait for each other.
//!
//! The unit tests of `lsm` compile these files as a module of their own: as a crate they are
//! built against the `lsm` without its tests, whose types are others. So the files name each
//! other by `super`, and the engine by `lsm`.

mod engine;
mod faulty;
mod hooked;
mod memory;
mod mounted;
mod operations;
mod step_executor;
pub mod waiting;

pub use engine::{BlockingWrite, Ends, PATIENCE, environment, newer_version_of};
pub use faulty::{Call, Fault, FaultyDisk};
pub use hooked::{HookedDisk, SyncHook};
pub use memory::{MemoryDisk, Unsynced};
pub use mounted::MountedDisk;
pub use operations::fuzz_operations;
pub use step_executor::StepExecutor;
