//! `/v0/admin/…`: orders of operators. Outside admission, because an operator may need them on an
//! overloaded node, and because waiting for the end of one costs nothing.
//!
//! - `backups`: makes, lists, verifies and prunes backups of the cluster.
//! - `compact`: compacts the whole store.
//! - `members`: changes the list of members.
//! - `repair`: runs a repair session.
//! - `tokens`: the tokens that the nodes share.
//! - `set_aside`: what the store has set aside. It counts as a read, or a write.

pub(super) mod backups;
pub(super) mod compact;
pub(super) mod members;
pub(super) mod repair;
pub(super) mod set_aside;
pub(super) mod tokens;

use crate::net::Listener;
use crate::net::channel::Channel;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// How often a wait checks whether the client has left or the node stops.
const CHECK_PERIOD: Duration = Duration::from_millis(100);

/// Whether a request still waits: its client has not left, and the node does not stop.
async fn is_still_waiting(listener: &Listener, channel: &Channel) -> bool {
    !listener.is_stopping() && !poll_fn(|cx| Poll::Ready(channel.has_client_left(cx))).await
}
