//! The console in a real browser: a headless Chromium, on a cluster of three nodes.
//!
//! Without Chromium each test says so in a line, and passes.

#[cfg(test)]
mod accessibility;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of `kvorum dev` use the rest of it")]
mod browser;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod member_changes;
#[cfg(test)]
mod page;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod profiles;
#[cfg(test)]
mod redrawing;
#[cfg(test)]
mod runbooks;
#[cfg(test)]
#[path = "../cluster/support.rs"]
#[expect(dead_code, reason = "the tests of clusters use the rest of it")]
mod support;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod troubles;
#[cfg(test)]
#[path = "../http/support/mod.rs"]
#[expect(dead_code, reason = "the tests of one node use the rest of it")]
mod wire;
