//! One node as a process.

mod killed;
mod serve;
mod thread_limits;
mod tokens;
