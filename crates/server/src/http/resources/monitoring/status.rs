//! `/v0/status`: the node and its cluster, as this node sees them. Outside admission,
//! so that an operator can inspect an overloaded node.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::response::page;
use crate::net::Listener;
use crate::status;
use std::time::Duration;
use tokens::RequestedKeys;
use tokio::time::sleep;

/// How often a status that is held looks whether the node has started.
const START_CHECK: Duration = Duration::from_millis(5);

/// `GET` and `HEAD`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    while !has_started(listener) {
        sleep(START_CHECK).await;
    }
    let worker = &listener.worker;
    let render = || {
        let snapshot = worker.node().snapshot();
        page::json(&status::of(listener.shared(), &snapshot, &worker.links()))
    };
    exchange.render(render).await
}

/// Whether the node has started, for those who wait for that; it has within two seconds.
fn has_started(listener: &Listener) -> bool {
    let links = listener.worker.links();
    let (now, own) = (
        listener.clock().monotonic(),
        listener.worker.node().replica_state(),
    );
    listener.is_stopping()
        || listener
            .shared()
            .start_hold
            .is_over(now, own, links.values().cloned())
}
