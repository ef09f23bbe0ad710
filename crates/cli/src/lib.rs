//! What the commands of `kvorum` and `kvorum-lab` share.
//!
//! - [`access`]: whom a command trusts, and how it shows who it is.
//! - [`values`]: values of options: sizes, times, URLs.
//! - [`failure`]: why a command ends without success; [`exit_codes`]: what its code means.
//! - [`text`]: lines for people; none steers the terminal.
//! - [`signals`], [`threads`]: how a command is stopped, and where its work runs.
//! - [`files`], [`private_file`]: the files that options name.

pub mod access;
pub mod exit_codes;
pub mod failure;
pub mod files;
pub mod private_file;
pub mod signals;
pub mod text;
pub mod threads;
pub mod values;
