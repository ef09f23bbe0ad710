//! What the commands of `kvorum` and `kvorum-lab` share.
//!
//! - [`access`]: which nodes a command asks, whom it trusts, and how it shows who it is;
//!   [`contexts`]: the same, saved by name.
//! - [`values`]: values of options: URLs, choices, numbers within bounds.
//! - [`failure`]: why a command ends without success; [`exit_codes`]: what its code means.
//! - [`text`]: lines for people; none steers the terminal. [`stdout`]: where they go.
//!   [`progress`]: how far work is.
//! - [`signals`], [`threads`]: how a command is stopped, and where its work runs.
//! - [`files`], [`private_file`]: the files that options name.

pub mod access;
pub mod contexts;
pub mod exit_codes;
pub mod failure;
pub mod files;
pub mod private_file;
pub mod progress;
pub mod signals;
pub mod stdout;
pub mod text;
pub mod threads;
pub mod values;
