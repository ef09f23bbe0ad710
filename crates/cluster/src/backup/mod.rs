//! The cut of a backup: which moment of the cluster it holds.
//!
//! Clocks may be an hour apart and the engine keeps one version a key, so no timestamp says what
//! was acknowledged before a moment. The cut is a barrier instead: each store holds its commits
//! off, freezes what it has, and reports. Once all have, there is a moment at which all of them
//! hold, and all go on.
//!
//! ```text
//! coordinator     store a                store b
//!   hold  ------->  commits held off
//!   hold  ----------------------------->  commits held off
//!         <-------  held, number 7
//!         <-----------------------------  held, number 3
//!                   . . . . . the cut . . . . . . . .
//!   go on ------->  was 7 in force until now? yes
//!   go on ----------------------------->  was 3 in force until now? yes
//! ```
//!
//! A hold ends by itself after a moment, so that a coordinator that dies holds no writes up. So
//! that the holds did overlap is not known by a clock: each store says when it goes on whether its
//! hold has lasted ([`base::Hold`]). The coordinator tells the first one to go on only after the
//! last one has reported, so if all of them say yes, they all held at the moment in between.
//!
//! What that gives, if `missing` stores are not part of the cut:
//! - **All before.** What more than `missing` stores had acknowledged before the cut began is in
//!   it: those that are part of it had committed it before they held.
//! - **Nothing after.** What began after the cut has ended is not in it.
//! - **No gaps.** If a write is in the cut, so is everything that was acknowledged before that
//!   write began: it was committed before the moment at which all held, so before each hold.
//!
//! [`Cut`] is the coordinator. The model explores all interleavings of it with stores that restart,
//! holds that end, messages that are lost, late or come twice, and two coordinators at once.

mod cut;
#[cfg(test)]
mod model;

pub use cut::{Cut, CutFailure, CutNode, CutResult, CutStep, HeldStore};
