//! `/v0/admin/…`: what an operator has this node do now. Outside admission, because an
//! operator may need it on an overloaded node, and because a client that waits for an end
//! does no work.
//!
//! - `compact`: compacts the whole store.
//! - `sweep`: drives a pass of a repair.

pub(super) mod compact;
pub(super) mod repair;

use crate::net::Listener;
use crate::net::channel::Channel;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// How often a wait checks whether the client has left or the node stops.
const CHECK_PERIOD: Duration = Duration::from_millis(100);

/// Whether a request still waits: its client has not left, and the node does not stop.
async fn still_waits(listener: &Listener, channel: &Channel) -> bool {
    !listener.is_stopping() && !poll_fn(|cx| Poll::Ready(channel.has_client_left(cx))).await
}
