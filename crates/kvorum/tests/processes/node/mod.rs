//! One node as a process.

mod check;
mod killed;
mod serve;
mod thread_limits;
mod tokens;
